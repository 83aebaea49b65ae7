from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from suite.fingerprint.effective import jemalloc
from suite.launch import libraries

PROBE = """
import json, os
from suite.fingerprint.effective import jemalloc
print(json.dumps([jemalloc.serves(), jemalloc.options(os.environ.get("MALLOC_CONF", ""))]))
"""


def probe(conf: str, preload: bool = True) -> tuple[bool, dict[str, str]]:
    found = libraries.find({})
    if found.jemalloc.path is None:
        pytest.skip("jemalloc is not installed")
    environment = {**os.environ, "LD_PRELOAD": str(found.jemalloc.path) if preload else "", "MALLOC_CONF": conf}
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, env=environment)
    serves, options = json.loads(done.stdout)
    return serves, options


def test_a_preloaded_jemalloc_says_that_it_serves_and_what_it_has_in_force() -> None:
    serves, options = probe(
        "dirty_decay_ms:-1,narenas:3,junk:true,lg_extent_max_active_fit:5,nonsense:1,oversize_threshold:1"
    )
    assert serves
    assert options["jemalloc.dirty_decay_ms"] == "-1"
    assert options["jemalloc.narenas"] == "3"
    assert options["jemalloc.junk"] == "true"
    assert options["jemalloc.lg_extent_max_active_fit"] == "5"
    assert options["jemalloc.oversize_threshold"] == "0"
    assert options["jemalloc.version"][0].isdigit()
    assert options["jemalloc.background_thread_running"] == "false"
    assert "jemalloc.nonsense" not in options


def test_without_jemalloc_nothing_is_said() -> None:
    assert probe("dirty_decay_ms:-1", preload=False) == (False, {})


def test_only_names_that_could_be_options_are_asked_for() -> None:
    assert list(jemalloc.names("dirty_decay_ms:-1, thp:always,../x:1,,y")) == ["dirty_decay_ms", "thp", "y"]
