"""What must start fast is seen to start without torch: the import contract checks the source, this checks the process."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["suite.commands", "suite.session", "suite.launch.engine", "reports.commands"])
def test_leading_modules_load_without_torch(module: str):
    program = f"import sys, {module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr
