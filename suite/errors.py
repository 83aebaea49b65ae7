"""The one exception that a user is meant to read."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or a place that cannot be written: one sentence saying what, where and what to do. Exit status 2."""
