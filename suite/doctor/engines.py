"""Which engine a run would take, asked with little patience: a daemon that hangs must not hold the doctor up."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from suite.errors import UserError
from suite.launch import engine as launch
from suite.launch.engine import Answer, Choice, Runner

PATIENCE_S = 1.5
KNOWN = ("auto", "native", *launch.CONTAINER_ENGINES)


@dataclass(frozen=True)
class Engines:
    """The engine that a run would take.

    `refusal` says why the engine that was asked for cannot be had, else it is empty. `answering` are the container engines that
    answer, with or without an image; `slow` those that did not within the doctor's patience.
    """

    choice: Choice
    refusal: str = ""
    answering: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()

    @property
    def builds_image(self) -> bool:
        """Whether a run would first build the image."""
        return not self.choice.engine.containerised and bool(self.answering) and not self.refusal


def check_name(requested: str) -> None:
    """Refuse an engine that does not exist.

    Raises:
        UserError: naming those that do.
    """
    if requested not in KNOWN:
        raise UserError(f"unknown engine {requested!r}: use {', '.join(KNOWN[:-1])} or {KNOWN[-1]}.")


def look(
    requested: str,
    environ: Mapping[str, str] = os.environ,
    run: Runner = launch.run_command,
    patience_s: float = PATIENCE_S,
) -> Engines:
    """Ask as a run asks, docker and podman side by side, and build nothing. `requested` is one of `KNOWN`."""
    memory = _Remembering(run, patience_s)

    def choose(name: str) -> Choice:
        return launch.choose(name, may_build=False, environment=environ, run=memory)

    def warm(name: str) -> None:
        with suppress(UserError):
            choose(name)

    if requested == "auto":
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(warm, launch.CONTAINER_ENGINES))
    refusal = ""
    try:
        choice = choose(requested)
    except UserError as error:
        # An engine that answers and lacks the image is no refusal: the run builds it.
        refusal = "" if memory.engines("ok") else str(error)
        choice = Choice(launch.native(refusal or f"{requested} answers but has no image of this source yet"), False)
    return Engines(choice, refusal, memory.engines("ok"), memory.engines("timed out"))


class _Remembering:
    """Runs each command once, impatiently, and gives the same answer whenever it is asked again."""

    def __init__(self, run: Runner, patience_s: float) -> None:
        self.run = run
        self.patience_s = patience_s
        self.answers: dict[tuple[str, ...], Future[Answer]] = {}
        self.lock = threading.Lock()

    def __call__(self, argv: Sequence[str], timeout_s: float, log: Path | None) -> Answer:
        key = tuple(argv)
        with self.lock:
            known = self.answers.get(key)
            answer = self.answers.setdefault(key, Future())
        if known is None:
            try:
                answer.set_result(self.run(argv, min(timeout_s, self.patience_s), log))
            except BaseException as error:
                answer.set_exception(error)
                raise
        done = answer.result()
        # A run is more patient, so that its own words about the time would be wrong here.
        return Answer("failed") if done.outcome == "timed out" else done

    def engines(self, outcome: str) -> tuple[str, ...]:
        """The engines whose question about their version had this outcome."""
        asked = {argv[0]: future.result() for argv, future in self.answers.items() if argv[1:2] == ("info",)}
        return tuple(
            name
            for name in launch.CONTAINER_ENGINES
            if name in asked and asked[name].outcome == outcome and (outcome != "ok" or asked[name].output.strip())
        )
