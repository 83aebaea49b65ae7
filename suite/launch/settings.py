"""Requested against effective: what a launch asked for beside what was seen in force in the measuring processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath

import msgspec

from suite.bundle.schema import Effective, Setting
from suite.fingerprint.files import format_cpulist
from suite.launch import meaning, placed
from suite.launch.command import Launch, Requested
from suite.launch.seen import Seen, Status, answering, maps_of, process_of, running

# When processes disagree, the first of these stands.
WORST: tuple[Status, ...] = ("not in force", "unknown", "in force", "not requested")
# (option, requested, read back) of what jemalloc 5.3.0 takes as "off"; seen with mallctl, where the default is 8 MiB.
OVERSIZE_OFF = ("oversize_threshold", "1", "0")
OVERSIZE_NOTE = "1 is below jemalloc's size classes and reads back as 0: off"
KNOWN_LIBRARIES = ("libiomp", "libomp", "libgomp", "libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc")


def compare_all(launch: Launch, effectives: Sequence[Effective]) -> list[Setting]:
    """The settings over all measuring processes: the worst status stands, and a note says in how many processes it does.

    Empty without processes. Pure; never raises on a worker's report.
    """
    rows: dict[str, list[Setting]] = {}
    for effective in effectives:
        for setting in compare(launch, effective):
            rows.setdefault(setting.name, []).append(setting)
    return [_together(seen, len(effectives)) for seen in rows.values()]


def _together(rows: list[Setting], processes: int) -> Setting:
    worst = min(rows, key=lambda row: WORST.index(row.status))
    same = [row for row in rows if (row.status, row.effective) == (worst.status, worst.effective)]
    if len(same) == processes:
        return worst
    others = list(dict.fromkeys(row.effective or "nothing" for row in rows if row not in same))
    elsewhere = f"; {' or '.join(others)} in others" if others else ""
    state = "" if worst.status == "not requested" else f"{worst.status} "
    note = f"{state}in {len(same)} of {processes} processes{elsewhere}"
    return msgspec.structs.replace(worst, note="; ".join(filter(None, (note, worst.note))))


def compare(launch: Launch, effective: Effective) -> list[Setting]:
    """One `Setting` for each request (one a library of LD_PRELOAD, one a key of MALLOC_CONF), and one for each of thread count,
    placement, allocator and OpenMP run-time that nobody asked for. Pure; never raises on a worker's report."""
    settings: list[Setting] = []
    for request in launch.requested:
        if request.name == "LD_PRELOAD":
            settings += [_judged(launch, row, _library, effective) for row in _libraries(request)]
        elif request.name == "MALLOC_CONF" and request.name not in launch.unavailable:
            settings += [_judged(launch, row, _malloc_option, effective) for row in _malloc_options(request)]
        else:
            settings.append(_judged(launch, request, _reader(request.name), effective))
    return settings + _not_requested({request.name: request for request in launch.requested}, effective)


def _judged(
    launch: Launch, request: Requested, reader: Callable[[Requested, Effective], Seen], effective: Effective
) -> Setting:
    value, status, proof, note = reader(request, effective)
    reason = launch.unavailable.get(request.name)
    if reason is not None:
        # What was not even set is not in force, even where the machine happens to be so of itself.
        by_itself = f"the effect is there all the same ({'; '.join(filter(None, (value, note)))})"
        by_itself = by_itself if status == "in force" else ""
        status, proof = "not in force", f"found when the launch was planned; {proof}"
        note = "; ".join(filter(None, (reason, by_itself)))
    users = request.note if request.origin == "user" else ""
    notes = "; ".join(filter(None, (users, note)))
    return Setting(name=request.name, requested=request.value, effective=value, status=status, proof=proof, note=notes)


# --- libraries ------------------------------------------------------------------------------------------------------


def _libraries(request: Requested) -> list[Requested]:
    """One request a library of LD_PRELOAD; the loader goes on without a file that it cannot load."""
    paths = list(filter(None, re.split(r"[:\s]+", request.value)))
    rows: dict[str, Requested] = {}
    for path in paths:
        family = re.split(r"[.-]", PurePath(path).name)[0]
        name = f"LD_PRELOAD {family if f'LD_PRELOAD {family}' not in rows else PurePath(path).name}"
        rows[name] = Requested(name, path, request.origin, request.note)
    return list(rows.values())


def _library(request: Requested, effective: Effective) -> Seen:
    family, maps = re.split(r"[.-]", PurePath(request.value).name)[0], maps_of(effective)
    mapped = {name: kind for kind in ("openmp", "allocator") for name in effective.mapped_libraries.get(kind, [])}
    wanted = PurePath(request.value).name
    kin = [name for name in mapped if re.split(r"[.-]", name)[0] == family]
    # torch's wheels bring a libgomp of their own under another name: the very file that was asked for comes first.
    match = wanted if wanted in kin else next(iter(kin), None)
    if match is None:
        if family.startswith(KNOWN_LIBRARIES):
            return None, "not in force", maps, "not mapped: the loader ignored it"
        return None, "unknown", maps, "not of a kind that the worker reports"
    kind = mapped[match]
    called = answering(effective, kind)
    # The C library is mapped in every process.
    others = [n for n in effective.mapped_libraries.get(kind, []) if n != match and not re.match(r"libc[.-]", n)]
    if called is not None and called != match:
        note = f"{match} is mapped but not called"
        return called, "not in force", f"symbols of {process_of(effective)} resolve to {called}", note
    proof = maps if called is None else f"{maps}; symbols of {process_of(effective)} resolve to it"
    note = f"{', '.join(others)} is mapped as well" if others else ""
    if called is None and others:
        return match, "unknown", proof, f"{note} and it is not known which one is called"
    served = {name: len(symbols) for name, symbols in effective.openmp_symbols.items()} if kind == "openmp" else {}
    if served:
        proof = (
            f"{proof}; it answers {served.get(match, 0)} of {sum(served.values())} OpenMP symbols that libraries import"
        )
        if set(served) - {match}:
            return match, "not in force", proof, f"{', '.join(sorted(set(served) - {match}))} answers symbols as well"
    return match, "in force", proof, f"{note} but not called" if note else ""


def _malloc_options(request: Requested) -> list[Requested]:
    """One request a key of MALLOC_CONF; of equal keys jemalloc takes the last."""
    parts = (part.partition(":") for part in request.value.split(",") if part.strip())
    pairs = {key.strip(): value.strip() for key, _, value in parts}
    return [Requested(f"MALLOC_CONF {key}", value, request.origin, request.note) for key, value in pairs.items()]


def _malloc_option(request: Requested, effective: Effective) -> Seen:
    """jemalloc's options read back one by one with mallctl; an unknown key is skipped by jemalloc with a warning."""
    key = request.name.removeprefix("MALLOC_CONF ")
    if not any(name.startswith("libjemalloc") for name in running(effective, "allocator")):
        other = ", ".join(running(effective, "allocator")) or "the C library's"
        return None, "not in force", maps_of(effective), f"the allocator is {other}, which ignores MALLOC_CONF"
    proof = f"mallctl(opt.{key}) in {process_of(effective)}"
    read = effective.runtime.get(f"jemalloc.{key}")
    if read is None:
        if not any(name.startswith("jemalloc.") for name in effective.runtime):
            return (
                None,
                "unknown",
                f"environment of {process_of(effective)}",
                "jemalloc's options could not be read back",
            )
        return None, "not in force", proof, "jemalloc has no option of this name"
    if (key, request.value, read) == OVERSIZE_OFF:
        return read, "in force", proof, OVERSIZE_NOTE
    if not request.value.lstrip("-").isalnum() or request.value == "default":
        return read, "unknown", proof, "a value that cannot be compared with what jemalloc says"
    return read, "in force" if read == request.value else "not in force", proof, ""


# --- OpenMP ---------------------------------------------------------------------------------------------------------


def _variable(request: Requested, effective: Effective) -> Seen:
    """A variable: what the run-time says that it understood, or else that it reached the worker at all."""
    value, proof = effective.environment.get(request.name), f"environment of {process_of(effective)}"
    if value != request.value:
        return value, "not in force", proof, "changed on the way" if value is not None else "did not reach the worker"
    printed = effective.openmp_settings.get(request.name)
    if printed is None:
        return value, "in force", proof, "seen in the environment; its effect is not read back"
    proof = "the run-time's own list of effective settings (KMP_SETTINGS)"
    if meaning.same(request.name, request.value, printed):
        return printed, "in force", proof, ""
    return printed, "unknown", proof, "the run-time words it otherwise"


def _kmp(request: Requested, effective: Effective) -> Seen:
    """A KMP_* variable: only libiomp5 (or LLVM's libomp) reads it, libgomp ignores it silently."""
    mapped = effective.mapped_libraries.get("openmp", [])
    answers = running(effective, "openmp")
    if not any(name.startswith(("libiomp", "libomp")) for name in answers):
        shown = ", ".join(answers) or "no OpenMP run-time"
        return None, "not in force", maps_of(effective), f"the OpenMP run-time is {shown}, which ignores KMP_*"
    value, status, proof, note = _variable(request, effective)
    if answering(effective, "openmp") is None and any(name.startswith("libgomp") for name in mapped):
        return value, "unknown", maps_of(effective), "libgomp is mapped as well and ignores KMP_*"
    if status == "unknown" and request.name in ("KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_SETTINGS"):
        return value, "not in force", proof, "the run-time took it otherwise"
    if status == "in force" and request.name not in effective.openmp_settings:
        return value, status, f"{proof}; {', '.join(answers)} is called", note
    return value, status, proof, note


def _blocktime(request: Requested, effective: Effective) -> Seen:
    seen = _kmp(request, effective)
    read = effective.runtime.get("openmp.kmp_blocktime_ms")
    if seen[1] != "in force" or read is None or "KMP_BLOCKTIME" in effective.openmp_settings:
        return seen
    status: Status = "in force" if meaning.same("KMP_BLOCKTIME", request.value, read) else "not in force"
    return read, status, f"kmp_get_blocktime() in {process_of(effective)}, in ms", ""


def _kmp_affinity(request: Requested, effective: Effective) -> Seen:
    value, status, proof, note = _kmp(request, effective)
    workers, bound = (effective.threads.get(name, 0) for name in ("openmp_workers", "openmp_workers_bound"))
    if status == "not in force" and value is not None and value == effective.openmp_settings.get(request.name):
        differences = meaning.affinity_differences(request.value, value)
        # Where a core has one hardware thread the run-time may name either.
        if not all(text.startswith("granularity ") for text in differences) or not 0 < workers == bound:
            return value, status, proof, "; ".join(differences)
        status = "in force"
    if status != "in force" or not workers:
        return value, status, proof, "no OpenMP worker thread to look at" if status == "in force" else note
    seen = f"{bound} of {workers} OpenMP worker threads are bound to one CPU each (/proc/self/task/*/status)"
    proof = f"{proof}; {seen}" if request.name in effective.openmp_settings else seen
    # A coarser granularity binds to several CPUs: then the masks prove nothing either way.
    broken = (
        bound != workers if meaning.one_thread_each(request.value) else bound > 0 and not meaning.binds(request.value)
    )
    return value, "not in force" if broken else "in force", proof, ""


def _num_threads(request: Requested, effective: Effective) -> Seen:
    proof = f"torch.get_num_threads() in {process_of(effective)}"
    read = effective.threads.get("torch_intra_op")
    if read is None:
        proof = f"omp_get_max_threads() in {process_of(effective)}"
        read = effective.threads.get("openmp_maximum")
        if read is not None and read > len(effective.affinity) and not effective.case:
            return str(read), "unknown", proof, "more than the CPUs: torch may take fewer, as MKL counts cores"
    if read is None:
        return None, "unknown", proof, f"{process_of(effective)} did not report it"
    # "4,2" gives one number a nesting level; torch uses the first.
    status: Status = "in force" if str(read) == request.value.split(",")[0].strip() else "not in force"
    return str(read), status, proof, ""


READERS: dict[str, Callable[[Requested, Effective], Seen]] = {
    "KMP_AFFINITY": _kmp_affinity,
    "KMP_BLOCKTIME": _blocktime,
    "MALLOC_CONF": _malloc_option,
    "OMP_NUM_THREADS": _num_threads,
    "cpu_affinity": placed.affinity,
    "memory_nodes": placed.memory,
}


def _reader(name: str) -> Callable[[Requested, Effective], Seen]:
    if name.startswith("LD_PRELOAD "):
        return _library
    return READERS.get(name, _kmp if name.startswith("KMP_") else _variable)


def _not_requested(requests: dict[str, Requested], effective: Effective) -> list[Setting]:
    """What holds although nobody asked: a comparison of two runs needs these as much as the requests."""
    process, maps = process_of(effective), maps_of(effective)
    counts, shown = effective.threads, f"torch.get_num_threads() in {process}"
    threads = counts.get("torch_intra_op", counts.get("openmp_maximum"))
    preloads = " ".join(request.value for name, request in requests.items() if name.startswith("LD_PRELOAD"))
    asked = set(requests)
    asked |= {"openmp"} if re.search(r"lib(iomp|omp|gomp)", preloads) else set()
    asked |= {"allocator"} if re.search(r"lib\w*malloc", preloads) else set()
    candidates: list[tuple[str, str | None, str]] = [
        ("OMP_NUM_THREADS", None if threads is None else str(threads), shown),
        ("cpu_affinity", format_cpulist(effective.affinity), f"sched_getaffinity in {process}"),
        ("memory_nodes", effective.memory_nodes, f"Mems_allowed_list in /proc/self/status of {process}"),
        ("openmp", ", ".join(running(effective, "openmp")) or None, maps),
        ("allocator", ", ".join(running(effective, "allocator")) or "the C library's", maps),
    ]
    # OMP_* and others that a wrapper or sitecustomize set on the way, unseen by the launch.
    candidates += [
        (name, effective.environment[name], f"environment of {process}")
        for name in sorted(effective.environment)
        if name.startswith(("OMP_", "KMP_", "GOMP_", "MALLOC_"))
    ]
    rows: dict[str, Setting] = {}
    for name, value, proof in candidates:
        if name not in asked:
            row = Setting(name=name, requested=None, effective=value, status="not requested", proof=proof)
            rows.setdefault(name, row)
    return list(rows.values())
