"""The parts of docker/gpu-check that are not measuring: what its Python `lacks`, the `look FILE` at the GPU, the `summary FOLDER` of what
was measured."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.bundle.reader import Loaded

LINES = 40


def look() -> Iterator[str]:
    """Versions, and what torch says of the GPU. No serial numbers, no UUIDs."""
    import platform
    from importlib import metadata

    import torch

    names = ("torch", "triton", "transformers", "nvidia-ml-py", "msgspec")
    installed = {distribution.metadata["Name"]: distribution.version for distribution in metadata.distributions()}
    yield f"Python {platform.python_version()}, " + ", ".join(
        f"{name} {installed.get(name, 'absent')}" for name in names
    )
    yield f"CUDA of torch {torch.version.cuda}, kernel {platform.release()}"
    for index in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(index)
        shown = {
            name: getattr(found, name, "unknown")
            for name in ("total_memory", "multi_processor_count", "L2_cache_size", "pci_bus_id")
        }
        yield f"GPU {index}: {found.name}, capability {found.major}.{found.minor}, {shown}"


def summary(work: Path) -> Iterator[str]:
    """What was measured, a line an arm; and how the stages ended."""
    from suite.bundle import reader

    if (work / "look.txt").is_file():
        yield from (work / "look.txt").read_text().splitlines()[:4]
    for line in (work / "stages").read_text().splitlines():
        name, ended, seconds, why = line.split("|", 3)
        yield f"stage {name}: {ended} in {seconds} s{f' ({why})' if why else ''}"
    for bundle in reader.runs(work / "results"):
        loaded = reader.load(bundle)
        yield f"{bundle.name}: {loaded.run.status}, {len(loaded.blocks)} blocks, {len(loaded.retaken)} retaken, {loaded.run.device.name}"
        if loaded.run.status != "complete":
            yield from parts(loaded)
        for case in loaded.run.cases:
            yield from _arms(loaded, case)
        yield from _troubles(loaded)


def parts(loaded: Loaded) -> Iterator[str]:
    """What a run that did not end holds all the same, a line a case: processes, the case's own profile and its further ones."""
    run = loaded.run
    for case in run.cases:
        ended = {
            event.process
            for event in loaded.events
            if (type(event).__name__, getattr(event, "case", "")) == ("ProcessEnded", case.name)
            and (event.role, event.outcome) == ("measure", "ok")
        }
        there, missing = [], []
        (there if ended else missing).append(f"{len(ended)} of {run.procedure.processes} processes")
        names = {arm.name for arm in run.arms if arm.name not in case.not_applicable}
        profiles = [("profile", names, {arm for name, arm in loaded.profiles if name == case.name})]
        profiles += [
            (
                f"pass {one.name}",
                names & set(one.arms),
                {a for n, a, p in loaded.passes if (n, p) == (case.name, one.name)},
            )
            for one in case.passes
        ]
        for title, wanted, found in profiles if run.profile else []:
            if found:
                there.append(title if wanted <= found else f"{title} of {' and '.join(sorted(found))}")
            if wanted - found:
                missing.append(title if not found else f"{title} of {' and '.join(sorted(wanted - found))}")
        yield f"  {case.name}: {', '.join(there) or 'nothing'}" + (
            f"; not there: {', '.join(missing)}" if missing else ""
        )


def _arms(loaded, case) -> Iterator[str]:  # type: ignore[no-untyped-def]
    times: dict[str, list[float]] = {}
    last = {}
    for block in loaded.blocks:
        if (block.case, block.phase) == (case.name, "measure"):
            times.setdefault(block.arm, []).append(statistics.median(block.iterations_ns) / block.calls_per_iteration)
            last[block.arm] = block
    baseline = statistics.median(times["eager"]) if "eager" in times else None
    for arm, found in times.items():
        if arm == "eager#2":
            continue  # the noise floor; it stands in the bundle
        typical = statistics.median(found)
        block = last[arm]
        parts = [f"{typical / 1e3:9.2f} us"]
        if baseline and arm != "eager":
            parts.append(f"{baseline / typical:.3f}x")
        if case.floating_point_operations:
            parts.append(f"{case.floating_point_operations / typical / 1e3:.4g} TFLOP/s")
        parts.append(f"host {block.enqueue_ns / 1e3:.1f} us" if block.enqueue_ns is not None else "host ?")
        parts.append(f"{block.clock_mhz} MHz" if block.clock_mhz else "clock ?")
        if block.conditions:
            parts.append(block.conditions[0])
        yield f"  {case.name} {arm}: {', '.join(parts)}"


def _troubles(loaded) -> Iterator[str]:  # type: ignore[no-untyped-def]
    for event in loaded.events:
        if getattr(event, "outcome", "ok") != "ok":
            yield f"  {event.case} {event.role} {event.process}: {event.outcome}: {event.message[:110]}"
        elif type(event).__name__ == "ArmNotRun":
            yield f"  {event.case} {event.arm} not run: {event.reason[:110]}"
    for (case, arm), accuracy in loaded.accuracies.items():
        if not accuracy.passed:
            yield f"  {case} {arm}: accuracy failed: {accuracy.message[:110]}"
    for finding in loaded.fingerprint.findings if loaded.fingerprint else []:
        if finding.rule.startswith("gpu."):
            yield f"  {finding.severity}: {finding.claim[:120]}"


NEEDED = ("torch", "msgspec", "typer")
"""Without these not even the first stage can begin."""


def lacks() -> str:
    """The needed packages that this Python does not have, as a list in words; nothing is imported for it."""
    return " and no ".join(name for name in NEEDED if importlib.util.find_spec(name) is None)


def main(arguments: list[str]) -> int:
    """Print (and with `look` also write) what was asked for."""
    if arguments == ["lacks"]:
        print(lacks())
        return 0
    what, path = arguments[0], Path(arguments[1])
    lines = [line[:200] for line in (look() if what == "look" else summary(path))]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"... and {len(lines) - LINES + 1} more lines: see the bundles"]
    print("\n".join(lines))
    if what == "look":
        path.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    raise SystemExit(main(sys.argv[1:]))
