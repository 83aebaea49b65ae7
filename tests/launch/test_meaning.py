from __future__ import annotations

import pytest

from suite.launch import meaning

# What Intel's run-time of 2025 printed for the requests, on two CPUs.
PRINTED = "noverbose,warnings,respect,noreset,nobind_init,perf_bind,granularity=thread,compact,1,0"
RESET = PRINTED.replace("noreset", "reset")
SCATTER = "noverbose,warnings,respect,noreset,nobind_init,perf_bind,granularity=core,scatter,2,0"
EXPLICIT = "noverbose,warnings,respect,noreset,nobind_init,perf_bind,granularity=core,proclist=[0,1],explicit"
NONE = "noverbose,warnings,respect,noreset,nobind_init,perf_bind,granularity=core,none"


@pytest.mark.parametrize(
    ("name", "asked", "read"),
    [
        ("KMP_AFFINITY", "granularity=fine,compact,1,0", PRINTED),
        ("KMP_AFFINITY", "reset,granularity=fine,compact,1,0", RESET),
        ("KMP_AFFINITY", "granularity=thread,compact,1,0", f"'{PRINTED}'"),
        ("KMP_AFFINITY", "GRANULARITY=core,scatter", SCATTER),
        ("KMP_AFFINITY", "proclist=[0,1],explicit", EXPLICIT),
        ("KMP_AFFINITY", "none", NONE),
        ("KMP_AFFINITY", "disabled", "noverbose,warnings,disabled"),
        ("KMP_BLOCKTIME", "1", "1ms"),
        ("KMP_BLOCKTIME", "1", "1"),
        ("KMP_BLOCKTIME", "200us", "200us"),
        ("KMP_BLOCKTIME", "infinite", "2147483ms"),
        ("KMP_SETTINGS", "1", "true"),
        ("KMP_TPAUSE", "0", "0"),
        ("OMP_STACKSIZE", "4096", "4M"),
        ("KMP_STACKSIZE", "4m", "4M"),
        ("OMP_PROC_BIND", "close", "'close'"),
        ("OMP_NUM_THREADS", "2,3", "2, 3"),
    ],
)
def test_what_a_run_time_prints_back_means_the_same(name: str, asked: str, read: str) -> None:
    assert meaning.same(name, asked, read)


@pytest.mark.parametrize(
    ("name", "asked", "read"),
    [
        ("KMP_AFFINITY", "reset,granularity=fine,compact,1,0", PRINTED),
        ("KMP_AFFINITY", "granularity=fine,compact,0,0", PRINTED),
        ("KMP_AFFINITY", "granularity=fine,scatter", PRINTED),
        ("KMP_AFFINITY", "banana,granularity=fine,compact,1,0", PRINTED),
        ("KMP_AFFINITY", "proclist=[0,7],explicit", EXPLICIT),
        ("KMP_BLOCKTIME", "1", "200ms"),
        ("KMP_BLOCKTIME", "x", "200ms"),
        ("KMP_BLOCKTIME", "2s", "2ms"),
        ("KMP_SETTINGS", "1", "false"),
        ("OMP_PLACES", "cores", "cores(2)"),
        ("OMP_STACKSIZE", "banana", "8M"),
    ],
)
def test_another_meaning_is_not_the_same(name: str, asked: str, read: str) -> None:
    assert not meaning.same(name, asked, read)


def test_the_word_that_differs_is_named() -> None:
    assert meaning.affinity_differences("reset,granularity=fine,compact,1,0", PRINTED) == ["reset reset became noreset"]


def test_only_binding_without_reset_shrinks_the_primary_thread() -> None:
    assert not meaning.resets("granularity=fine,compact,1,0")
    assert meaning.resets("reset,granularity=fine,compact,1,0")
    assert meaning.resets("none")
    assert meaning.resets("disabled")
    assert meaning.resets("")
