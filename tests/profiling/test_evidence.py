"""What is seen of compiled functions, with the real compiler on functions of a few operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo as dynamo

from suite.arms import ARMS, compiling, prepare
from suite.profiling.evidence import Compiled, Look, changed_settings, listening, look


@pytest.fixture(autouse=True)
def _own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    dynamo.reset()


def compiled(function: Callable[..., Any], arm: str = "inductor") -> tuple[Compiled, Look]:
    x = torch.ones(8, 8)
    with torch.no_grad():
        call = prepare(ARMS[arm], function)
        with listening(ARMS[arm]) as found, compiling(ARMS[arm]):
            call(x)
        return found, look(lambda: call(x), lambda: None)


@torch.compiler.disable
def _outside(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).exp()


def _whole(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() + 1).cos()


def _broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    dynamo.graph_break()
    return _outside(y).cos()


def _uncompiled(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = x + 1
        dynamo.graph_break()
    return x


def test_eager_runs_operators_and_no_compiled_code() -> None:
    found, seen = compiled(_whole, "eager")
    assert found == Compiled()
    assert seen == Look([], 0, 3)


def test_a_whole_function_is_one_graph_and_nothing_runs_outside() -> None:
    found, seen = compiled(_whole)
    assert (found.graphs, found.graph_breaks, found.frames_skipped, found.frozen) == (1, 0, 0, 0)
    assert found.kernels == 1 and not found.on_gpu and not found.cpp_wrapper
    assert (seen.graph_calls, seen.operators, len(seen.regions)) == (1, 0, 1)


def test_graph_breaks_are_counted_with_the_users_line_and_operators_outside_are_seen() -> None:
    found, seen = compiled(_broken)
    assert (found.graphs, found.graph_breaks) == (2, 2)
    assert "(test_evidence.py:" in found.break_reason and "graph_break()" in found.break_reason
    assert str(Path(__file__).parent) not in found.break_reason
    assert (seen.graph_calls, seen.operators) == (2, 2)


def test_a_frame_that_dynamo_gives_up_runs_outside() -> None:
    found, seen = compiled(_uncompiled)
    assert (found.graphs, found.frames_skipped) == (0, 1)
    assert (seen.graph_calls, seen.operators) == (0, 2)


def test_frozen_weights_are_counted() -> None:
    layer = torch.nn.Linear(8, 8).eval()

    def call(x: torch.Tensor) -> Any:
        return layer(x)

    assert compiled(call, "inductor-freezing")[0].frozen == 2
    assert compiled(call)[0].frozen == 0


def test_nobodys_setting_is_named_and_defaults_are_not() -> None:
    from torch._inductor import config

    assert changed_settings() == {}
    with config.patch({"epilogue_fusion": False, "cpp.simdlen": 1, "max_autotune": False}):
        assert changed_settings() == {
            "torch._inductor.config.epilogue_fusion": "False",
            "torch._inductor.config.cpp.simdlen": "1",
        }


def test_nothing_is_left_in_the_compiler_after_listening() -> None:
    from torch._inductor.output_code import CompiledFxGraph

    usual = CompiledFxGraph.post_compile
    compiled(_whole)
    assert CompiledFxGraph.post_compile is usual
