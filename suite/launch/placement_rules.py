"""Rules about threads and memory: where they are, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator

from suite.bundle.schema import Effective, Finding
from suite.fingerprint.files import format_cpulist
from suite.launch import placed
from suite.launch.seen import process_of
from suite.launch.sighting import Explained, Sighting, names, row_evidence

COUNTS = {
    "torch_intra_op": "torch.get_num_threads()",
    "openmp_maximum": "omp_get_max_threads()",
    "mkl_maximum": "mkl_get_max_threads()",
}


def affinity_shrunk(seen: Sighting) -> Iterator[Explained]:
    """launch.affinity-shrunk: KMP_AFFINITY without `reset,` leaves the primary thread, and every child, one CPU.

    The measured threads are where they were asked to be; compilers and threads that are started later share the primary thread's CPU.
    So it is what the tutorial's settings give, but not what a placement on several CPUs asks for.
    """
    requested = seen.settings.get("cpu_affinity")
    asked = set(placed.numbers(requested.requested or "")) if requested else set()

    def given(effective: Effective) -> set[int]:
        return asked.union(*(placed.numbers(cpus) for cpus in effective.affinities))

    shrunk = [
        effective
        for effective in seen.processes
        if placed.shrunk(effective) and not given(effective) <= set(effective.affinity)
    ]
    if not shrunk:
        return
    one = shrunk[0]
    yield (
        Finding(
            rule="launch.affinity-shrunk",
            severity="wrong" if asked and seen.launch.profile != "tutorial" else "doubtful",
            claim=f"The primary thread is left with CPU {format_cpulist(one.affinity)} of {format_cpulist(given(one))}, and so is every "
            "process that it starts, compilers among them.",
            evidence=[
                f"sched_getaffinity in {seen.where(len(shrunk))}: {format_cpulist(one.affinity)}",
                f"environment of {process_of(one)}: KMP_AFFINITY={one.environment.get('KMP_AFFINITY', '')}, which has no `reset,`",
                _threads(one),
            ],
            advice="Put `reset,` before KMP_AFFINITY's value (the profile tuned does): https://github.com/pytorch/pytorch/issues/136307",
        ),
        frozenset({"cpu_affinity"}),
    )


def not_pinned(seen: Sighting) -> Iterator[Explained]:
    """launch.not-pinned: a thread may run outside of the CPUs asked for, or the process has other CPUs than these."""
    for row in seen.broken("cpu_affinity"):
        cpus = row.requested or ""
        outside = [effective for effective in seen.processes if placed.outside_of(cpus, effective)]
        # A mask that is only narrower, and why, is the business of `affinity_shrunk`.
        if not outside and any(placed.shrunk(effective) for effective in seen.processes):
            continue
        one = outside[0] if outside else seen.processes[0]
        count = sum(placed.outside_of(cpus, one).values())
        claim = (
            f"{count} thread{'s' if count > 1 else ''} of {process_of(one)} may run outside of the requested CPUs {cpus}."
            if outside
            else f"The workers may use CPUs {row.effective}, not {cpus} as requested."
        )
        yield (
            Finding(
                rule="launch.not-pinned",
                severity="wrong",
                claim=claim,
                evidence=[row_evidence(row), *([_threads(one)] if one.affinities else [])],
                advice="Look for what changes affinity after the start: another KMP_AFFINITY or GOMP_CPU_AFFINITY, a wrapper, a cpuset.",
            ),
            names([row]),
        )


def memory_elsewhere(seen: Sighting) -> Iterator[Explained]:
    """launch.memory-elsewhere: memory lies on another node than asked for, or nothing keeps it from going there."""
    for row in seen.broken("memory_nodes"):
        nodes = row.requested or ""
        one = max(seen.processes, key=lambda effective: placed.share_elsewhere(nodes, effective) or 0.0)
        share = placed.share_elsewhere(nodes, one)
        amounts = ", ".join(f"node {node}: {size / 1e6:.4g} MB" for node, size in one.memory_bytes_by_node.items())
        claim = (
            f"{100 * share:.3g} % of the workers' memory is not on node {nodes} as requested."
            if share
            else f"Memory is not bound to node {nodes} as requested."
        )
        yield (
            Finding(
                rule="launch.memory-elsewhere",
                severity="wrong",
                claim=claim,
                evidence=[
                    row_evidence(row),
                    *([f"/proc/self/numa_maps of {process_of(one)}, private memory: {amounts}"] if amounts else []),
                ],
                advice="See with `numactl --hardware` whether the node has memory left, and start workers through `numactl --membind`.",
            ),
            names([row]),
        )


def threads_differ(seen: Sighting) -> Iterator[Explained]:
    """launch.threads-differ: torch, OpenMP and MKL count differently, or there are more threads than CPUs for them."""
    rows = seen.broken("OMP_NUM_THREADS")
    odd = [effective for effective in seen.processes if len(set(_counts(effective).values())) > 1]
    crowded = [
        effective for effective in seen.processes if max(_counts(effective).values(), default=0) > len(_cpus(effective))
    ]
    if not (rows or odd or crowded):
        return
    one = (odd or crowded or seen.processes)[0]
    counts, cpus = _counts(one), format_cpulist(_cpus(one))
    claims = [f"OMP_NUM_THREADS is {row.requested} and {row.effective} threads are used" for row in rows]
    if odd:
        claims.append(
            f"numbers of threads differ ({', '.join(f'{COUNTS[name]} {count}' for name, count in counts.items())})"
        )
    if crowded:
        claims.append(
            f"{max(_counts(crowded[0]).values())} threads share the {len(_cpus(crowded[0]))} CPUs {format_cpulist(_cpus(crowded[0]))}"
        )
    yield (
        Finding(
            rule="launch.threads-differ",
            severity="wrong" if rows else "doubtful",
            claim=f"{'; '.join(claims)}.",
            evidence=[
                f"{process_of(one)}: {', '.join(f'{COUNTS[name]} {count}' for name, count in counts.items())}; CPUs {cpus}",
                *(f"seen in {seen.where(len(some))}" for some in (odd, crowded) if some),
                *map(row_evidence, rows),
            ],
            advice="Set OMP_NUM_THREADS to the number of cores that the process may use, and leave MKL_NUM_THREADS unset.",
        ),
        names(rows),
    )


def _counts(effective: Effective) -> dict[str, int]:
    return {name: effective.threads[name] for name in COUNTS if name in effective.threads}


def _cpus(effective: Effective) -> list[int]:
    """The CPUs that any thread of the process may use: the primary thread's mask may have shrunk."""
    return sorted(set(effective.affinity).union(*(placed.numbers(cpus) for cpus in effective.affinities)))


def _threads(effective: Effective) -> str:
    shown = ", ".join(f"{count} on CPUs {cpus}" for cpus, count in effective.affinities.items())
    return f"threads of {process_of(effective)} ({placed.TASKS}): {shown or 'not read'}"
