from __future__ import annotations

from typing import Any

import pytest

from suite.bundle.schema import Effective, Setting
from suite.launch.command import Launch, Requested
from suite.launch.profiles import MALLOC_CONF, PROFILES
from suite.launch.settings import compare, compare_all

KMP = PROFILES["tuned"].kmp
PRELOAD = "/opt/lib/libiomp5.so:/usr/lib/libjemalloc.so.2"
MAPPED = {
    "openmp": ["libgomp.so.1", "libiomp5.so"],
    "allocator": ["libc.so.6", "libjemalloc.so.2"],
    "openmp_called": ["libiomp5.so"],
    "allocator_called": ["libjemalloc.so.2"],
}
GNU = {"openmp": ["libgomp.so.1"], "allocator": ["libc.so.6"], "openmp_called": ["libgomp.so.1"]}
JEMALLOC = {
    "jemalloc.oversize_threshold": "0",
    "jemalloc.background_thread": "true",
    "jemalloc.metadata_thp": "auto",
    "jemalloc.dirty_decay_ms": "-1",
    "jemalloc.muzzy_decay_ms": "-1",
}
PRINTED = "noverbose,warnings,respect,reset,nobind_init,perf_bind,granularity=thread,compact,1,0"
SETTINGS = {"KMP_AFFINITY": PRINTED, "KMP_BLOCKTIME": "1ms", "KMP_SETTINGS": "true", "OMP_NUM_THREADS": "2"}
SYMBOLS = {"libiomp5.so": ["GOMP_parallel", "omp_get_max_threads"]}


def launch(**values: str) -> Launch:
    return Launch("tuned", [], {}, [Requested(name, value, "suite") for name, value in values.items()])


def worker(**changes: Any) -> Effective:
    fields: dict[str, Any] = {
        "at": "2026-01-01T00:00:00Z",
        "case": "matmul_add/64-fp32",
        "process": 0,
        "mapped_libraries": MAPPED,
        "affinity": [0, 1],
        "memory_nodes": "0-1",
        "threads": {"torch_intra_op": 2, "openmp_workers": 1, "openmp_workers_bound": 1},
        "environment": {**KMP, "MALLOC_CONF": MALLOC_CONF},
        "torch": {},
        "runtime": {"openmp.kmp_blocktime_ms": "1", "memory.policy": "bind:0", **JEMALLOC},
        "timer_resolution_ns": 1.0,
        "timer_overhead_ns": 20.0,
        "peak_rss_bytes": 1 << 28,
        "affinities": {"0-1": 4, "1": 1},
        "memory_bytes_by_node": {"0": 150_000_000},
        "openmp_settings": SETTINGS,
        "openmp_symbols": SYMBOLS,
    }
    return Effective(**fields | changes)


def one(name: str, value: str, effective: Effective, shown: str | None = None) -> Setting:
    (setting,) = [s for s in compare(launch(**{name: value}), effective) if s.name == (shown or name)]
    return setting


def test_a_whole_tuned_launch_that_took_effect_is_in_force() -> None:
    asked = {"cpu_affinity": "0-1", "memory_nodes": "0", "LD_PRELOAD": PRELOAD, "OMP_NUM_THREADS": "2"}
    settings = compare(launch(**asked, **KMP, MALLOC_CONF=MALLOC_CONF), worker())
    assert {setting.status for setting in settings} == {"in force"}
    assert all(setting.proof for setting in settings)
    names = [setting.name for setting in settings]
    assert len(names) == len(set(names))


def test_a_preloaded_library_is_in_force_when_calls_resolve_to_it() -> None:
    setting = one("LD_PRELOAD", PRELOAD, worker(), "LD_PRELOAD libiomp5")
    assert (setting.effective, setting.status) == ("libiomp5.so", "in force")
    assert "libgomp.so.1 is mapped as well but not called" in setting.note
    assert "answers 2 of 2 OpenMP symbols" in setting.proof


def test_a_preloaded_run_time_that_answers_only_some_libraries_is_not_in_force() -> None:
    divided = worker(openmp_symbols={**SYMBOLS, "libgomp.so.1": ["GOMP_parallel"]})
    setting = one("LD_PRELOAD", PRELOAD, divided, "LD_PRELOAD libiomp5")
    assert (setting.effective, setting.status) == ("libiomp5.so", "not in force")
    assert "libgomp.so.1 answers symbols as well" in setting.note
    assert "2 of 3" in setting.proof


def test_libgomp_is_not_taken_for_libomp() -> None:
    setting = one("LD_PRELOAD", "/usr/lib/libomp.so.5", worker(mapped_libraries=GNU), "LD_PRELOAD libomp")
    assert setting.status == "not in force"


def test_a_preloaded_library_that_is_not_mapped_is_not_in_force() -> None:
    setting = one("LD_PRELOAD", PRELOAD, worker(mapped_libraries=GNU), "LD_PRELOAD libjemalloc")
    assert (setting.effective, setting.status) == (None, "not in force")
    assert "/proc/self/maps" in setting.proof


def test_a_mapped_library_whose_calls_go_elsewhere_is_not_in_force() -> None:
    mapped = {**MAPPED, "openmp_called": ["libgomp.so.1"]}
    setting = one("LD_PRELOAD", PRELOAD, worker(mapped_libraries=mapped), "LD_PRELOAD libiomp5")
    assert (setting.effective, setting.status) == ("libgomp.so.1", "not in force")


def test_two_openmp_run_times_of_which_none_is_known_to_be_called_are_unknown() -> None:
    mapped = {"openmp": ["libgomp.so.1", "libiomp5.so"]}
    setting = one("LD_PRELOAD", PRELOAD, worker(mapped_libraries=mapped), "LD_PRELOAD libiomp5")
    assert setting.status == "unknown"
    assert "libgomp.so.1 is mapped as well" in setting.note
    assert one("KMP_SETTINGS", "1", worker(mapped_libraries=mapped)).status == "unknown"


@pytest.mark.parametrize("name", list(KMP))
def test_kmp_settings_are_not_in_force_under_libgomp(name: str) -> None:
    setting = one(name, KMP[name], worker(mapped_libraries=GNU))
    assert setting.status == "not in force"
    assert "ignores KMP_*" in setting.note


def test_a_kmp_setting_that_did_not_reach_the_worker_is_not_in_force() -> None:
    setting = one("KMP_SETTINGS", "1", worker(environment={}))
    assert (setting.effective, setting.status) == (None, "not in force")


def test_kmp_settings_are_judged_by_what_the_run_time_printed() -> None:
    setting = one("KMP_BLOCKTIME", "1", worker(openmp_settings={"KMP_BLOCKTIME": "200ms"}))
    assert (setting.effective, setting.status) == ("200ms", "not in force")
    assert "KMP_SETTINGS" in setting.proof
    without_reset = worker(openmp_settings={**SETTINGS, "KMP_AFFINITY": PRINTED.replace(",reset", ",noreset")})
    setting = one("KMP_AFFINITY", KMP["KMP_AFFINITY"], without_reset)
    assert setting.status == "not in force"
    assert "reset became noreset" in setting.note


def test_blocktime_is_judged_by_the_run_times_function_when_it_printed_nothing() -> None:
    quiet = worker(openmp_settings={}, runtime={"openmp.kmp_blocktime_ms": "200"})
    setting = one("KMP_BLOCKTIME", "1", quiet)
    assert (setting.effective, setting.status) == ("200", "not in force")
    assert one("KMP_BLOCKTIME", "1", worker(openmp_settings={})).status == "in force"


def test_a_granularity_in_other_words_is_in_force_when_every_worker_is_bound_to_one_cpu() -> None:
    coarse = {**SETTINGS, "KMP_AFFINITY": PRINTED.replace("thread", "core")}
    assert one("KMP_AFFINITY", KMP["KMP_AFFINITY"], worker(openmp_settings=coarse)).status == "in force"
    loose = worker(openmp_settings=coarse, threads={"openmp_workers": 1, "openmp_workers_bound": 0})
    assert one("KMP_AFFINITY", KMP["KMP_AFFINITY"], loose).status == "not in force"


@pytest.mark.parametrize("printed", [SETTINGS, {}])
def test_affinity_of_openmp_threads_is_judged_by_their_masks(printed: dict[str, str]) -> None:
    value = KMP["KMP_AFFINITY"]
    loose = worker(openmp_settings=printed, threads={"openmp_workers": 3, "openmp_workers_bound": 0})
    assert one("KMP_AFFINITY", value, loose).status == "not in force"
    assert one("KMP_AFFINITY", value, worker(openmp_settings=printed)).status == "in force"
    single = one("KMP_AFFINITY", value, worker(openmp_settings=printed, threads={}))
    assert single.status == "in force"
    assert "no OpenMP worker thread" in single.note


def test_threads_bound_to_a_core_of_two_cpus_are_no_contradiction() -> None:
    printed = {"KMP_AFFINITY": "noverbose,warnings,respect,noreset,granularity=core,compact,0,0"}
    wide = worker(
        openmp_settings=printed, environment={"KMP_AFFINITY": "granularity=core,compact"}, threads={"openmp_workers": 3}
    )
    assert one("KMP_AFFINITY", "granularity=core,compact", wide).status == "in force"


def test_a_variable_that_the_run_time_words_otherwise_is_unknown() -> None:
    effective = worker(environment={"OMP_PLACES": "cores"}, openmp_settings={"OMP_PLACES": "cores(2)"})
    setting = one("OMP_PLACES", "cores", effective)
    assert (setting.effective, setting.status) == ("cores(2)", "unknown")


def test_malloc_conf_names_the_option_that_differs() -> None:
    changed = worker(runtime={**JEMALLOC, "jemalloc.dirty_decay_ms": "10000"})
    setting = one("MALLOC_CONF", MALLOC_CONF, changed, "MALLOC_CONF dirty_decay_ms")
    assert (setting.requested, setting.effective, setting.status) == ("-1", "10000", "not in force")
    assert setting.proof == "mallctl(opt.dirty_decay_ms) in the worker"
    assert one("MALLOC_CONF", MALLOC_CONF, changed, "MALLOC_CONF muzzy_decay_ms").status == "in force"


def test_malloc_conf_says_what_oversize_threshold_1_means() -> None:
    setting = one("MALLOC_CONF", MALLOC_CONF, worker(), "MALLOC_CONF oversize_threshold")
    assert (setting.effective, setting.status) == ("0", "in force")
    assert "reads back as 0: off" in setting.note


def test_an_option_that_jemalloc_does_not_know_is_not_in_force() -> None:
    setting = one("MALLOC_CONF", "dirty_decay_ms:-1,nonsense:1", worker(), "MALLOC_CONF nonsense")
    assert (setting.effective, setting.status) == (None, "not in force")
    assert "no option of this name" in setting.note


def test_of_equal_keys_the_last_counts_as_it_does_for_jemalloc() -> None:
    (row,) = [
        s for s in compare(launch(MALLOC_CONF="narenas:2,narenas:3"), worker()) if s.name.startswith("MALLOC_CONF")
    ]
    assert row.requested == "3"


def test_options_that_could_not_be_read_back_are_unknown() -> None:
    setting = one("MALLOC_CONF", "narenas:2", worker(runtime={}), "MALLOC_CONF narenas")
    assert setting.status == "unknown"


def test_malloc_conf_without_jemalloc_is_not_in_force() -> None:
    setting = one("MALLOC_CONF", "narenas:2", worker(mapped_libraries=GNU), "MALLOC_CONF narenas")
    assert setting.status == "not in force"


@pytest.mark.parametrize(("asked", "status"), [("2", "in force"), ("2,1", "in force"), ("4", "not in force")])
def test_threads_are_judged_by_torch(asked: str, status: str) -> None:
    setting = one("OMP_NUM_THREADS", asked, worker())
    assert (setting.effective, setting.status) == ("2", status)


def test_threads_that_were_not_reported_are_unknown() -> None:
    assert one("OMP_NUM_THREADS", "2", worker(threads={})).status == "unknown"


def test_a_rehearsal_counts_by_openmp_and_does_not_promise_more_threads_than_cpus() -> None:
    rehearsed = one("OMP_NUM_THREADS", "2", worker(case="", threads={"openmp_maximum": 2}))
    assert rehearsed.status == "in force"
    assert rehearsed.proof == "omp_get_max_threads() in the rehearsal"
    assert one("OMP_NUM_THREADS", "8", worker(case="", threads={"openmp_maximum": 8})).status == "unknown"


def test_a_primary_thread_pinned_by_kmp_affinity_is_explained() -> None:
    tutorial = PROFILES["tutorial"].kmp
    shrunk = worker(environment=tutorial, affinity=[0], affinities={"0": 1, "0-1": 2, "1": 1})
    setting = one("cpu_affinity", "0-1", shrunk)
    assert (setting.effective, setting.status) == ("0", "not in force")
    assert "reset," in setting.note
    assert "pytorch#136307" in setting.note
    printed = {**SETTINGS, "KMP_AFFINITY": PRINTED.replace(",reset", ",noreset")}
    kept = worker(environment=tutorial, affinity=[0], openmp_settings=printed)
    assert one("KMP_AFFINITY", tutorial["KMP_AFFINITY"], kept).status == "in force"


def test_a_narrow_mask_is_not_blamed_on_a_kmp_affinity_that_resets() -> None:
    setting = one("cpu_affinity", "0-1", worker(affinity=[0], affinities={"0": 4}))
    assert setting.status == "not in force"
    assert "KMP_AFFINITY" not in setting.note


def test_a_thread_outside_of_the_requested_cpus_is_not_in_force() -> None:
    setting = one("cpu_affinity", "0-1", worker(affinities={"0-1": 4, "2-3": 2, "1": 1}))
    assert setting.status == "not in force"
    assert "5 of 7 threads may use only CPUs 0-1" in setting.proof
    assert "2 threads may use CPUs 2-3" in setting.note


def test_threads_bound_within_the_requested_cpus_are_in_force() -> None:
    assert one("cpu_affinity", "0-1", worker(affinities={"0-1": 3, "0": 1, "1": 1})).status == "in force"


def test_memory_binding_is_judged_by_the_policy() -> None:
    assert one("memory_nodes", "0", worker()).status == "in force"
    assert one("memory_nodes", "1", worker(memory_bytes_by_node={})).status == "not in force"
    assert one("memory_nodes", "0", worker(runtime={"memory.policy": "default"})).status == "not in force"
    assert one("memory_nodes", "0-1", worker(runtime={"memory.policy": "bind=static:0-1"})).status == "in force"


def test_memory_that_lies_elsewhere_is_not_in_force_whatever_the_policy() -> None:
    setting = one("memory_nodes", "0", worker(memory_bytes_by_node={"0": 900_000_000, "1": 100_000_000}))
    assert (setting.effective, setting.status) == ("bind:0", "not in force")
    assert "90 % of 1000 MB private memory on node 0" in setting.proof
    assert "10 % of the memory is on node 1" in setting.note


def test_mems_allowed_alone_proves_memory_binding_only_when_it_is_as_narrow() -> None:
    unread = {"runtime": {"memory.place_unknown": "no such file"}, "memory_bytes_by_node": {}}
    assert one("memory_nodes", "0", worker(**unread, memory_nodes="0")).status == "in force"
    assert one("memory_nodes", "0", worker(**unread, memory_nodes="0-1")).status == "unknown"


def test_what_could_not_be_tried_is_not_in_force_and_says_why() -> None:
    requested = [Requested("memory_nodes", "0", "suite"), Requested("LD_PRELOAD libjemalloc", "libjemalloc", "suite")]
    requested += [Requested("MALLOC_CONF", MALLOC_CONF, "suite")]
    reasons = {"memory_nodes": "numactl is denied", "LD_PRELOAD libjemalloc": "not found", "MALLOC_CONF": "not set"}
    effective = worker(mapped_libraries=GNU, memory_nodes="0", runtime={"memory.policy": "default"}, environment={})
    settings = compare(Launch("tuned", [], {}, requested, unavailable=reasons), effective)
    rows = {setting.name: setting for setting in settings if setting.requested}
    assert {name: row.status for name, row in rows.items()} == dict.fromkeys(reasons, "not in force")
    assert all(row.note.startswith(reasons[name]) for name, row in rows.items())
    assert all("when the launch was planned" in row.proof for row in rows.values())
    assert "the effect is there all the same (default; no other node may be used)" in rows["memory_nodes"].note
    assert "allocator" not in {setting.name for setting in settings}


def test_over_all_processes_the_worst_status_stands_and_says_in_how_many() -> None:
    narrow = worker(process=1, affinity=[1], affinities={"1": 4})
    asked = launch(cpu_affinity="0-1")
    together = {setting.name: setting for setting in compare_all(asked, [worker(), narrow, worker(process=2)])}
    row = together["cpu_affinity"]
    assert (row.effective, row.status) == ("1", "not in force")
    assert row.note.startswith("not in force in 1 of 3 processes; 0-1 in others")
    assert together["allocator"].note == ""


def test_processes_that_agree_need_no_note_and_without_processes_there_are_no_settings() -> None:
    asked = launch(cpu_affinity="0-1")
    assert compare_all(asked, [worker(), worker(process=1)]) == compare(asked, worker())
    assert compare_all(asked, []) == []


def test_what_nobody_asked_for_may_differ_between_processes() -> None:
    rows = compare_all(launch(), [worker(), worker(process=1, mapped_libraries=GNU)])
    (row,) = [row for row in rows if row.name == "allocator"]
    assert row.note == "in 1 of 2 processes; libc.so.6 in others"


def test_what_nobody_asked_for_is_shown_as_such() -> None:
    effective = worker(mapped_libraries=GNU, environment={"OMP_WAIT_POLICY": "ACTIVE"})
    settings = {setting.name: setting for setting in compare(Launch("untuned", [], {}, []), effective)}
    assert {setting.status for setting in settings.values()} == {"not requested"}
    assert settings["openmp"].effective == "libgomp.so.1"
    assert settings["allocator"].effective == "libc.so.6"
    assert settings["OMP_NUM_THREADS"].effective == "2"
    assert settings["cpu_affinity"].effective == "0-1"
    assert settings["OMP_WAIT_POLICY"].effective == "ACTIVE"


def test_a_preload_of_one_kind_leaves_the_other_kind_shown() -> None:
    names = {setting.name for setting in compare(launch(LD_PRELOAD="/usr/lib/libjemalloc.so.2"), worker())}
    assert "openmp" in names
    assert "allocator" not in names


def test_a_users_setting_says_so() -> None:
    request = Requested("MKL_VERBOSE", "1", "user", "exported by the user")
    (setting, *_) = compare(Launch("tuned", [], {}, [request]), worker(environment={"MKL_VERBOSE": "1"}))
    assert setting.status == "in force"
    assert "exported by the user" in setting.note


def test_of_two_libgomps_the_one_that_was_preloaded_is_looked_at() -> None:
    mapped = {
        "openmp": ["libgomp-24e2ab19.so.1", "libgomp.so.1"],
        "openmp_called": ["libgomp.so.1"],
        "allocator": ["libc.so.6"],
    }
    seen = worker(mapped_libraries=mapped, openmp_symbols={"libgomp.so.1": ["GOMP_parallel"]})
    (row, *_) = compare(launch(LD_PRELOAD="/usr/lib/libgomp.so.1"), seen)
    assert (row.name, row.effective, row.status) == ("LD_PRELOAD libgomp", "libgomp.so.1", "in force")
