"""Rules about a launch. The lines of the libraries are recorded; each state was seen in a real worker."""

from __future__ import annotations

from typing import Any

import pytest

from suite.bundle.schema import Effective, Finding
from suite.launch.command import Launch, Requested
from suite.launch.findings import RULES, findings
from suite.launch.profiles import MALLOC_CONF, PROFILES

LOADER = "ERROR: ld.so: object '/nowhere/libiomp5.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored."
MISSPELT = "<jemalloc>: Invalid conf pair: dirty_decay_msx:-1"
KMP = PROFILES["tuned"].kmp
BOTH = {
    "openmp": ["libgomp.so.1", "libiomp5.so"],
    "allocator": ["libc.so.6", "libjemalloc.so.2"],
    "openmp_called": ["libiomp5.so"],
    "allocator_called": ["libjemalloc.so.2"],
}
GNU = {**BOTH, "openmp": ["libgomp.so.1"], "openmp_called": ["libgomp.so.1"]}
PLAIN = {
    "openmp": ["libgomp.so.1"],
    "openmp_called": ["libgomp.so.1"],
    "allocator": ["libc.so.6"],
    "allocator_called": ["libc.so.6"],
}
SYMBOLS = [f"GOMP_{number}" for number in range(25)] + ["omp_get_max_threads"]


def launch(profile: str = "tuned", **values: str) -> Launch:
    return Launch(profile, [], {}, [Requested(name, value, "suite") for name, value in values.items()])


def worker(**changes: Any) -> Effective:
    fields: dict[str, Any] = {
        "at": "2026-01-01T00:00:00Z",
        "case": "matmul_add/64-fp32",
        "process": 0,
        "mapped_libraries": PLAIN,
        "affinity": [0, 1],
        "memory_nodes": "0-1",
        "threads": {"torch_intra_op": 2, "openmp_maximum": 2, "mkl_maximum": 2},
        "environment": {},
        "torch": {},
        "runtime": {"memory.policy": "bind:0"},
        "timer_resolution_ns": 1.0,
        "timer_overhead_ns": 20.0,
        "peak_rss_bytes": 1 << 28,
        "affinities": {"0-1": 3},
        "memory_bytes_by_node": {"0": 150_000_000},
        "openmp_symbols": {"libgomp.so.1": SYMBOLS},
    }
    return Effective(**fields | changes)


def only(found: list[Finding]) -> Finding:
    assert [finding.rule for finding in found] == [found[0].rule]
    return found[0]


def test_a_launch_in_force_has_no_findings() -> None:
    asked = launch(cpu_affinity="0-1", memory_nodes="0", OMP_NUM_THREADS="2")
    assert findings(asked, [worker(), worker(process=1)]) == []
    assert findings(asked, []) == []


def test_a_wrong_preload_path_is_named_with_the_loaders_line() -> None:
    found = only(findings(launch(LD_PRELOAD="/nowhere/libiomp5.so"), [worker(messages=[LOADER])]))
    assert (found.rule, found.severity) == ("launch.preload-ignored", "wrong")
    assert "/nowhere/libiomp5.so (cannot open shared object file)" in found.claim
    assert found.evidence[0] == f"standard error of the worker: {LOADER}"
    assert "/proc/self/maps" in found.evidence[1]


def test_a_preload_that_is_not_mapped_is_named_even_without_a_log() -> None:
    found = only(findings(launch(LD_PRELOAD="/usr/lib/libjemalloc.so.2"), [worker()]))
    assert found.rule == "launch.preload-ignored"
    assert "/usr/lib/libjemalloc.so.2 (not mapped)" in found.claim


def test_a_misspelt_key_of_malloc_conf_is_named_with_jemallocs_line() -> None:
    runtime = {"memory.policy": "bind:0", "jemalloc.dirty_decay_ms": "10000", "jemalloc.muzzy_decay_ms": "-1"}
    conf = "dirty_decay_msx:-1,muzzy_decay_ms:-1"
    seen = worker(
        mapped_libraries=GNU, runtime=runtime, environment={"MALLOC_CONF": conf}, messages=[f"{MISSPELT} (2 times)"]
    )
    found = only(findings(launch(MALLOC_CONF=conf), [seen]))
    assert (found.rule, found.severity) == ("launch.malloc-conf-invalid", "wrong")
    assert found.claim == "jemalloc did not take MALLOC_CONF as written: dirty_decay_msx:-1."
    assert found.evidence[0] == f"standard error of the worker: {MISSPELT}"


def test_a_key_that_reads_back_differently_is_named_without_a_line() -> None:
    seen = worker(mapped_libraries=GNU, runtime={"memory.policy": "bind:0", "jemalloc.narenas": "8"})
    found = only(findings(launch(MALLOC_CONF="narenas:2"), [seen]))
    assert found.rule == "launch.malloc-conf-invalid"
    assert "narenas:2" in found.claim


def test_malloc_conf_without_jemalloc_is_one_finding_for_all_its_keys() -> None:
    seen = worker(environment={"MALLOC_CONF": MALLOC_CONF})
    found = only(findings(launch(MALLOC_CONF=MALLOC_CONF), [seen]))
    assert found.rule == "launch.malloc-conf-without-jemalloc"
    assert "libc.so.6, which ignores it" in found.claim


def test_kmp_settings_without_libiomp5_name_the_run_time_that_answers() -> None:
    seen = worker(environment=KMP, runtime={"memory.policy": "bind:0", "openmp.symbols_bound": "27 of 27"})
    found = only(findings(launch(**KMP), [seen, seen]))
    assert (found.rule, found.severity) == ("launch.kmp-without-libiomp5", "wrong")
    assert "libgomp.so.1 runs the threads and ignores KMP_*" in found.claim
    assert found.evidence[0].startswith("environment of 2 of 2 workers: KMP_AFFINITY=reset,")
    assert "libgomp.so.1 answers 26" in found.evidence[2]
    assert "27 of 27 addresses read" in found.evidence[2]


def test_what_a_library_sets_within_the_worker_is_no_setting_that_is_ignored() -> None:
    own = {"KMP_DUPLICATE_LIB_OK": "True", "KMP_INIT_AT_FORK": "FALSE"}
    assert findings(launch(), [worker(environment=own)]) == []
    (mixed,) = findings(launch(**KMP), [worker(environment=KMP | own)])
    assert "KMP_DUPLICATE_LIB_OK" not in mixed.claim + mixed.evidence[0]
    asked = findings(launch(KMP_INIT_AT_FORK="FALSE"), [worker(environment=own)])
    assert "launch.kmp-without-libiomp5" in {finding.rule for finding in asked}


def test_two_run_times_of_which_one_provably_idles_are_doubtful() -> None:
    seen = worker(mapped_libraries=BOTH, openmp_symbols={"libiomp5.so": SYMBOLS})
    found = only(findings(launch(), [seen]))
    assert (found.rule, found.severity) == ("launch.two-openmp", "doubtful")
    assert "libiomp5.so answers all 26 symbols that libraries import and libgomp.so.1 is idle" in found.claim


@pytest.mark.parametrize(
    ("symbols", "said"),
    [
        (
            {"libgomp.so.1": SYMBOLS, "libiomp5.so": SYMBOLS[:2]},
            "libgomp.so.1 answers 26 symbols and libiomp5.so answers 2",
        ),
        ({}, "it cannot be told which one answers"),
    ],
)
def test_two_run_times_that_both_answer_or_are_not_told_apart_are_wrong(
    symbols: dict[str, list[str]], said: str
) -> None:
    idle = worker(mapped_libraries=BOTH, openmp_symbols={"libiomp5.so": SYMBOLS})
    found = only(findings(launch(), [idle, worker(mapped_libraries=BOTH, openmp_symbols=symbols)]))
    assert (found.rule, found.severity) == ("launch.two-openmp", "wrong")
    assert said in found.claim


def test_two_allocators_are_named_and_the_c_library_is_none_of_them() -> None:
    mapped = {**GNU, "allocator": ["libc.so.6", "libjemalloc.so.2", "libtcmalloc.so.4"]}
    found = only(findings(launch(), [worker(mapped_libraries=mapped)]))
    assert (found.rule, found.severity) == ("launch.two-allocators", "doubtful")
    assert "libjemalloc.so.2 answers malloc" in found.claim


@pytest.mark.parametrize(("profile", "severity"), [("tutorial", "doubtful"), ("tuned", "wrong")])
def test_a_mask_shrunk_by_kmp_affinity_is_named_and_is_what_the_tutorial_gives(profile: str, severity: str) -> None:
    seen = worker(
        mapped_libraries={**BOTH, "openmp": ["libiomp5.so"]},
        environment=PROFILES["tutorial"].kmp,
        affinity=[0],
        affinities={"0": 1, "0-1": 2, "1": 1},
    )
    found = only(findings(launch(profile, cpu_affinity="0-1"), [seen]))
    assert (found.rule, found.severity) == ("launch.affinity-shrunk", severity)
    assert "CPU 0 of 0-1" in found.claim
    assert "https://github.com/pytorch/pytorch/issues/136307" in found.advice


def test_one_cpu_is_not_shrunk_when_there_is_no_other() -> None:
    environment, mapped = PROFILES["tutorial"].kmp, {**BOTH, "openmp": ["libiomp5.so"]}
    counts = {"torch_intra_op": 1}
    seen = worker(mapped_libraries=mapped, environment=environment, affinity=[1], affinities={"1": 3}, threads=counts)
    assert findings(launch(cpu_affinity="1"), [seen]) == []


def test_a_thread_outside_of_the_requested_cpus_is_named() -> None:
    found = only(findings(launch(cpu_affinity="0-1"), [worker(), worker(affinities={"0-1": 2, "2-3": 1})]))
    assert (found.rule, found.severity) == ("launch.not-pinned", "wrong")
    assert "1 thread of the worker may run outside of the requested CPUs 0-1" in found.claim
    assert "2 on CPUs 0-1, 1 on CPUs 2-3" in found.evidence[1]


def test_memory_on_another_node_is_named_with_its_share() -> None:
    elsewhere = worker(memory_bytes_by_node={"0": 75_000_000, "1": 25_000_000})
    found = only(findings(launch(memory_nodes="0"), [worker(), elsewhere]))
    assert (found.rule, found.severity) == ("launch.memory-elsewhere", "wrong")
    assert "25 % of the workers' memory is not on node 0" in found.claim
    assert "node 0: 75 MB, node 1: 25 MB" in found.evidence[1]


def test_memory_that_nothing_binds_is_named_too() -> None:
    found = only(findings(launch(memory_nodes="0"), [worker(runtime={"memory.policy": "default"})]))
    assert found.rule == "launch.memory-elsewhere"
    assert "not bound to node 0" in found.claim


def test_thread_counts_that_differ_are_doubtful_and_wrong_when_requested() -> None:
    counts = {"torch_intra_op": 2, "openmp_maximum": 2, "mkl_maximum": 1}
    found = only(findings(launch(), [worker(threads=counts)]))
    assert (found.rule, found.severity) == ("launch.threads-differ", "doubtful")
    assert "mkl_get_max_threads() 1" in found.claim
    found = only(findings(launch(OMP_NUM_THREADS="8"), [worker()]))
    assert (found.rule, found.severity) == ("launch.threads-differ", "wrong")
    assert "OMP_NUM_THREADS is 8 and 2 threads are used" in found.claim


def test_more_threads_than_cpus_are_named() -> None:
    found = only(findings(launch(), [worker(threads={"torch_intra_op": 4})]))
    assert found.rule == "launch.threads-differ"
    assert "4 threads share the 2 CPUs 0-1" in found.claim


def test_a_warning_of_the_openmp_run_time_is_wrong_when_it_is_about_a_request() -> None:
    line = 'OMP: Warning #42: KMP_TPAUSE: "x" is an invalid value; ignored.'
    seen = worker(
        mapped_libraries={**BOTH, "openmp": ["libiomp5.so"]}, environment={"KMP_TPAUSE": "x"}, messages=[line]
    )
    found = only(findings(launch(KMP_TPAUSE="x"), [seen]))
    assert (found.rule, found.severity) == ("launch.openmp-warning", "wrong")
    assert found.evidence == [f"standard error of the worker: {line}"]
    assert only(findings(launch(), [worker(messages=["libgomp: Thread creation failed: oops"])])).severity == "doubtful"


def test_any_other_complaint_is_quoted() -> None:
    found = only(findings(launch(), [worker(messages=["set_mempolicy: Operation not permitted"]), worker()]))
    assert (found.rule, found.severity) == ("launch.complaint", "doubtful")
    assert found.evidence == ["standard error of 1 of 2 workers: set_mempolicy: Operation not permitted"]


def test_what_no_rule_explains_is_a_finding_with_its_proof() -> None:
    found = only(findings(launch(MKL_VERBOSE="1"), [worker()]))
    assert (found.rule, found.severity) == ("launch.setting-not-in-force", "wrong")
    assert found.claim == "MKL_VERBOSE was requested as 1 and is not in force."
    assert found.evidence == ["environment of the worker: nothing (did not reach the worker)"]


def test_what_could_not_be_tried_is_found_once() -> None:
    asked = launch(memory_nodes="0")
    planned = Finding(rule="launch.numactl-denied", severity="wrong", claim="numactl is denied", evidence=["it fails"])
    seen = [worker(runtime={"memory.policy": "default"})]
    denied = Launch("tuned", [], {}, asked.requested, unavailable={"memory_nodes": "denied"}, findings=[planned])
    assert findings(denied, seen) == []
    silent = Launch("tuned", [], {}, asked.requested, unavailable={"memory_nodes": "denied"})
    assert only(findings(silent, seen)).rule == "launch.setting-not-in-force"


def test_every_rule_has_an_id_in_its_documentation() -> None:
    named = [(rule.__doc__ or "").partition(":")[0] for rule in RULES]
    assert all(name.startswith("launch.") for name in named)
    assert len(set(named)) == len(RULES)


def test_another_remark_of_jemallocs_is_no_invalid_option() -> None:
    remark = "<jemalloc>: MADV_DONTNEED does not work (memset will be used instead)"
    found = findings(launch(), [worker(messages=[remark])])
    assert "launch.malloc-conf-invalid" not in {finding.rule for finding in found}


def test_kernels_below_the_processors_best_are_wrong() -> None:
    modes = {"cpu_capability": "AVX2", "cpu_capability_of_machine": "AVX512"}
    found = only(findings(launch(), [worker(torch=modes), worker(torch={**modes, "cpu_capability": "AVX512"})]))
    assert (found.rule, found.severity) == ("launch.cpu-capability", "wrong")
    assert (
        found.claim == "Eager's kernels use AVX2 on a processor that has AVX512."
        and "1 of 2 workers" in found.evidence[0]
    )


@pytest.mark.parametrize(
    ("used", "best"), [("AVX512", "AVX512"), ("AVX512", "AVX2"), ("SVE256", "unknown: no answer"), ("", "")]
)
def test_kernels_at_the_best_or_of_unknown_kinds_are_not(used: str, best: str) -> None:
    assert findings(launch(), [worker(torch={"cpu_capability": used, "cpu_capability_of_machine": best})]) == []


def test_a_mode_of_torch_that_the_suite_has_not_set_is_told() -> None:
    usual = {
        "mkldnn_enabled": "True",
        "deterministic_algorithms": "unknown: no answer",
        "default_dtype": "torch.float32",
    }
    assert findings(launch(), [worker(torch=usual)]) == []
    found = only(findings(launch(), [worker(torch=usual), worker(torch={**usual, "mkldnn_enabled": "False"})]))
    assert (found.rule, found.severity) == ("launch.torch-modes", "doubtful")
    assert found.claim == "torch's mkldnn_enabled is False and not True, and the suite has not set it."
