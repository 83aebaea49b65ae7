from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from suite.bundle.schema import Finding, LaunchRequest
from suite.errors import UserError
from suite.fingerprint.effective.worker import relevant_environment
from suite.launch.command import STEERING, Launch, plan
from suite.launch.libraries import Libraries, Library
from suite.launch.profiles import KNOBS, MALLOC_CONF, PROFILES, Knob
from suite.launch.topology import Cpu, Topology

IOMP = Library("libiomp5", Path("/opt/lib/libiomp5.so"), "found")
JEMALLOC = Library("libjemalloc", Path("/usr/lib/libjemalloc.so.2"), "found")
BOTH = Libraries(IOMP, JEMALLOC)
NO_IOMP = Library("libiomp5", None, "libiomp5 is not in /opt/lib; install it")
NO_JEMALLOC = Library("libjemalloc", None, "libjemalloc is not in /opt/lib; install it")


def machine(cores: int = 4, quota: float | None = None, nodes: tuple[int, ...] = (0,)) -> Topology:
    cpus = {n: Cpu(n, n, (n,), 0, 0) for n in range(cores)}
    return Topology(cpus, tuple(cpus), nodes, quota)


class Machine:
    """Programs that are installed, and those whose probe fails with a message."""

    def __init__(
        self, installed: Sequence[str] = ("numactl", "taskset"), failing: dict[str, str] | None = None
    ) -> None:
        self.installed = installed
        self.failing = failing or {}
        self.probed: list[list[str]] = []

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.installed else None

    def probe(self, command: Sequence[str]) -> tuple[int, str]:
        self.probed.append(list(command))
        message = next((text for part, text in self.failing.items() if part in " ".join(command)), None)
        return (0, "") if message is None else (1, message)


def planned(
    environ: dict[str, str] | None = None,
    libraries: Libraries = BOTH,
    topology: Topology | None = None,
    host: Machine | None = None,
    request: LaunchRequest | None = None,
    knobs: frozenset[Knob] | None = None,
) -> Launch:
    host = host or Machine()
    found = topology or machine()
    return plan(found, libraries, environ or {}, request, knobs=knobs, which=host.which, probe=host.probe)


def rules(launch: Launch) -> dict[str, Finding]:
    return {finding.rule: finding for finding in launch.findings}


def requested(launch: Launch) -> dict[str, tuple[str, str]]:
    return {setting.name: (setting.value, setting.origin) for setting in launch.requested}


def test_the_tuned_profile_asks_for_everything() -> None:
    launch = planned()
    assert launch.prefix == ["numactl", "-C", "0-3", "-m", "0"]
    assert launch.environment == {
        "LD_PRELOAD": "/opt/lib/libiomp5.so:/usr/lib/libjemalloc.so.2",
        "KMP_BLOCKTIME": "1",
        "KMP_SETTINGS": "1",
        "KMP_AFFINITY": "reset,granularity=fine,compact,1,0",
        "MALLOC_CONF": "oversize_threshold:1,background_thread:true,metadata_thp:auto,"
        "dirty_decay_ms:-1,muzzy_decay_ms:-1",
        "OMP_NUM_THREADS": "4",
    }
    assert requested(launch)["cpu_affinity"] == ("0-3", "suite")
    assert requested(launch)["memory_nodes"] == ("0", "suite")
    assert {origin for _, origin in requested(launch).values()} == {"suite"}


def test_the_placement_is_probed_once_with_the_real_cores() -> None:
    host = Machine()
    planned(host=host)
    assert host.probed == [["numactl", "-C", "0-3", "-m", "0", "true"]]


def test_the_command_and_the_environment_are_laid_over_the_users() -> None:
    launch = planned({"PATH": "/bin"})
    assert launch.command(["python", "-m", "x"])[-3:] == ["python", "-m", "x"]
    assert launch.environ({"PATH": "/bin"})["PATH"] == "/bin"
    assert launch.environ({"PATH": "/bin"})["KMP_BLOCKTIME"] == "1"


def test_a_memory_policy_that_is_forbidden_leaves_numactls_cores_and_is_a_finding() -> None:
    launch = planned(host=Machine(failing={"-m": "set_mempolicy: Operation not permitted"}))
    assert launch.prefix == ["numactl", "-C", "0-3"]
    assert requested(launch)["memory_nodes"] == ("0", "suite")
    assert "Operation not permitted" in launch.unavailable["memory_nodes"]
    assert any("SYS_NICE" in note and "remote node" in note for note in launch.notes)
    finding = rules(launch)["launch.numactl-denied"]
    assert finding.severity == "wrong"
    assert "`numactl -C 0-3 -m 0 true` fails: set_mempolicy: Operation not permitted (exit code 1)" in finding.evidence
    assert "SYS_NICE" in finding.advice


def test_a_numactl_that_fails_otherwise_is_not_called_denied() -> None:
    finding = rules(planned(host=Machine(failing={"numactl": "<0-3> is invalid"})))["launch.numactl-denied"]
    assert finding.claim.startswith("numactl fails")
    assert "SYS_NICE" not in finding.advice


@pytest.mark.parametrize(
    "host", [Machine(["taskset"]), Machine(failing={"numactl": "bad"})], ids=["missing", "failing"]
)
def test_without_numactl_taskset_pins(host: Machine) -> None:
    launch = planned(host=host)
    assert launch.prefix == ["taskset", "-c", "0-3"]
    assert requested(launch)["cpu_affinity"] == ("0-3", "suite")
    assert any("numactl" in note for note in launch.notes)


def test_without_both_nothing_is_pinned_and_that_is_said() -> None:
    launch = planned(host=Machine([]))
    assert launch.prefix == []
    assert requested(launch)["cpu_affinity"] == ("0-3", "suite")
    assert launch.unavailable.keys() == {"cpu_affinity", "memory_nodes"}
    assert any("not pinned" in note for note in launch.notes)
    assert rules(launch).keys() == {"launch.not-pinned", "launch.numactl-missing"}


def test_numactl_that_is_missing_is_a_finding_although_taskset_pins() -> None:
    launch = planned(host=Machine(["taskset"]))
    assert launch.unavailable == {"memory_nodes": "numactl is not installed"}
    assert "install" in rules(launch)["launch.numactl-missing"].advice


def test_a_launch_that_gives_everything_finds_nothing() -> None:
    launch = planned()
    assert (launch.findings, launch.unavailable) == ([], {})


def test_memory_is_bound_only_where_a_node_is_known() -> None:
    assert planned(topology=machine(nodes=())).prefix == ["numactl", "-C", "0-3"]


@pytest.mark.parametrize(("quota", "threads"), [(None, "4"), (8.0, "4"), (2.7, "2"), (0.5, "1")])
def test_threads_are_one_a_core_within_the_quota(quota: float | None, threads: str) -> None:
    launch = planned(topology=machine(quota=quota))
    assert launch.environment["OMP_NUM_THREADS"] == threads
    assert any("quota" in note for note in launch.notes) == (threads != "4")


def test_a_quota_below_one_cpu_says_that_one_thread_will_be_throttled() -> None:
    assert any("and they will be throttled" in note for note in planned(topology=machine(1, quota=0.5)).notes)


def test_without_libiomp5_its_settings_stay_requested_and_are_not_set() -> None:
    launch = planned(libraries=Libraries(NO_IOMP, JEMALLOC))
    assert not PROFILES["tuned"].kmp.keys() & launch.environment.keys()
    assert requested(launch)["KMP_BLOCKTIME"] == ("1", "suite")
    assert launch.unavailable["LD_PRELOAD libiomp5"] == NO_IOMP.reason
    assert "cannot be preloaded" in launch.unavailable["KMP_AFFINITY"]
    assert launch.environment["LD_PRELOAD"] == "/usr/lib/libjemalloc.so.2"
    assert launch.environment["MALLOC_CONF"] == MALLOC_CONF
    assert any("install it" in note and "libgomp" in note for note in launch.notes)
    assert rules(launch)["launch.library-missing"].evidence == [NO_IOMP.reason]


def test_without_jemalloc_malloc_conf_stays_requested_and_is_not_set() -> None:
    launch = planned(libraries=Libraries(IOMP, NO_JEMALLOC))
    assert "MALLOC_CONF" not in launch.environment
    assert launch.environment["LD_PRELOAD"] == "/opt/lib/libiomp5.so"
    assert launch.unavailable.keys() == {"LD_PRELOAD libjemalloc", "MALLOC_CONF"}


def test_without_libraries_nothing_is_preloaded() -> None:
    assert planned(libraries=Libraries(NO_IOMP, NO_JEMALLOC)).environment == {"OMP_NUM_THREADS": "4"}


def test_the_tutorials_settings_are_to_the_letter() -> None:
    launch = planned(request=LaunchRequest(settings="tutorial"))
    assert launch.prefix == ["numactl", "-C", "0-3", "-m", "0"]
    assert launch.environment == {
        "LD_PRELOAD": "/opt/lib/libiomp5.so:/usr/lib/libjemalloc.so.2",
        "KMP_BLOCKTIME": "1",
        "KMP_SETTINGS": "1",
        "KMP_AFFINITY": "granularity=fine,compact,1,0",
        "MALLOC_CONF": "oversize_threshold:1,background_thread:true,metadata_thp:auto,"
        "dirty_decay_ms:-1,muzzy_decay_ms:-1",
    }
    assert any("the tutorial's and lacks `reset,`" in note for note in launch.notes)


@pytest.mark.parametrize(
    ("knobs", "variables", "placed"),
    [
        ((), set(), False),
        (("libiomp5",), {"LD_PRELOAD"}, False),
        (("jemalloc",), {"LD_PRELOAD", "MALLOC_CONF"}, False),
        (("kmp",), {"KMP_BLOCKTIME", "KMP_SETTINGS", "KMP_AFFINITY"}, False),
        (("numactl",), set(), True),
        (("threads",), {"OMP_NUM_THREADS"}, False),
    ],
)
def test_a_knob_sets_its_own_and_nothing_else(knobs: tuple[Knob, ...], variables: set[str], placed: bool) -> None:
    launch = planned(knobs=frozenset(knobs))
    assert launch.environment.keys() == variables
    assert bool(launch.prefix) == placed


def test_all_knobs_are_the_tuned_profile() -> None:
    assert planned(knobs=frozenset(KNOBS)) == planned()


def test_cores_threads_and_nodes_that_were_asked_for_hold_in_any_profile() -> None:
    request = LaunchRequest(settings="untuned", cores="1-2", threads=1)
    launch = planned(request=request)
    assert launch.prefix == ["numactl", "-C", "1-2", "-m", "0"]
    assert launch.environment == {"OMP_NUM_THREADS": "1"}


def test_more_threads_than_cpus_are_warned_of() -> None:
    assert any("wait for each other" in note for note in planned(request=LaunchRequest(threads=9)).notes)


def test_threads_that_contradict_the_environment_are_refused() -> None:
    with pytest.raises(UserError, match="OMP_NUM_THREADS=3 is exported"):
        planned({"OMP_NUM_THREADS": "3"}, request=LaunchRequest(threads=2))
    assert "OMP_NUM_THREADS" not in planned({"OMP_NUM_THREADS": "2"}, request=LaunchRequest(threads=2)).environment


def test_what_the_user_exported_stands_and_is_marked() -> None:
    launch = planned({"KMP_BLOCKTIME": "200", "OMP_NUM_THREADS": "3", "MKL_VERBOSE": "1"})
    assert not {"KMP_BLOCKTIME", "OMP_NUM_THREADS", "MKL_VERBOSE"} & launch.environment.keys()
    assert requested(launch)["KMP_BLOCKTIME"] == ("200", "user")
    assert requested(launch)["OMP_NUM_THREADS"] == ("3", "user")
    assert requested(launch)["MKL_VERBOSE"] == ("1", "user")
    assert requested(launch)["KMP_AFFINITY"][1] == "suite"
    assert len(launch.requested) == len(requested(launch))


def test_a_users_preload_stands_and_decides_which_settings_make_sense() -> None:
    launch = planned({"LD_PRELOAD": "/usr/lib/libtcmalloc.so.4"})
    assert launch.environment == {"OMP_NUM_THREADS": "4"}
    assert requested(launch)["LD_PRELOAD"] == ("/usr/lib/libtcmalloc.so.4", "user")
    assert sum("LD_PRELOAD is the user's" in note for note in launch.notes) == 2


def test_a_users_preload_of_the_same_library_keeps_its_settings() -> None:
    launch = planned({"LD_PRELOAD": "/usr/lib/libjemalloc.so"}, libraries=Libraries(NO_IOMP, NO_JEMALLOC))
    assert launch.environment["MALLOC_CONF"] == MALLOC_CONF


@pytest.mark.parametrize(("value", "warned"), [("compact,1,0", True), ("reset,compact", False), ("disabled", False)])
def test_a_users_affinity_without_reset_is_warned_of(value: str, warned: bool) -> None:
    assert any("pytorch#136307" in note for note in planned({"KMP_AFFINITY": value}).notes) == warned


def test_requests_show_no_home_directory_while_the_environment_keeps_it() -> None:
    iomp = Library("libiomp5", Path("/home/ada/venv/lib/libiomp5.so"), "found")
    launch = planned(libraries=Libraries(iomp, NO_JEMALLOC))
    assert launch.environment["LD_PRELOAD"] == "/home/ada/venv/lib/libiomp5.so"
    assert requested(launch)["LD_PRELOAD"][0] == "~/venv/lib/libiomp5.so"


def test_the_untuned_profile_sets_nothing_and_records_the_users_settings() -> None:
    host = Machine()
    launch = planned({"OMP_NUM_THREADS": "3"}, host=host, request=LaunchRequest(settings="untuned"))
    assert (launch.prefix, launch.environment, host.probed) == ([], {}, [])
    assert requested(launch) == {"OMP_NUM_THREADS": ("3", "user")}


def test_every_recorded_request_is_among_what_the_worker_reports() -> None:
    names = ["OMP_X", "KMP_X", "GOMP_X", "MKL_X", "DNNL_X", "ONEDNN_X", "OPENBLAS_X", "MALLOC_X"]
    names += ["GLIBC_TUNABLES", "LD_PRELOAD", "ATEN_CPU_CAPABILITY"]
    matcher: Callable[[str], object] = STEERING.fullmatch
    assert all(matcher(name) for name in names)
    assert set(relevant_environment(dict.fromkeys(names, "1"))) == set(names)


def test_what_was_asked_for_only_shapes_the_knobs_of_an_ablation() -> None:
    asked = LaunchRequest(cores="1-2", threads=1)
    assert planned(request=asked, knobs=frozenset()).prefix == []
    assert planned(request=asked, knobs=frozenset()).environment == {}
    assert planned(request=asked, knobs=frozenset({"numactl"})).prefix == ["numactl", "-C", "1-2", "-m", "0"]
