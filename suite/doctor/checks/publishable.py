"""What makes a run unpublishable, or another run than the machine could give."""

from __future__ import annotations

from collections.abc import Iterator

from suite.doctor.advice import Advice, advise
from suite.doctor.engines import PATIENCE_S
from suite.doctor.survey import Survey
from suite.doctor.words import counted
from suite.fingerprint.files import format_cpulist


def containerised(survey: Survey) -> Iterator[Advice]:
    """A publishable run happens in an image that is named by its digest."""
    engines = survey.engines
    if survey.in_image:
        engine = engines.choice.engine
        yield advise(
            "view-from-outside",
            "note",
            f"A run would take place in {engine.name}: libraries, compiler and numactl are then the image's, not those seen from here.",
            engine.reason,
            advice=f"ask inside: {engine.name} run --rm --cap-add=SYS_NICE {engine.image} doctor",
        )
    elif engines.choice.engine.containerised:
        if engines.choice.engine.image_digest is None:
            yield advise(
                "image-unknown",
                "doubtful",
                "Not publishable: the digest of the image is unknown.",
                "SPEEDPROOF_IMAGE_DIGEST is not set in this container",
                unpublishable=True,
                advice="start runs with `make bench-cpu`, which hands it in",
            )
    elif engines.refusal:
        return  # said before
    elif engines.builds_image:
        yield advise(
            "image-not-built",
            "note",
            f"A run would first build the image with {engines.answering[0]}, which takes minutes.",
            engines.choice.engine.reason,
            advice="`make image-cpu` beforehand; without it this looks at the machine as a native run would",
        )
    elif engines.slow:
        name = engines.slow[0]
        yield advise(
            "engine-slow",
            "doubtful",
            f"Whether a run would be in a container is not known: {' and '.join(engines.slow)} did not answer within {PATIENCE_S:g} s.",
            f"{engines.choice.engine.reason}; a run waits longer",
            advice=f"wait for `{name} info`, and ask again",
        )
    else:
        named = survey.value("container", "container")
        inside = named not in (None, "none")
        evidence = [engines.choice.engine.reason]
        evidence += [f"this is a container ({named}) that the suite did not start"] if inside else []
        way_out = (
            "leave ENGINE=native out"
            if survey.options.engine == "native"
            else "start it from outside with `make bench-cpu`"
            if inside
            else "install docker or podman; a native run is still sound"
        )
        yield advise(
            "not-containerised",
            "doubtful",
            "Not publishable: a run here would not be in a container whose image has a digest.",
            *evidence,
            advice=way_out,
            unpublishable=True,
        )


def source_is_known(survey: Survey) -> Iterator[Advice]:
    """Whoever repeats a run needs the very source."""
    if survey.source.revision is None:
        yield advise(
            "source-unknown",
            "doubtful",
            "Not publishable: the suite's own revision is unknown.",
            "neither git nor the image tells it",
            unpublishable=True,
            advice="run from a git checkout",
        )
    elif survey.source.dirty or survey.source.dirty is None:
        yield advise(
            "source-changed" if survey.source.dirty else "source-unknown",
            "doubtful",
            "Not publishable: "
            + (
                "the suite's own files were changed."
                if survey.source.dirty
                else "whether the suite's files were changed is unknown."
            ),
            f"git status at {survey.source.revision[:12]}",
            unpublishable=True,
            advice="commit the changes",
        )


def torch_is_locked(survey: Survey) -> Iterator[Advice]:
    """The versions that the locks pin are the ones that are measured."""
    installed, locked = survey.packages.get("torch"), survey.locked_torch
    if installed and locked and installed.partition("+")[0] != locked and not survey.in_image:
        yield advise(
            "torch-not-locked",
            "doubtful",
            f"torch {installed} is installed and the locks pin {locked}: results compare only with those of the same version.",
            "importlib.metadata; docker/requirements-cpu.lock",
            advice="`make setup`",
        )


def vector_instructions(survey: Survey) -> Iterator[Advice]:
    """Without AVX2 torch and Inductor take their scalar kernels."""
    flags = survey.value("cpu", "flags")
    if (
        survey.value("system", "architecture") == "x86_64"
        and isinstance(flags, list)
        and "sse2" in flags
        and "avx2" not in flags
    ):
        yield advise(
            "no-avx2",
            "doubtful",
            "The processor shows no AVX2: torch runs its scalar kernels, which no published number was measured with.",
            "/proc/cpuinfo flags",
            advice="in a virtual machine, pass the host's processor through (QEMU: -cpu host)",
        )


def siblings_are_idle(survey: Survey) -> Iterator[Advice]:
    """Hardware threads of a core share its units: whatever runs on the other one slows the measured one."""
    cpus, chosen = survey.topology.cpus, set(survey.placement.cores)
    shared = [cpus[number] for number in sorted(chosen) if number in cpus and len(cpus[number].siblings) > 1]
    if not shared:
        return
    siblings = {number for cpu in shared for number in cpu.siblings}
    if used := sorted(chosen & {number for cpu in shared for number in cpu.siblings if number != cpu.number}):
        yield advise(
            "smt-used",
            "doubtful",
            f"Both hardware threads of a core are measured on (CPUs {format_cpulist(used)}): they slow each other.",
            "sysfs topology, the chosen placement",
            advice="leave SMT=yes out, unless hardware threads are what is measured",
        )
    others = siblings - chosen
    foreign = others - set(survey.topology.allowed)
    if foreign:
        yield advise(
            "smt-neighbours",
            "doubtful",
            f"CPUs {format_cpulist(foreign)} are hardware threads of the measured cores and belong to others: what runs there "
            "slows this run and cannot be seen from here.",
            f"allowed CPUs {format_cpulist(survey.topology.allowed)}; sysfs topology",
            advice="give the run whole cores (--cpuset-cpus with all threads of a core)",
        )
    elif others:
        yield advise(
            "smt-siblings",
            "note",
            f"CPUs {format_cpulist(others)} are hardware threads of the measured cores: leave them idle.",
            "sysfs topology; one thread a core is measured",
            advice="start nothing else; to be sure, echo off > /sys/devices/system/cpu/smt/control as root",
        )


def whole_machine(survey: Survey) -> Iterator[Advice]:
    """A part of the machine is measured: other parts share its memory bandwidth and clocks."""
    online, allowed = survey.topology.online, survey.topology.allowed
    if len(allowed) < len(online):
        yield advise(
            "part-of-machine",
            "note",
            f"{len(allowed)} of {counted(len(online), 'CPU')} may be used ({format_cpulist(allowed)}): the rest shares caches, "
            "memory bandwidth and power with them.",
            "sched_getaffinity; /sys/devices/system/cpu/online",
            advice="keep the others idle, and compare only with runs of the same cpuset",
        )
    if survey.topology.hybrid:
        kinds = [survey.topology.cpus[number].kind for number in allowed]
        yield advise(
            "hybrid",
            "note",
            f"This is a hybrid part: {kinds.count('performance')} performance and {kinds.count('efficiency')} efficiency CPUs. "
            "Only performance cores are measured on by default.",
            f"placement: {survey.placement.reason}",
            advice="name others with CORES",
        )
    for note in survey.topology.notes:
        yield advise("topology", "doubtful", f"The topology is not as usual: {note}.", "sysfs")


def weights_are_published(survey: Survey) -> Iterator[Advice]:
    """Random weights time the same work, and are not the published model."""
    found, where = survey.weights
    if not found:
        yield advise(
            "random-weights",
            "note",
            "MobileBERT would have random weights from a seed, and the report says so.",
            where,
            advice="MODEL_DIR=folder, or `hf download csarron/mobilebert-uncased-squad-v2` beforehand",
        )


CHECKS = (
    containerised,
    source_is_known,
    torch_is_locked,
    vector_instructions,
    siblings_are_idle,
    whole_machine,
    weights_are_published,
)
