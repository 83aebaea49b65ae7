"""Arms are independent of each other."""

import pytest
import torch

from suite.arms import ARMS, compiling, own_copy, prepare


def test_a_copy_has_a_code_object_of_its_own_and_the_same_result() -> None:
    offset = 3

    def call(x: int, *, y: int = 2) -> int:
        return x + y + offset

    copy = own_copy(call)
    assert copy.__code__ is not call.__code__
    assert copy(1) == call(1) == 6 and copy(1, y=5) == 9


def test_only_plain_functions_are_taken() -> None:
    with pytest.raises(TypeError):
        own_copy(torch.nn.Linear(1, 1))


def test_freezing_is_in_force_while_compiling_and_gone_afterwards() -> None:
    from torch._inductor import config

    assert not config.freezing and not config.cpp.enable_kernel_profile
    with compiling(ARMS["inductor-freezing"], kernel_profile=True):
        assert config.freezing and config.cpp.enable_kernel_profile
    assert not config.freezing and not config.cpp.enable_kernel_profile


def test_a_timed_arm_is_compiled_without_kernel_records() -> None:
    from torch._inductor import config

    with compiling(ARMS["inductor"]):
        assert not config.cpp.enable_kernel_profile


def test_the_eager_arm_is_not_compiled() -> None:
    assert prepare(ARMS["eager"], lambda x: x + 1)(1) == 2
