"""Pure functions on numbers: no I/O, no torch."""
