"""The false discovery rate of several tests. Apart, because it needs nothing of scipy: whoever only adjusts starts faster."""

from __future__ import annotations

from collections.abc import Sequence


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p values (J. R. Statist. Soc. B 57, 1995), in the order given.

    p_(i) becomes min over j >= i of m / j * p_(j), at most 1: the least false discovery rate at which it is still called.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    result = [1.0] * len(p_values)
    least = 1.0
    for rank in range(len(order), 0, -1):
        index = order[rank - 1]
        least = min(least, p_values[index] * len(order) / rank)
        result[index] = least
    return result
