"""Sentences of rules as pages show them."""

import pytest

from reports.render.trace_units import cut, sentence


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("void pytorch_flash::run<1>: 2 calls", "void pytorch_flash::run<1>: 2 calls."),
        ("detach: agrees", "detach: agrees."),
        ("look at it", "Look at it."),
    ],
)
def test_a_kernels_name_gets_no_capital(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_a_long_sentence_is_cut_where_a_clause_ends_rather_than_within_brackets() -> None:
    assert cut("one two three; four<a, b> five six", 30) == "one two three …"
    assert cut("one two three; four<a, b, c> five six", 24) == "one two three …"
    assert cut("short", 5) == "short"
