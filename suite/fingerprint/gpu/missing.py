"""Why nothing can be measured on a GPU here, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from suite.bundle.schema import Fact


def why_not(facts: Mapping[str, Fact]) -> str:
    """The sentence for `make bench-gpu`, from the facts of `suite.fingerprint.gpu.devices.read`.

    It is never empty: with a GPU that can be used, what is missing is the suite's own.
    """
    count = facts["count"]
    if isinstance(count.value, int) and count.value > 0:
        names = sorted({str(fact.value) for name, fact in facts.items() if name.endswith(" name") and fact.value})
        named = f" ({', '.join(names)})" if names else ""
        what = f"{count.value} GPU{'s are' if count.value != 1 else ' is'} here{named}"
        return f"{what}, but measuring on GPUs is not there yet; `make bench-cpu` measures this machine's processor."
    note = count.note or "NVML tells of none"
    return f"nothing can be measured on a GPU here: {note} ({count.source}); `make bench-cpu` measures the processor."
