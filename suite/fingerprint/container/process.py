"""This process: its environment as far as it matters, its limits and its place in the scheduler."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from suite.fingerprint.container import privileges
from suite.fingerprint.effective.worker import relevant_environment
from suite.fingerprint.facts import Facts, absent, call, from_file, ok
from suite.fingerprint.files import read_text

POLICIES = {
    "SCHED_OTHER": "other",
    "SCHED_FIFO": "fifo",
    "SCHED_RR": "round robin",
    "SCHED_BATCH": "batch",
    "SCHED_IDLE": "idle",
}


def read(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> Facts:
    """Facts of the process that leads the run; workers inherit them. Never raises."""
    live = root == Path("/")
    elsewhere = absent("sched_getscheduler", "a recorded tree does not hold it")
    known = environ if environ is not None else os.environ if live else None
    variables = "by a list of names; values that may be a secret and home directories are left out"
    return {
        "environment": absent("environment", "a recorded tree does not hold it")
        if known is None
        else ok(relevant_environment(known), "environment", variables),
        **privileges.limits(root),
        "scheduling_policy": call("sched_getscheduler", _policy) if live else elsewhere,
        "niceness": call("getpriority", lambda: os.getpriority(os.PRIO_PROCESS, 0)) if live else elsewhere,
        "out_of_memory_adjustment": from_file(root, "/proc/self/oom_score_adj", int, "-1000 to 1000"),
        "timer_slack_ns": call(
            "/proc/self/timerslack_ns", lambda: _integer(root, "/proc/self/timerslack_ns"), "no such file"
        ),
    }


def _integer(root: Path, path: str) -> int | None:
    text = read_text(root, path).text or ""
    return int(text) if text.isdigit() else None


def _policy() -> str:
    number = os.sched_getscheduler(0)
    return next((name for constant, name in POLICIES.items() if getattr(os, constant, None) == number), str(number))
