"""The user's variables: what is taken out of workers' environment, what stands, and how both are told."""

from __future__ import annotations

import pytest

from suite.errors import UserError
from suite.fingerprint.effective.worker import RELEVANT
from suite.launch import variables
from suite.launch.variables import FAMILIES, TABLE, known, refuse_if_strict, take_out
from suite.plan import words

OUT = words(
    """
    TORCH_COMPILE_DISABLE TORCHDYNAMO_DISABLE TORCHINDUCTOR_FREEZING TORCHINDUCTOR_CPP_WRAPPER TORCHINDUCTOR_CPP_SIMDLEN
    ATEN_CPU_CAPABILITY TORCHDYNAMO_SUPPRESS_ERRORS TORCHINDUCTOR_MAX_AUTOTUNE TORCHINDUCTOR_MAX_AUTOTUNE_GEMM
    TORCHINDUCTOR_COORDINATE_DESCENT_TUNING TORCHINDUCTOR_COMPILE_THREADS TORCH_LOGS TORCH_COMPILE_DEBUG TORCH_TRACE
    TORCHINDUCTOR_CUDAGRAPHS TORCH_COMPILE_BACKEND MKL_VERBOSE ONEDNN_VERBOSE DNNL_VERBOSE ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA
    MKL_ENABLE_INSTRUCTIONS MKL_DEBUG_CPU_TYPE MKL_CBWR ONEDNN_DEFAULT_FPMATH_MODE MKL_THREADING_LAYER MKLDNN_ANYTHING
    TORCH_ALLOW_TF32_CUBLAS_OVERRIDE PYTORCH_NO_CUDA_MEMORY_CACHING TRITON_INTERPRET INDUCTOR_ANYTHING TORCH_UNHEARD_OF
    PYTORCH_UNHEARD_OF AOT_PARTITIONER_DEBUG TORCHINDUCTOR_FX_GRAPH_CACHE TORCHINDUCTOR_TRITON_DISABLE_DEVICE_DETECTION
    PYTHONMALLOC PYTHONDEVMODE
""".strip()
)
IDLE = words("TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR TORCH_HOME MKLROOT DNNLROOT PYTORCH_VERSION")
KEPT = words("MKL_NUM_THREADS MKL_DYNAMIC PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF TRITON_LIBCUDA_PATH CXX")
OTHERS = words(
    "PATH HOME OMP_NUM_THREADS KMP_AFFINITY LD_PRELOAD MALLOC_CONF CUDA_VISIBLE_DEVICES HF_HUB_OFFLINE SPEEDPROOF_CACHE"
)


@pytest.mark.parametrize(("names", "fate"), [(OUT, "out"), (IDLE, "idle"), (KEPT, "kept")])
def test_each_variable_has_its_fate_and_an_effect(names: list[str], fate: str) -> None:
    told = take_out(dict.fromkeys(names, "1"))
    assert {each.name: each.fate for each in told} == dict.fromkeys(names, fate)
    assert all(each.effect for each in told)


def test_what_is_taken_out_is_gone_and_the_rest_is_as_it_was() -> None:
    environ = dict.fromkeys([*OUT, *IDLE, *KEPT, *OTHERS], "1")
    take_out(environ)
    assert environ == dict.fromkeys([*KEPT, *OTHERS], "1")
    assert [each.name for each in take_out(environ)] == sorted(KEPT)


def test_no_line_of_the_table_stands_twice_and_each_can_match() -> None:
    patterns = [line.names for line in TABLE]
    assert len(set(patterns)) == len(patterns)
    assert {known(name) for name in [*OUT, *IDLE, *KEPT]} >= set(TABLE[:8])


def test_an_unknown_one_of_the_families_is_taken_out_and_said_to_be_unknown() -> None:
    for family in FAMILIES:
        (told,) = take_out({f"{family}ZZZ_UNHEARD": "1"})
        assert told.fate == "out"
    (told,) = take_out({"TORCH_UNHEARD_OF": "1"})
    assert told.sentence == "TORCH_UNHEARD_OF=1 is not handed on to workers: its effect is not known"


def test_control_characters_homes_and_secrets_are_not_shown() -> None:
    told = take_out(
        {"TORCH_X\x1b[2J": "a\x1b[31m\nb\x07", "TORCHINDUCTOR_REDIS_HOST": "db.example", "MKLROOT": "/home/ada/mkl"}
    )
    shown = {each.shown for each in told}
    assert shown == {"TORCH_X [2J=a [31m b", "TORCHINDUCTOR_REDIS_HOST=<removed>", "MKLROOT=~/mkl"}
    assert all(each.finding.claim.isprintable() for each in told)


def test_a_device_names_further_variables_and_a_spared_one_is_left() -> None:
    environ = {"CUDA_LAUNCH_BLOCKING": "1", "TORCHINDUCTOR_CACHE_DIR": "/run"}
    (told,) = take_out(environ, {"CUDA_LAUNCH_BLOCKING": "each launch waits"}, spare=["TORCHINDUCTOR_CACHE_DIR"])
    assert told.effect == "each launch waits" and environ == {"TORCHINDUCTOR_CACHE_DIR": "/run"}


def test_what_stands_is_doubtful_and_what_is_taken_out_a_note() -> None:
    out, kept = take_out({"TORCHDYNAMO_DISABLE": "1", "MKL_NUM_THREADS": "2"})[::-1]
    assert (out.finding.rule, out.finding.severity) == ("launch.variable-taken-out", "note")
    assert (kept.finding.rule, kept.finding.severity) == ("launch.variable-kept", "doubtful")
    assert "MKL_NUM_THREADS=2 is exported and stands" in kept.finding.claim


def test_strict_refuses_what_would_change_an_arm_by_name_and_nothing_else() -> None:
    told = take_out(
        {"TORCHDYNAMO_DISABLE": "1", "ATEN_CPU_CAPABILITY": "default", "MKLROOT": "/opt", "MKL_NUM_THREADS": "2"}
    )
    with pytest.raises(UserError, match=r"TORCHDYNAMO_DISABLE=1 .*env -u ATEN_CPU_CAPABILITY -u TORCHDYNAMO_DISABLE\)"):
        refuse_if_strict(True, told)
    refuse_if_strict(False, told)
    refuse_if_strict(True, [each for each in told if each.fate != "out"])


def test_what_stands_is_among_what_a_worker_reports() -> None:
    assert all(RELEVANT.fullmatch(name) for name in KEPT)


def test_nothing_is_told_of_an_environment_without_any() -> None:
    assert variables.take_out(dict.fromkeys(OTHERS, "1")) == []
