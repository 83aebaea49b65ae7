"""Many slices on few pixels."""

import numpy as np

from reports.render import density


def _times(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_a_column_holds_the_share_of_its_time_that_is_covered() -> None:
    found = density.shares(_times(0, 5, 25), _times(10, 10, 35), 0, 40, 4)
    assert found.tolist() == [1.0, 0.0, 0.5, 0.5]


def test_what_lies_outside_does_not_count() -> None:
    assert density.shares(_times(-50, 90), _times(5, 200), 0, 100, 10).tolist() == [0.5, *[0.0] * 8, 1.0]


def test_the_shares_sum_to_the_time_that_is_covered() -> None:
    start = np.arange(0, 100_000, 7)
    found = density.shares(start, start + 3, 0, 100_000, 560)
    assert abs(found.mean() - 3 / 7) < 1e-3


def test_neighbours_of_one_height_are_one_bar_and_empty_ones_are_none() -> None:
    path = density.outline(np.array([0.5, 0.5, 0.0, 1.0]), np.zeros(4), 0, 0, 40, 10)
    assert path == "M0 10V5H20V10ZM30 10V0H40V10Z"
    assert density.outline(np.zeros(4), np.zeros(4), 0, 0, 40, 10) == ""


def test_bars_stand_on_one_another_and_never_leave_the_row() -> None:
    assert density.outline(np.array([0.75]), np.array([0.5]), 0, 0, 10, 10) == "M0 5V0H10V5Z"


def test_a_rare_short_slice_can_be_seen() -> None:
    assert density.visible(np.array([0.0, 1e-9, 0.8])).tolist() == [0.0, density.LEAST, 0.8]
