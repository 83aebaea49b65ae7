"""Surveys of machines that are not here: a healthy one, changed field by field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from suite.bundle.schema import Effective, Engine, Fact, Setting, Source
from suite.doctor.engines import Engines
from suite.doctor.load import Load
from suite.doctor.places import Memory, Place
from suite.doctor.survey import Options, Survey
from suite.launch.command import Launch, Requested
from suite.launch.engine import Choice
from suite.launch.libraries import Libraries, Library
from suite.launch.topology import Cpu, Placement, Topology

GIB = 1 << 30
OPENMP, JEMALLOC = "/opt/lib/libiomp5.so", "/usr/lib/libjemalloc.so.2"


def fact(value: object, status: str = "ok", note: str = "") -> Fact:
    return Fact(value=value, source="a test", status=status, note=note)  # type: ignore[arg-type]


def facts(**subjects: dict[str, object]) -> dict[str, dict[str, Fact]]:
    """Facts by subject; a value that is no Fact becomes one that was read."""
    return {
        subject: {name: value if isinstance(value, Fact) else fact(value) for name, value in named.items()}
        for subject, named in subjects.items()
    }


HEALTHY = {
    "cpu": {
        "model": "AMD EPYC 9654",
        "flags": ["avx2", "sse2"],
        "vendor": "AuthenticAMD",
        "physical_cores": 4,
        "sockets": 1,
        "threads_per_core": 1,
        "hypervisor": "none",
        "governor": {"performance": "0-3"},
        "boost": False,
        "maximum_mhz": {"3700": "0-3"},
        "isolated": [],
    },
    "memory": {"total_bytes": 64 * GIB, "swap_total_bytes": 0, "dimms": [{"size_bytes": 32 * GIB}]},
    "system": {
        "architecture": "x86_64",
        "clocksource": "tsc",
        "product_name": "a server",
        "kernel": "6.1.0",
        "os": "Debian 12",
        "address_space_randomisation": 2,
    },
    "container": {"container": "none"},
    "compiler": {
        "cxx": "/usr/bin/g++",
        "cxx_version": "g++ 12.2.0",
        "python_header": True,
        "openssl": "/usr/bin/openssl",
    },
    "python": {"version": "3.11.7"},
    "gpu": {"count": fact(None, "absent", "no driver")},
}


def machine(cpus: int = 4, *, smt: bool = False, quota: float | None = None, allowed: tuple[int, ...] = ()) -> Topology:
    """CPUs of one socket and node; with `smt` the upper half are the siblings of the lower."""
    half = cpus // 2
    made = {n: Cpu(n, n % half if smt else n, (n % half, n % half + half) if smt else (n,), 0, 0) for n in range(cpus)}
    return Topology(made, allowed or tuple(range(cpus)), (0,), quota)


def launch(threads: int = 4, **changes: object) -> Launch:
    environment = {"LD_PRELOAD": f"{OPENMP}:{JEMALLOC}", "OMP_NUM_THREADS": str(threads), "KMP_BLOCKTIME": "1"}
    requested = [Requested("cpu_affinity", "0-3", "suite"), Requested("memory_nodes", "0", "suite")]
    requested += [Requested(name, value, "suite") for name, value in environment.items()]
    return replace(Launch("tuned", ["numactl", "-C", "0-3", "-m", "0"], environment, requested), **changes)  # type: ignore[arg-type]


def setting(
    name: str, requested: str, effective: str | None = None, status: str = "in force", note: str = ""
) -> Setting:
    value = requested if status == "in force" and effective is None else effective
    return Setting(name=name, requested=requested, effective=value, status=status, proof="the worker", note=note)  # type: ignore[arg-type]


IN_FORCE = [
    setting("cpu_affinity", "0-3"),
    setting("memory_nodes", "0", "bind:0"),
    setting("LD_PRELOAD libiomp5", OPENMP, "libiomp5.so"),
    setting("LD_PRELOAD libjemalloc", JEMALLOC, "libjemalloc.so.2"),
    setting("OMP_NUM_THREADS", "4"),
    setting("KMP_BLOCKTIME", "1"),
]


def effective() -> Effective:
    return Effective(
        at="2026-03-01T10:00:00.000Z",
        case="",
        process=0,
        mapped_libraries={},
        affinity=[0, 1, 2, 3],
        memory_nodes="0",
        threads={"openmp_workers": 3, "openmp_workers_bound": 3},
        environment={},
        torch={},
        runtime={},
        peak_rss_bytes=1 << 20,
        timer_resolution_ns=1.0,
        timer_overhead_ns=50.0,
    )


def engines(**changes: object) -> Engines:
    inside = Engine(
        name="docker",
        containerised=True,
        reason="docker answers",
        version="27.1",
        image="speedproof:cpu",
        image_digest="sha256:" + "a" * 64,
    )
    return replace(Engines(Choice(inside, starts_container=False)), **changes)  # type: ignore[arg-type]


def native(reason: str = "docker is not installed; podman is not installed", **changes: object) -> Engines:
    choice = Choice(Engine(name="native", containerised=False, reason=reason), starts_container=False)
    return Engines(choice, **changes)  # type: ignore[arg-type]


def survey(**changes: object) -> Survey:
    """A machine on which everything is in order, in a container that the suite started."""
    healthy = Survey(
        at="2026-03-01T10:00:00.000Z",
        options=Options(),
        topology=machine(),
        placement=Placement((0, 1, 2, 3), (0,), "physical cores of socket 0"),
        libraries=Libraries(
            Library("libiomp5", Path(OPENMP), "found"), Library("libjemalloc", Path(JEMALLOC), "found")
        ),
        launch=launch(),
        effective=effective(),
        settings=IN_FORCE,
        findings=[],
        facts=facts(**HEALTHY),  # type: ignore[arg-type]
        engines=engines(),
        places=[
            Place("results", "results", "", 100 * GIB),
            Place("compiler cache", "~/.cache/speedproof", "", 100 * GIB),
            Place("temporary files", "/tmp", "", 100 * GIB),
        ],
        packages={"torch": "2.13.0+cpu", "numpy": "2.4.6"},
        locked_torch="2.13.0",
        weights=(True, "in MODEL_DIR"),
        memory=Memory(60 * GIB),
        load=Load(0.6, others_cpus=0.01, steal_share=0.0, steal_share_since_boot=0.0, load_1min=0.1),
        source=Source(version="0", revision="0" * 40, dirty=False),
    )
    return replace(healthy, **changes)  # type: ignore[arg-type]


def with_facts(**subjects: dict[str, object]) -> dict[str, dict[str, Fact]]:
    """The healthy machine's facts with some of them changed."""
    changed = facts(**subjects)
    return {
        subject: {**facts(**HEALTHY).get(subject, {}), **changed.get(subject, {})}  # type: ignore[arg-type]
        for subject in {*HEALTHY, *changed}
    }
