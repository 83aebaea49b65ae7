"""Rules about preloaded libraries and their options: which were ignored, which do not serve, and what they complained about."""

from __future__ import annotations

import re
from collections.abc import Iterator

from suite.bundle.schema import Effective, Finding, Severity
from suite.fingerprint.software.torch import CAPABILITIES
from suite.launch.seen import answering, maps_of, process_of, running
from suite.launch.sighting import Explained, Sighting, names, row_evidence

LOADER = r"ERROR: ld\.so: object '(?P<object>[^']*)' from (?P<source>\S+) cannot be preloaded(?: \((?P<reason>.*)\))?"
JEMALLOC = r"<jemalloc>: (?=.*\b(?:[Ii]nvalid|[Oo]ut-of-range|[Mm]alformed|[Cc]onf string)\b)"
"""jemalloc's remarks on its options; others ("MADV_DONTNEED does not work") are none."""
OPENMP = r"OMP: |libgomp: "
INTEL = ("libiomp", "libomp")
OF_LIBRARIES = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")
"""scikit-learn sets them on its import, and transformers imports it where it is there: nobody asked for them unless they were requested."""


def preload_ignored(seen: Sighting) -> Iterator[Explained]:
    """launch.preload-ignored: the loader prints one line about a file that it cannot preload, and goes on without it."""
    lines = seen.messages(LOADER)
    rows = [row for row in seen.broken(r"LD_PRELOAD .+") if row.effective is None]
    if not lines and not rows:
        return
    matches = [match for match in (re.match(LOADER, line) for line in lines) if match]
    objects = {match["object"]: match["reason"] or "no reason given" for match in matches}
    objects |= {row.requested or row.name: "not mapped" for row in rows if row.requested not in objects}
    shown = "; ".join(f"{path} ({reason})" for path, reason in objects.items())
    yield (
        Finding(
            rule="launch.preload-ignored",
            severity="wrong",
            claim=f"The loader ignored what was to be preloaded: {shown}.",
            evidence=seen.quoted(lines) + [row_evidence(row) for row in rows],
            advice="Correct the path in LD_PRELOAD (`ldconfig -p` and `find` show where the library is), or leave it out.",
        ),
        names(rows),
    )


def malloc_conf_invalid(seen: Sighting) -> Iterator[Explained]:
    """launch.malloc-conf-invalid: jemalloc skips a key or value that it does not know."""
    lines = seen.messages(JEMALLOC)
    rows = [row for row in seen.broken(r"MALLOC_CONF .+") if row.proof.startswith("mallctl")]
    if not lines and not rows:
        return
    wrong = [
        match[1]
        for match in (re.match(r"<jemalloc>: Invalid conf (?:pair|value): (.+)", line) for line in lines)
        if match
    ]
    keys = {text.partition(":")[0] for text in wrong}
    wrong += [
        f"{row.name.removeprefix('MALLOC_CONF ')}:{row.requested}" for row in rows if row.name.split()[-1] not in keys
    ]
    yield (
        Finding(
            rule="launch.malloc-conf-invalid",
            severity="wrong",
            claim=f"jemalloc did not take MALLOC_CONF as written{': ' + ', '.join(wrong) if wrong else ''}.",
            evidence=seen.quoted(lines) + [row_evidence(row) for row in rows],
            advice="Correct the option's name or value: jemalloc(3) lists them under `opt.`; jemalloc skips what it does not know.",
        ),
        names(rows),
    )


def malloc_conf_without_jemalloc(seen: Sighting) -> Iterator[Explained]:
    """launch.malloc-conf-without-jemalloc: only jemalloc reads MALLOC_CONF."""
    idle = [
        effective
        for effective in seen.processes
        if "MALLOC_CONF" in effective.environment
        and not any(name.startswith("libjemalloc") for name in running(effective, "allocator"))
    ]
    if not idle:
        return
    allocator = ", ".join(running(idle[0], "allocator")) or "the C library's"
    yield (
        Finding(
            rule="launch.malloc-conf-without-jemalloc",
            severity="wrong",
            claim=f"MALLOC_CONF is set but the allocator is {allocator}, which ignores it.",
            evidence=[
                f"environment of {seen.where(len(idle))}: MALLOC_CONF={idle[0].environment['MALLOC_CONF']}",
                f"{maps_of(idle[0])}: malloc is answered by {allocator}",
            ],
            advice="Preload libjemalloc.so.2, or unset MALLOC_CONF.",
        ),
        names(seen.broken(r"MALLOC_CONF.*")),
    )


def kmp_without_libiomp5(seen: Sighting) -> Iterator[Explained]:
    """launch.kmp-without-libiomp5: only Intel's and LLVM's run-times read KMP_*."""

    def variables(effective: Effective) -> list[str]:
        found = sorted(name for name in effective.environment if name.startswith("KMP_"))
        requested = {name for name, row in seen.settings.items() if row.requested is not None}
        return [name for name in found if name not in OF_LIBRARIES or name in requested]

    ignored = [
        effective
        for effective in seen.processes
        if variables(effective) and not any(name.startswith(INTEL) for name in running(effective, "openmp"))
    ]
    if not ignored:
        return
    one = ignored[0]
    run_time = ", ".join(running(one, "openmp")) or "no OpenMP run-time"
    served = sum(map(len, one.openmp_symbols.values()))
    evidence = [
        f"environment of {seen.where(len(ignored))}: "
        + ", ".join(f"{name}={one.environment[name]}" for name in variables(one)),
        f"{maps_of(one)}: {', '.join(one.mapped_libraries.get('openmp', [])) or 'no OpenMP run-time'}",
    ]
    if served:
        evidence.append(_served(one))
    yield (
        Finding(
            rule="launch.kmp-without-libiomp5",
            severity="wrong",
            claim=f"{', '.join(variables(one))} {'is' if len(variables(one)) == 1 else 'are'} set, but {run_time} runs the threads and "
            "ignores KMP_*.",
            evidence=evidence,
            advice="Preload libiomp5.so (`pip install intel-openmp`), or unset the variables and use OMP_PROC_BIND and OMP_PLACES.",
        ),
        names(seen.broken(r"KMP_\w+")),
    )


def two_openmp(seen: Sighting) -> Iterator[Explained]:
    """launch.two-openmp: two run-times have two pools of threads; harmless only when one of them is provably never called."""
    several = [effective for effective in seen.processes if len(effective.mapped_libraries.get("openmp", [])) > 1]
    if not several:
        return
    # The least proved one speaks for all: first where several answer, then where it is not known who does.
    one = max(several, key=lambda effective: (len(effective.openmp_symbols) > 1, not effective.openmp_symbols))
    mapped, answers = one.mapped_libraries["openmp"], one.openmp_symbols
    severity: Severity = "doubtful" if len(answers) == 1 else "wrong"
    if len(answers) == 1:
        (name,) = answers
        idle = ", ".join(other for other in mapped if other != name)
        judgement = f"{name} answers all {len(answers[name])} symbols that libraries import and {idle} is idle"
    elif answers:
        judgement = (
            f"{' and '.join(f'{name} answers {len(answers[name])} symbols' for name in answers)}: two pools of threads"
        )
    else:
        judgement = "it cannot be told which one answers"
    yield (
        Finding(
            rule="launch.two-openmp",
            severity=severity,
            claim=f"{len(mapped)} OpenMP run-times are mapped at once ({', '.join(mapped)}); {judgement}.",
            evidence=[
                f"/proc/self/maps of {seen.where(len(several))}: {', '.join(mapped)}",
                *([_served(one)] if answers else []),
            ],
            advice="nothing to do while one is idle: torch's wheels bring a libgomp, and packages that a worker imports may bring another."
            if severity == "doubtful"
            else "Preload one run-time for all (LD_PRELOAD with libiomp5.so or libgomp.so.1), or remove the package that brings the other.",
        ),
        frozenset(),
    )


def two_allocators(seen: Sighting) -> Iterator[Explained]:
    """launch.two-allocators: beside the C library's, which is always there, at most one is meant to be loaded."""

    def others(effective: Effective) -> list[str]:
        return [name for name in effective.mapped_libraries.get("allocator", []) if not re.match(r"libc[.-]", name)]

    several = [effective for effective in seen.processes if len(others(effective)) > 1]
    if not several:
        return
    one = several[0]
    called = answering(one, "allocator")
    yield (
        Finding(
            rule="launch.two-allocators",
            severity="doubtful" if called else "wrong",
            claim=f"{' and '.join(others(one))} are mapped at once; "
            + (f"{called} answers malloc." if called else "it cannot be told which one answers malloc."),
            evidence=[f"/proc/self/maps of {seen.where(len(several))}: {', '.join(others(one))}"],
            advice="Leave one allocator in LD_PRELOAD.",
        ),
        frozenset(),
    )


def capability_lower(seen: Sighting) -> Iterator[Explained]:
    """launch.cpu-capability: ATen's kernels, which eager runs, use fewer vector instructions than the processor has."""
    lower = [
        (used, best)
        for used, best in (
            (each.torch.get("cpu_capability", ""), each.torch.get("cpu_capability_of_machine", ""))
            for each in seen.processes
        )
        if used in CAPABILITIES and best in CAPABILITIES and CAPABILITIES.index(used) < CAPABILITIES.index(best)
    ]
    if lower:
        used, best = lower[0]
        yield (
            Finding(
                rule="launch.cpu-capability",
                severity="wrong",
                claim=f"Eager's kernels use {used} on a processor that has {best}.",
                evidence=[
                    f"torch.backends.cpu.get_cpu_capability() in {seen.where(len(lower))}: {used}",
                    f"the flags in /proc/cpuinfo allow {best}",
                ],
                advice="find out what lowers it (ATEN_CPU_CAPABILITY in an image or a sitecustomize, or how torch was built)",
            ),
            frozenset(),
        )


USUAL_MODES = {
    "deterministic_algorithms": "False",
    "mkldnn_enabled": "True",
    "anomaly_mode": "False",
    "inference_mode": "False",
    "autocast_cpu": "False",
    "default_dtype": "torch.float32",
}
"""torch's modes that the suite leaves as torch has them."""


def torch_modes(seen: Sighting) -> Iterator[Explained]:
    """launch.torch-modes: something in the workers has changed a mode of torch's, in which both arms compute otherwise."""
    for name, usual in USUAL_MODES.items():
        other = [each for each in seen.processes if each.torch.get(name, usual) != usual]
        if other and not other[0].torch[name].startswith("unknown: "):
            yield (
                Finding(
                    rule="launch.torch-modes",
                    severity="doubtful",
                    claim=f"torch's {name} is {other[0].torch[name]} and not {usual}, and the suite has not set it.",
                    evidence=[f"read from torch in {seen.where(len(other))}"],
                    advice="find out what sets it (sitecustomize, usercustomize, a .pth file)",
                ),
                frozenset(),
            )


def openmp_warning(seen: Sighting) -> Iterator[Explained]:
    """launch.openmp-warning: what the OpenMP run-time complained about."""
    lines = seen.messages(OPENMP)
    if not lines:
        return
    named = {name for line in lines for name in re.findall(r"\b(?:KMP|OMP|GOMP)_\w+", line)}
    requested = sorted(named & set(seen.settings))
    about = f" about {', '.join(requested or sorted(named))}" if named else ""
    yield (
        Finding(
            rule="launch.openmp-warning",
            severity="wrong" if any(seen.settings[name].requested is not None for name in requested) else "doubtful",
            claim=f"The OpenMP run-time complains{about}.",
            evidence=seen.quoted(lines),
            advice="Correct the variable's value: the run-time goes on with its default.",
        ),
        frozenset(requested),
    )


def complaint(seen: Sighting) -> Iterator[Explained]:
    """launch.complaint: any other line in which the loader, the C library, libnuma or a mathematics library complained."""
    lines = seen.messages(rf"(?!{LOADER}|{JEMALLOC}|{OPENMP})")
    if lines:
        yield (
            Finding(
                rule="launch.complaint",
                severity="doubtful",
                claim="A library complained when the worker was started or ran.",
                evidence=seen.quoted(lines),
                advice="Read the line: the library may do without what it was asked for.",
            ),
            frozenset(),
        )


def _served(effective: Effective) -> str:
    """Which run-time answers how many symbols, whose they are, and how this is known."""
    parts = []
    for name, symbols in effective.openmp_symbols.items():
        callers = effective.runtime.get(f"openmp.callers {name}", "")
        parts.append(f"{name} answers {len(symbols)}{f' (asked by {callers})' if callers else ''}")
    bound = effective.runtime.get("openmp.symbols_bound", "")
    read = f"; {bound} addresses read from the callers' own tables" if bound and not bound.startswith("0 ") else ""
    return f"imported OpenMP symbols as {process_of(effective)} resolves them: {', '.join(parts)}{read}"
