"""Why compiled arms cannot run, in words."""

import pytest

from suite.probe import why_not


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            RuntimeError("InvalidCxxCompiler: No working C++ compiler found in cpp.cxx: (None, 'g++')"),
            "no C++ compiler",
        ),
        (FileNotFoundError(2, "No such file or directory", "openssl"), "no openssl program, which Inductor calls"),
        (ValueError("\n\nsomething else\nand more"), "ValueError:"),
    ],
)
def test_the_reason_is_one_clause(error: Exception, reason: str) -> None:
    assert why_not(error) == reason
