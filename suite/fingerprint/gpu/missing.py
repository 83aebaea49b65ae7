"""Why nothing can be measured on a GPU here, in one sentence, from what can be seen before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping

from suite.bundle.schema import Fact


def refusal(facts: Mapping[str, Fact], torch_version: str, *, driver_library: bool = False) -> str:
    """The sentence for `make bench-gpu`; empty when torch has to be asked.

    `facts` are those of `suite.fingerprint.gpu.devices.read`, `torch_version` the installed one ("2.13.0+cpu"). A GPU whose management
    library cannot be asked is no reason yet: torch may use it all the same; `driver_library` tells whether the driver's own library can be
    loaded.
    """
    count = facts["count"]
    if isinstance(count.value, int) and count.value > 0:
        return _no_cuda(facts, count.value, torch_version)
    note = count.note or "NVML tells of none"
    built_for_it = bool(torch_version) and not torch_version.endswith("+cpu")
    if built_for_it and (driver_library or _may_work(count)):
        return ""
    return f"nothing can be measured on a GPU here: {note} ({count.source}); `make bench-cpu` measures the processor."


def _may_work(count: Fact) -> bool:
    """Whether something of NVIDIA's driver is there, and only NVML does not answer."""
    return count.value is None and count.source.startswith(("NVML", "libnvidia-ml"))


def _no_cuda(facts: Mapping[str, Fact], count: int, torch_version: str) -> str:
    if torch_version and not torch_version.endswith("+cpu"):
        return ""
    names = sorted({str(fact.value) for name, fact in facts.items() if name.endswith(" name") and fact.value})
    named = f" ({', '.join(names)})" if names else ""
    what = f"{count} GPU{'s are' if count != 1 else ' is'} here{named}"
    torch = f"torch {torch_version} is built without CUDA" if torch_version else "torch is not installed"
    return f"{what}, but {torch}: use the image speedproof:cuda (make image-cuda), or install a build with CUDA."
