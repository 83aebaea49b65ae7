"""What a run says while it goes on."""

from __future__ import annotations

import pytest

from suite import display


@pytest.mark.parametrize("columns", ["40", "200"])
def test_a_path_in_a_sentence_is_never_broken_at_the_terminals_width(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    path = "/tmp/a folder/" + "long/" * 50 + "run"
    display.Live().say(f"into {path}")
    assert f"into {path}\n" in capsys.readouterr().out
