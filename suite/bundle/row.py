"""What every struct of the bundle is built from: the base class and the checked kinds of text and number."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1, le=2**62)]
Text = Annotated[str, Meta(min_length=1)]
Moment = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
"""ISO 8601 in UTC."""

# Cases and arms become folders below a bundle: no name may lead out of it.
CaseName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][\w.#-]*/[A-Za-z0-9_][\w.#-]*$")]
ArmName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][\w-]*$")]
ArmLabel = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][\w-]*(#\d+)?$")]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of every struct in the bundle: immutable, keyword only, unknown fields ignored when read."""
