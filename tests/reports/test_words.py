"""Numbers in sentences."""

from __future__ import annotations

import pytest

from reports import words


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 us"),
        (5.521, "5.521 us"),
        (227.757, "227.8 us"),
        (2320.0, "2.32 ms"),
        (1.0656e6, "1.066 s"),
        (1.5e11, "150,000 s"),
    ],
)
def test_a_time_has_four_digits_and_the_unit_that_fits(value: float, said: str) -> None:
    assert words.us(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((0.9911, "99.1 %"), (0.00998, "0.998 %"), (0.1, "10 %"), (0.0003, "0.03 %"), (0, "0 %"), (1, "100 %")),
        *((1.32e-7, "less than 0.001 %"), (12.2, "1,220 %"), (0.99996, "more than 99.9 %"), (2.35, "235 %")),
    ],
)
def test_a_small_share_is_not_called_none(value: float, said: str) -> None:
    assert words.share(value) == said


@pytest.mark.parametrize(("value", "said"), [(32 << 20, "32 MiB"), (1536, "1.5 KiB"), (4, "4 bytes")])
def test_bytes_are_in_binary_units(value: int, said: str) -> None:
    assert words.size(value) == said


def test_once_is_no_number() -> None:
    assert [words.times(count) for count in (1, 2, 1000)] == ["once", "2 times", "1,000 times"]


def test_a_long_name_is_cut_to_fit() -> None:
    assert words.short("nvjet", 5) == "nvjet"
    assert words.short("nvjet_sm90", 8) == "nvjet..."


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.9, "1.9"), (1.0283, "1.028"), (113.7, "114"), (43211.0, "43,211"), (float("inf"), "any number of")],
)
def test_a_factor_has_no_exponent(value: float, said: str) -> None:
    assert words.factor(value) == said
