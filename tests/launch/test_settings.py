from __future__ import annotations

from typing import Any

import pytest

from suite.bundle.schema import Effective, Setting
from suite.launch.command import KMP, MALLOC_CONF, Launch, Requested
from suite.launch.settings import compare

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


def test_blocktime_is_judged_by_what_the_run_time_says() -> None:
    setting = one("KMP_BLOCKTIME", "1", worker(runtime={"openmp.kmp_blocktime_ms": "200"}))
    assert (setting.effective, setting.status) == ("200", "not in force")


def test_affinity_of_openmp_threads_is_judged_by_their_masks() -> None:
    value = KMP["KMP_AFFINITY"]
    loose = worker(threads={"openmp_workers": 3, "openmp_workers_bound": 0})
    assert one("KMP_AFFINITY", value, loose).status == "not in force"
    assert one("KMP_AFFINITY", value, worker()).status == "in force"
    single = one("KMP_AFFINITY", value, worker(threads={}))
    assert single.status == "in force"
    assert "no OpenMP worker thread" in single.note


def test_malloc_conf_names_the_option_that_differs() -> None:
    changed = {**JEMALLOC, "jemalloc.dirty_decay_ms": "10000"}
    setting = one("MALLOC_CONF", MALLOC_CONF, worker(runtime=changed))
    assert setting.status == "not in force"
    assert "not as requested: dirty_decay_ms" in setting.note
    assert "dirty_decay_ms:10000" in (setting.effective or "")


def test_malloc_conf_says_what_oversize_threshold_1_means() -> None:
    setting = one("MALLOC_CONF", MALLOC_CONF, worker())
    assert setting.status == "in force"
    assert "reads back as 0: off" in setting.note


def test_an_option_that_jemalloc_does_not_know_is_not_in_force() -> None:
    setting = one("MALLOC_CONF", "dirty_decay_ms:-1,nonsense:1", worker())
    assert setting.status == "not in force"
    assert "nonsense" in setting.note


def test_malloc_conf_without_jemalloc_is_not_in_force() -> None:
    assert one("MALLOC_CONF", MALLOC_CONF, worker(mapped_libraries=GNU)).status == "not in force"


@pytest.mark.parametrize(("asked", "status"), [("2", "in force"), ("2,1", "in force"), ("4", "not in force")])
def test_threads_are_judged_by_torch(asked: str, status: str) -> None:
    setting = one("OMP_NUM_THREADS", asked, worker())
    assert (setting.effective, setting.status) == ("2", status)


def test_threads_that_were_not_reported_are_unknown() -> None:
    assert one("OMP_NUM_THREADS", "2", worker(threads={})).status == "unknown"


def test_a_primary_thread_pinned_by_kmp_affinity_is_explained() -> None:
    setting = one("cpu_affinity", "0-1", worker(affinity=[0]))
    assert (setting.effective, setting.status) == ("0", "not in force")
    assert "reset," in setting.note


def test_memory_binding_is_judged_by_the_policy() -> None:
    assert one("memory_nodes", "0", worker()).status == "in force"
    assert one("memory_nodes", "1", worker()).status == "not in force"
    assert one("memory_nodes", "0", worker(runtime={"memory.policy": "default"})).status == "not in force"


def test_mems_allowed_alone_proves_memory_binding_only_when_it_is_as_narrow() -> None:
    assert one("memory_nodes", "0", worker(runtime={}, memory_nodes="0")).status == "in force"
    assert one("memory_nodes", "0", worker(runtime={}, memory_nodes="0-1")).status == "unknown"


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
