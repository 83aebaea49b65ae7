"""What can be wrong with a bundle."""

from __future__ import annotations


class BundleError(Exception):
    """A bundle cannot be read or written: one sentence saying what, where and what to do."""
