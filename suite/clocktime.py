"""Wall-clock time as the bundle writes it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """The time now, ISO 8601 in UTC to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
