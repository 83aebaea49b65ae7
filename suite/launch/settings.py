"""Requested against effective: what a launch asked for beside what was seen in force in the worker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Literal

from suite.bundle.schema import Effective, Setting
from suite.fingerprint.files import format_cpulist
from suite.launch.command import Launch, Requested

Status = Literal["in force", "not in force", "not requested", "unknown"]
# (effective value, status, proof, note)
Seen = tuple[str | None, Status, str, str]

MAPS = "/proc/self/maps of the worker"
ENVIRONMENT = "environment of the worker"
# (option, requested, read back) of what jemalloc 5.3.0 takes as "off"; seen with mallctl, where the default is 8 MiB.
OVERSIZE_OFF = ("oversize_threshold", "1", "0")
OVERSIZE_NOTE = "oversize_threshold:1 is below jemalloc's size classes and reads back as 0: off"


def compare(launch: Launch, effective: Effective) -> list[Setting]:
    """One `Setting` for each request, and one for each of thread count, placement, allocator and OpenMP run-time that
    nobody asked for. Pure; never raises on a worker's report."""
    requests = {request.name: request for request in launch.requested}
    settings: list[Setting] = []
    for request in launch.requested:
        if request.name == "LD_PRELOAD":
            settings += _preloaded(request, effective)
            continue
        seen = READERS.get(request.name, _environment)(request, effective)
        settings.append(_setting(request.name, request, seen))
    return settings + _not_requested(requests, effective)


def _setting(name: str, request: Requested, seen: Seen) -> Setting:
    value, status, proof, note = seen
    notes = "; ".join(filter(None, (request.note if request.origin == "user" else "", note)))
    return Setting(name=name, requested=request.value, effective=value, status=status, proof=proof, note=notes)


def _answering(effective: Effective, kind: str) -> str | None:
    """The library that answers the calls of `kind` ("openmp", "allocator"), as `read_effective` resolved it."""
    return next(iter(effective.mapped_libraries.get(f"{kind}_called", [])), None)


def _preloaded(request: Requested, effective: Effective) -> list[Setting]:
    """One row a library of LD_PRELOAD; the loader goes on without a file that it cannot load."""
    rows = []
    mapped = {name: kind for kind in ("openmp", "allocator") for name in effective.mapped_libraries.get(kind, [])}
    for path in filter(None, re.split(r"[:\s]+", request.value)):
        family = re.split(r"[.-]", PurePath(path).name)[0]
        match = next((name for name in mapped if name.startswith(family)), None)
        row = Requested(f"LD_PRELOAD {family}", path, request.origin, request.note)
        rows.append(_setting(row.name, row, _library(family, match, mapped, effective)))
    return rows


def _library(family: str, match: str | None, mapped: dict[str, str], effective: Effective) -> Seen:
    known = family.startswith(("libiomp", "libomp", "libgomp", "libjemalloc", "libtcmalloc", "libmimalloc"))
    if match is None:
        if known:
            return None, "not in force", MAPS, "not mapped: the loader ignored it"
        return None, "unknown", MAPS, "not of a kind that the worker reports"
    kind = mapped[match]
    called = _answering(effective, kind)
    # The C library is mapped in every process.
    others = [n for n in effective.mapped_libraries.get(kind, []) if n != match and not n.startswith("libc")]
    if called is not None and called != match:
        return called, "not in force", f"symbols of the worker resolve to {called}", f"{match} is mapped but not called"
    proof = MAPS if called is None else f"{MAPS}; symbols of the worker resolve to it"
    note = f"{', '.join(others)} is mapped as well" if others else ""
    if called is None and others:
        return match, "unknown", proof, f"{note} and it is not known which one is called"
    return match, "in force", proof, f"{note} but not called" if note else ""


def _environment(request: Requested, effective: Effective) -> Seen:
    """The variable reached the worker: all that can be told of most variables."""
    value = effective.environment.get(request.name)
    if value == request.value:
        return value, "in force", ENVIRONMENT, "seen in the environment; its effect is not read back"
    return value, "not in force", ENVIRONMENT, "changed on the way" if value is not None else "did not reach the worker"


def _openmp(request: Requested, effective: Effective) -> Seen:
    """A KMP_* variable: only libiomp5 (or LLVM's libomp) reads it, libgomp ignores it silently."""
    value = effective.environment.get(request.name)
    mapped = effective.mapped_libraries.get("openmp", [])
    called = _answering(effective, "openmp")
    running = [called] if called is not None else mapped
    if not any(name.startswith(("libiomp", "libomp")) for name in running):
        shown = ", ".join(running) or "no OpenMP run-time"
        return None, "not in force", MAPS, f"the OpenMP run-time is {shown}, which ignores KMP_*"
    if called is None and any(name.startswith("libgomp") for name in mapped):
        return value, "unknown", MAPS, "libgomp is mapped as well and ignores KMP_*"
    if value != request.value:
        return _environment(request, effective)
    return value, "in force", f"{ENVIRONMENT}; {', '.join(running)} is called", ""


def _blocktime(request: Requested, effective: Effective) -> Seen:
    seen = _openmp(request, effective)
    read = effective.runtime.get("openmp.kmp_blocktime_ms")
    if seen[1] != "in force" or read is None:
        return seen
    status: Status = "in force" if read == request.value else "not in force"
    return read, status, "kmp_get_blocktime() in the worker, in ms", ""


def _kmp_affinity(request: Requested, effective: Effective) -> Seen:
    seen = _openmp(request, effective)
    workers = effective.threads.get("openmp_workers", 0)
    if seen[1] != "in force" or not workers:
        note = "no OpenMP worker thread to look at" if seen[1] == "in force" else ""
        return (*seen[:3], seen[3] or note)
    bound = effective.threads.get("openmp_workers_bound", 0)
    proof = f"{bound} of {workers} OpenMP worker threads are bound to one CPU each (/proc/self/task/*/status)"
    wanted = not re.search(r"\b(none|disabled)\b", request.value)
    status: Status = "in force" if (bound == workers) == wanted else "not in force"
    return seen[0], status, proof, ""


def _malloc_conf(request: Requested, effective: Effective) -> Seen:
    """jemalloc's options read back one by one with mallctl; an unknown key is skipped by jemalloc with a warning."""
    called = _answering(effective, "allocator")
    mapped = effective.mapped_libraries.get("allocator", [])
    running = [called] if called is not None else mapped
    if not any(name.startswith("libjemalloc") for name in running):
        return None, "not in force", MAPS, f"the allocator is {', '.join(running) or 'the C library'}, not jemalloc"
    read = {key: effective.runtime.get(f"jemalloc.{key}") for key, _ in _pairs(request.value)}
    if not any(read.values()):
        return _environment(request, effective)
    value = ",".join(f"{key}:{found}" for key, found in read.items() if found is not None)
    wrong = [key for key, asked in _pairs(request.value) if not _same_option(key, asked, read[key])]
    note = f"not as requested: {', '.join(wrong)}" if wrong else ""
    if OVERSIZE_OFF in {(key, asked, read[key] or "") for key, asked in _pairs(request.value)}:
        note = "; ".join(filter(None, (note, OVERSIZE_NOTE)))
    return value, "not in force" if wrong else "in force", "mallctl(opt.*) in the worker", note


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = [part.partition(":") for part in text.split(",")]
    return [(key.strip(), value.strip()) for key, colon, value in parts if colon]


def _same_option(key: str, asked: str, read: str | None) -> bool:
    return asked == read or (key, asked, read or "") == OVERSIZE_OFF


def _num_threads(request: Requested, effective: Effective) -> Seen:
    read = effective.threads.get("torch_intra_op")
    if read is None:
        return None, "unknown", "torch.get_num_threads()", "the worker did not report it"
    # "4,2" gives one number a nesting level; torch uses the first.
    status: Status = "in force" if str(read) == request.value.split(",")[0].strip() else "not in force"
    return str(read), status, "torch.get_num_threads() in the worker", ""


def _affinity(request: Requested, effective: Effective) -> Seen:
    value = format_cpulist(effective.affinity)
    if value == request.value:
        return value, "in force", "sched_getaffinity in the worker", ""
    note = ""
    if len(effective.affinity) == 1 and effective.environment.get("KMP_AFFINITY"):
        note = "KMP_AFFINITY without `reset,` left the primary thread and all children one CPU (pytorch#136307)"
    return value, "not in force", "sched_getaffinity in the worker", note


def _memory_nodes(request: Requested, effective: Effective) -> Seen:
    """numactl -m sets the memory policy and leaves Mems_allowed_list as it is, so the policy is the better proof."""
    policy = effective.runtime.get("memory.policy")
    if policy is not None:
        bound = policy in (f"bind:{request.value}", f"bind=static:{request.value}")
        status: Status = "in force" if bound else "not in force"
        return policy, status, "/proc/self/numa_maps of the worker", ""
    value = effective.memory_nodes
    if value == request.value:
        return value, "in force", "Mems_allowed_list in /proc/self/status", "no other node may be used"
    return value or None, "unknown", "Mems_allowed_list in /proc/self/status", "it does not show a memory policy"


READERS: dict[str, Callable[[Requested, Effective], Seen]] = {
    "KMP_AFFINITY": _kmp_affinity,
    "KMP_BLOCKTIME": _blocktime,
    "KMP_SETTINGS": _openmp,
    "MALLOC_CONF": _malloc_conf,
    "OMP_NUM_THREADS": _num_threads,
    "cpu_affinity": _affinity,
    "memory_nodes": _memory_nodes,
}


def _not_requested(requests: dict[str, Requested], effective: Effective) -> list[Setting]:
    """What holds although nobody asked: a comparison of two runs needs these as much as the requests."""
    threads = effective.threads.get("torch_intra_op")
    libraries = {
        kind: _answering(effective, kind) or ", ".join(effective.mapped_libraries.get(kind, [])) or None
        for kind in ("openmp", "allocator")
    }
    asked = set(requests)
    if "LD_PRELOAD" in requests:
        preload = requests["LD_PRELOAD"].value
        asked |= {"openmp"} if re.search(r"lib(iomp|omp|gomp)", preload) else set()
        asked |= {"allocator"} if re.search(r"lib\w*malloc", preload) else set()
    candidates: list[tuple[str, str | None, str]] = [
        ("OMP_NUM_THREADS", None if threads is None else str(threads), "torch.get_num_threads() in the worker"),
        ("cpu_affinity", format_cpulist(effective.affinity), "sched_getaffinity in the worker"),
        ("memory_nodes", effective.memory_nodes, "Mems_allowed_list in /proc/self/status"),
        ("openmp", libraries["openmp"], MAPS),
        ("allocator", libraries["allocator"] or "the C library's", MAPS),
    ]
    rows = [
        Setting(name=name, requested=None, effective=value, status="not requested", proof=proof)
        for name, value, proof in candidates
        if name not in asked
    ]
    for name in sorted(effective.environment):
        # OMP_* and others that a wrapper or sitecustomize set on the way, unseen by the launch.
        if name.startswith(("OMP_", "KMP_", "GOMP_", "MALLOC_")) and name not in requests:
            value = effective.environment[name]
            rows.append(Setting(name=name, requested=None, effective=value, status="not requested", proof=ENVIRONMENT))
    return rows
