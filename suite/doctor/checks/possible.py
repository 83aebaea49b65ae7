"""What makes a run impossible, or its numbers something else than they say."""

from __future__ import annotations

from collections.abc import Iterator

from suite.doctor.advice import Advice, advise, from_finding
from suite.doctor.places import PACKAGES
from suite.doctor.survey import Survey
from suite.doctor.words import counted, gib

# A bundle of the quick preset with its traces takes some 20 MB, torch's precompiled header and kernels some 200 MB.
DISK_NEEDED_BYTES = 300 << 20
DISK_COMFORTABLE_BYTES = 2 << 30
# A worker with torch takes 0.4 GB, the C++ compiler about as much a kernel, and the larger shapes gigabytes.
MEMORY_NEEDED_BYTES = 1 << 30
MEMORY_COMFORTABLE_BYTES = 4 << 30
ESSENTIAL = ("torch", "numpy")


def looked_everywhere(survey: Survey) -> Iterator[Advice]:
    """A look that failed is said, since its findings are missing."""
    for name, reason in survey.failures.items():
        yield advise(
            "look-failed",
            "doubtful",
            f"The doctor could not look at: {name}.",
            reason,
            advice="report this; what depends on it is not judged here",
        )


def engine_works(survey: Survey) -> Iterator[Advice]:
    """An engine that was asked for by name must work; a run refuses to go elsewhere."""
    engines = survey.engines
    if engines.refusal:
        asked = survey.options.engine
        yield advise(
            "engine-refused",
            "wrong",
            f"The engine {asked} was asked for and cannot be had: a run would refuse to start.",
            engines.refusal,
            advice=f"repair {asked}, or leave ENGINE out",
            stops=True,
        )


def packages_are_there(survey: Survey) -> Iterator[Advice]:
    """What the suite imports later than the doctor does."""
    if survey.in_image or not survey.packages:
        return
    missing = [name for name, version in survey.packages.items() if version is None]
    for name in missing:
        essential = name in ESSENTIAL
        yield advise(
            f"no-{name}",
            "wrong" if name != "weasyprint" else "doubtful",
            f"The package {name} is not installed: {PACKAGES[name]}.",
            "importlib finds no installed package of that name",
            advice="`make setup`",
            stops=essential,
        )


def folders_can_be_written(survey: Survey) -> Iterator[Advice]:
    """Results, compiler cache and temporary files have a place, with room."""
    for place in survey.places:
        ways_out = {
            "results": "name another folder: make bench-cpu OUTPUT=/path",
            "compiler cache": "set XDG_CACHE_HOME to a folder that this user can write",
        }
        way_out = ways_out.get(place.name, "set TMPDIR to a folder that this user can write")
        if place.refusal:
            claim = f"The folder for the {place.name}, {place.path}, cannot be written."
            yield advise("not-writable", "wrong", claim, place.refusal, advice=way_out, stops=True)
        elif place.free_bytes is not None and place.free_bytes < DISK_COMFORTABLE_BYTES:
            full = place.free_bytes < DISK_NEEDED_BYTES
            yield advise(
                "disk-full",
                "wrong" if full else "doubtful",
                f"The disk is {'full' if full else 'nearly full'} where the {place.name} would go: {gib(place.free_bytes)} free "
                f"in {place.path}.",
                f"a run needs {gib(DISK_NEEDED_BYTES)}, its compiler caches and traces more",
                advice=f"make room, or {way_out}",
                stops=full,
            )
        if place.name == "compiler cache" and not place.runs_code and not survey.in_image:
            yield advise(
                "cache-noexec",
                "wrong",
                f"Compiled kernels could not be loaded: {place.path} is on a file system that is mounted noexec.",
                "statvfs shows ST_NOEXEC",
                advice=way_out,
                stops=True,
            )


def compiler_is_there(survey: Survey) -> Iterator[Advice]:
    """Inductor builds C++: without compiler, headers and openssl every compiled arm is left out, and only eager is measured."""
    if survey.in_image or "compiler" not in survey.facts:
        return
    wanted = (
        ("cxx", "no-compiler", "a C++ compiler", "apt-get install g++, or set CXX"),
        ("python_header", "no-python-headers", "Python's headers (Python.h)", "apt-get install python3-dev"),
        (
            "openssl",
            "no-openssl",
            "the openssl program, with which Inductor names its headers",
            "apt-get install openssl",
        ),
    )
    for name, rule, what, install in wanted:
        fact = survey.fact("compiler", name)
        if not fact.value:
            yield advise(
                rule,
                "wrong",
                f"torch.compile cannot build kernels: {what} is missing, so only eager is measured, and nothing is compared with it.",
                f"{fact.source}: {fact.note or 'not found'}",
                advice=f"`make setup` as root, or {install}",
                unpublishable=True,
            )


def processor_is_real(survey: Survey) -> Iterator[Advice]:
    """x86_64 code on another processor runs in an emulator, which is then what is measured."""
    flags, vendor = survey.value("cpu", "flags"), survey.value("cpu", "vendor")
    x86 = survey.value("system", "architecture") == "x86_64"
    foreign = isinstance(flags, list) and bool(flags) and "sse2" not in flags
    if x86 and (foreign or vendor == "VirtualApple"):
        yield advise(
            "emulated-processor",
            "wrong",
            "This is x86_64 code on a processor that is not: every number would measure the emulator.",
            f"uname says x86_64; /proc/cpuinfo names {vendor or 'no vendor'} {survey.value('cpu', 'model') or ''}".rstrip(),
            advice="run on a machine of the image's architecture",
        )


def quota_suffices(survey: Survey) -> Iterator[Advice]:
    """Threads beyond the CPU quota are stopped by the kernel for the rest of each period."""
    quota, threads = survey.topology.quota_cpus, survey.threads
    if quota is None:
        return
    allowed = len(survey.topology.allowed)
    seen = f"CPU quota {quota:g} of {counted(allowed, 'CPU')}"
    periods = survey.load.throttled
    evidence = [
        "the control group's cpu.max or cpu.cfs_quota_us",
        f"throttled in {periods[1]} of {periods[0]} periods so far (cpu.stat)" if periods else "",
    ]
    way_out = "start the container without --cpus and use --cpuset-cpus, which gives whole CPUs"
    if quota < 1:
        yield advise(
            "quota-below-one",
            "wrong",
            f"{seen}: {counted(threads or 1, 'thread')} is used and will be throttled; timings in a quota of less than one CPU "
            "measure the quota.",
            *evidence,
            advice=way_out,
        )
    elif threads is not None and threads > quota:
        yield advise(
            "quota-below-threads",
            "wrong",
            f"{seen}, but {threads} threads are asked for: they will be throttled, and timings measure the quota.",
            *evidence,
            advice=f"unset OMP_NUM_THREADS or set it to {int(quota)}; better, {way_out}",
        )
    elif quota < allowed:
        yield advise(
            "quota",
            "doubtful",
            f"{seen}: {counted(threads or int(quota), 'thread')} fit, but compile workers and helper threads count too and "
            "may have them throttled.",
            *evidence,
            advice=way_out,
        )


def threads_fit(survey: Survey) -> Iterator[Advice]:
    """More threads than CPUs wait for each other."""
    # Threads that are not pinned may run wherever the process may.
    pinned = survey.placement.cores if survey.launch.prefix else survey.topology.allowed
    threads, cpus = survey.threads, len(pinned)
    if threads is not None and threads > cpus > 0:
        yield advise(
            "threads-exceed-cpus",
            "wrong",
            f"{threads} threads are asked for on {counted(cpus, 'CPU')}: they wait for each other at every parallel region.",
            f"OMP_NUM_THREADS={threads}",
            advice=f"unset OMP_NUM_THREADS, or THREADS={cpus}",
        )


def memory_suffices(survey: Survey) -> Iterator[Advice]:
    """Beyond the limit the kernel kills the worker, or swaps."""
    memory = survey.memory
    if memory.available_bytes is None or memory.available_bytes >= MEMORY_COMFORTABLE_BYTES:
        return
    short = memory.available_bytes < MEMORY_NEEDED_BYTES
    limit = (
        f"memory limit {gib(memory.limit_bytes)} (cgroup)"
        if memory.limit_bytes is not None
        else "/proc/meminfo MemAvailable"
    )
    yield advise(
        "memory-short",
        "wrong" if short else "doubtful",
        f"{gib(memory.available_bytes)} of memory are to be had: "
        + (
            "a worker may be killed while it compiles."
            if short
            else "small cases fit; larger shapes and MobileBERT may be killed."
        ),
        limit,
        advice="raise the container's --memory"
        if memory.limit_bytes is not None
        else "end what uses memory, or choose CASES",
    )


def launch_is_in_force(survey: Survey) -> Iterator[Advice]:
    """What a rehearsed worker shows: each difference between requested and effective, by the launch's own findings."""
    if survey.in_image:
        return
    if isinstance(survey.effective, str) and "rehearsal" not in survey.failures:
        yield advise(
            "rehearsal-failed",
            "wrong",
            "A process that is started as workers are does not come up, so nothing can be said of the settings.",
            survey.effective,
            advice="try SETTINGS=untuned, and unset what is exported",
        )
    for finding in survey.findings:
        yield from_finding(finding)


CHECKS = (
    engine_works,
    packages_are_there,
    folders_can_be_written,
    compiler_is_there,
    processor_is_real,
    quota_suffices,
    threads_fit,
    launch_is_in_force,
    memory_suffices,
    looked_everywhere,
)
