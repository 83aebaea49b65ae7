"""What is seen to be in order, and by what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from suite.bundle.schema import Effective, Setting
from suite.doctor.advice import Advice, advise
from suite.doctor.checks.noise import BUSY_OTHERS_CPUS, STEAL_DOUBTFUL_SHARE
from suite.doctor.survey import Survey
from suite.doctor.words import counted, cpus, gib, percent

HEAPS = ("jemalloc", "tcmalloc", "mimalloc", "tbbmalloc")


def launch_in_force(survey: Survey) -> Iterator[Advice]:
    """A worker was rehearsed: what it had in force, from the worker's own mouth."""
    seen = survey.effective
    if isinstance(seen, str) or survey.in_image:
        return
    settings = {setting.name: setting for setting in survey.settings if setting.status == "in force"}
    if parts := list(_of_placement(survey, seen, set(settings))):
        yield advise(
            "placement-in-force",
            "proven",
            f"Placement: {', '.join(parts)}.",
            f"`{' '.join(survey.launch.prefix)}` starts a process" if survey.launch.prefix else "",
            *_proofs(survey, ("cpu_affinity", "memory_nodes")),
        )
    for name, setting in settings.items():
        if name.startswith("LD_PRELOAD "):
            library = PurePath(setting.effective or "").name
            serves = "allocates" if any(heap in library for heap in HEAPS) else "runs the threads"
            yield advise("library-in-force", "proven", f"{library} {serves}.", setting.proof)
    rest = [name for name in settings if name.startswith(("KMP_", "OMP_", "MALLOC_", "GOMP_", "MKL_"))]
    if rest:
        options = sum(name.startswith("MALLOC_CONF ") for name in rest)
        names = [name for name in rest if not name.startswith("MALLOC_CONF ")]
        names += [f"MALLOC_CONF ({counted(options, 'option')})"] if options else []
        yield advise("settings-in-force", "proven", f"In force: {', '.join(names)}.", *_short_proofs(settings, rest))


def toolchain(survey: Survey) -> Iterator[Advice]:
    """What Inductor needs is there; the first kernel of a run proves that it works."""
    facts = survey.facts.get("compiler", {})
    needed = [facts[name] for name in ("cxx", "python_header", "openssl") if name in facts]
    if len(needed) == 3 and all(fact.value for fact in needed) and not survey.in_image:
        version = survey.value("compiler", "cxx_version")
        yield advise(
            "toolchain",
            "proven",
            f"C++ kernels can be built: {version}, Python.h, openssl.",
            "each is found; not tried",
        )


def room(survey: Survey) -> Iterator[Advice]:
    """Folders can be written and have room."""
    if survey.places and not any(place.refusal for place in survey.places):
        free = ", ".join(
            f"{place.name} {gib(place.free_bytes)}" for place in survey.places if place.free_bytes is not None
        )
        memory = survey.memory.available_bytes
        left = f"; memory {gib(memory)}" if memory is not None else ""
        yield advise(
            "room", "proven", f"Free: {free}{left}.", "statvfs, access; MemAvailable and the control group's limit"
        )


def quiet(survey: Survey) -> Iterator[Advice]:
    """Nothing else runs, and no CPU time is stolen."""
    load = survey.load
    if (
        load.others_cpus is not None
        and load.others_cpus < BUSY_OTHERS_CPUS
        and (load.steal_share or 0.0) < STEAL_DOUBTFUL_SHARE
    ):
        online = counted(len(survey.topology.online), "CPU")
        yield advise(
            "quiet",
            "proven",
            f"The machine is quiet: others use {load.others_cpus:.2g} of {online}, steal {percent(load.steal_share or 0.0)}.",
            f"/proc/stat over {load.window_s:.1f} s",
        )


def publishable_source(survey: Survey) -> Iterator[Advice]:
    """Whoever repeats the run finds the same source, in the same image."""
    if survey.source.revision and survey.source.dirty is False:
        yield advise(
            "source", "proven", f"The suite is at {survey.source.revision[:12]}, unchanged.", "git status, or the image"
        )
    engine = survey.engines.choice.engine
    if engine.containerised and engine.image_digest:
        yield advise("image", "proven", f"Runs happen in {engine.image}, {engine.image_digest[:19]}.", engine.reason)


def _of_placement(survey: Survey, seen: Effective, in_force: set[str]) -> Iterator[str]:
    threads = survey.threads
    if "OMP_NUM_THREADS" in in_force and threads:
        yield counted(threads, "thread")
    values = {setting.name: setting.effective for setting in survey.settings}
    if "cpu_affinity" in in_force:
        bound, workers = seen.threads.get("openmp_workers_bound", 0), seen.threads.get("openmp_workers", 0)
        each = ", each on one CPU" if bound and bound == workers else ""
        yield f"pinned to {cpus(str(values['cpu_affinity']))}{each}"
    if "memory_nodes" in in_force:
        policy = str(values["memory_nodes"]).rpartition(":")[2]
        yield f"memory bound to node {policy}"


def _proofs(survey: Survey, names: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(setting.proof for setting in survey.settings if setting.name in names))


def _short_proofs(settings: Mapping[str, Setting], names: list[str]) -> list[str]:
    """Each proof once; jemalloc's options are all asked for in one way."""
    parts = (part for name in names for part in settings[name].proof.split("; "))
    return list(dict.fromkeys(re.sub(r"mallctl\(opt\.\w+\)", "mallctl(opt.*)", part) for part in parts))


CHECKS = (launch_in_force, toolchain, quiet, room, publishable_source)
