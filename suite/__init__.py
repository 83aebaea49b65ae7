"""Speedproof's measuring side: runs cases and writes bundles."""

__version__ = "0.1.0"
