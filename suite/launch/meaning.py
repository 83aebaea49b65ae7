"""Values of OpenMP variables compared by meaning: run-times print back what they understood, in words of their own.

Seen with Intel's run-time: KMP_BLOCKTIME=1 is printed as "1ms", KMP_AFFINITY=granularity=fine,compact,1,0 as
"noverbose,warnings,respect,noreset,nobind_init,perf_bind,granularity=thread,compact,1,0".
"""

from __future__ import annotations

import re

TYPES = ("none", "disabled", "compact", "scatter", "balanced", "explicit", "logical", "physical")
FLAGS = ("verbose", "warnings", "respect", "reset")
SYNONYMS = {"fine": "thread"}
TRUE, FALSE = (
    ("1", "true", "yes", "on", ".true.", "t", "enabled"),
    ("0", "false", "no", "off", ".false.", "f", "disabled"),
)
# libomp keeps the time as an int of microseconds at most; "infinite" is printed as the most milliseconds that it can hold.
INFINITE_US = 2_147_483_000


def same(name: str, asked: str, read: str) -> bool:
    """Whether `read`, as a run-time printed it for the variable `name`, means what was asked for."""
    asked, read = (text.strip().strip("'\"").lower() for text in (asked, read))
    if name == "KMP_AFFINITY":
        return not affinity_differences(asked, read)
    if name == "KMP_BLOCKTIME":
        return microseconds(asked) == microseconds(read) is not None
    if asked == read or (asked in TRUE and read in TRUE) or (asked in FALSE and read in FALSE):
        return True
    if name.endswith("STACKSIZE"):
        # OMP_STACKSIZE without a unit is in kilobytes, KMP_STACKSIZE in bytes.
        unit = "k" if name.startswith("OMP") else "b"
        return _bytes(asked, unit) == _bytes(read, unit) is not None
    return re.sub(r"\s", "", asked) == re.sub(r"\s", "", read)


def microseconds(blocktime: str) -> int | None:
    """KMP_BLOCKTIME in microseconds: "200" (milliseconds), "200us", "1ms", "infinite"; None for what is none of these."""
    text = blocktime.strip().lower()
    if text in ("infinite", "infinity"):
        return INFINITE_US
    match = re.fullmatch(r"(\d+)\s*(us|ms|s?)", text)
    if match is None or match[2] == "s":
        return None
    return min(INFINITE_US, int(match[1]) * (1 if match[2] == "us" else 1000))


def affinity_differences(asked: str, read: str) -> list[str]:
    """The words of a KMP_AFFINITY that the run-time's own wording contradicts or lacks; empty when it means the same."""
    wanted, got = _affinity(asked), _affinity(read)
    differences = [
        f"{key} {value} became {got.get(key, 'nothing')}" for key, value in wanted.items() if got.get(key) != value
    ]
    # Numbers after scatter and others are recomputed from the machine's levels.
    if wanted.get("type") != "compact" or got.get("type") != "compact":
        differences = [text for text in differences if not text.startswith(("permute ", "offset "))]
    return differences


def binds(affinity: str) -> bool:
    """Whether a KMP_AFFINITY asks for threads to be bound."""
    return _affinity(affinity).get("type", "none") not in ("none", "disabled")


def resets(affinity: str) -> bool:
    """Whether a KMP_AFFINITY gives the primary thread its own CPU mask back after each parallel region, or leaves it alone."""
    return _affinity(affinity).get("reset") == "reset" or not binds(affinity)


def one_thread_each(affinity: str) -> bool:
    """Whether a KMP_AFFINITY asks for one hardware thread for each OpenMP thread."""
    return binds(affinity) and _affinity(affinity).get("granularity") == "thread"


def _affinity(text: str) -> dict[str, str]:
    """The words of a KMP_AFFINITY by what they steer. Commas inside brackets or braces belong to a list of processors."""
    found: dict[str, str] = {}
    numbers = []
    for part in re.findall(r"(?:[^,\[{]|\[[^\]]*\]|\{[^}]*\})+", text.strip().strip("'\"").lower()):
        word = part.strip()
        if word.removeprefix("no") in FLAGS:
            found[word.removeprefix("no")] = word
        elif word.startswith("granularity="):
            value = word.partition("=")[2]
            found["granularity"] = SYNONYMS.get(value, value)
        elif word.startswith("proclist="):
            found["proclist"] = re.sub(r"\s", "", word.partition("=")[2])
        elif word in TYPES:
            found["type"] = word
        elif word.isdigit():
            numbers.append(word)
        elif word not in ("nobind_init", "bind_init", "perf_bind", "effi_bind", "noperf_bind"):
            found[word] = "asked for"
    return found | dict(zip(("permute", "offset"), numbers, strict=False))


def _bytes(text: str, unit: str) -> int | None:
    match = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", text)
    return None if match is None else int(match[1]) << {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2] or unit]
