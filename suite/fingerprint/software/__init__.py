"""Python and its packages, compilers, torch."""
