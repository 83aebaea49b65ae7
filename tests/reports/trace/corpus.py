"""Traces that are not in the repository: published captures and planted ones, in the folder that TRACE_CORPUS names."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from reports.trace.analyse import Analysis, analyse

FOLDER = Path(os.environ.get("TRACE_CORPUS", "") or "/nonexistent")

needed = pytest.mark.skipif(not FOLDER.is_dir(), reason="TRACE_CORPUS names no folder of traces")


@cache
def analysed(name: str) -> Analysis:
    """The analysis of one file of the corpus, made once."""
    return analyse(FOLDER / name)
