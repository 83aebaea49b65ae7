"""A GPU sampled in a thread beside a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from suite.device.nvml import GpuSample, GpuSampler

T = TypeVar("T")

PATIENCE_S = 10.0
"""Longer than a driver takes that has to wake a GPU first."""


class NoAnswerError(Exception):
    """The driver did not answer in time; the thread that waits for it is left behind."""


def ask(question: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """The answer to a question that may hang; what the question raises is raised here.

    Raises:
        NoAnswerError: none within `patience_s`.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(question())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="gpu-question", daemon=True)
    thread.start()
    thread.join(patience_s)
    if errors:
        raise errors[0]
    if not answers:
        raise NoAnswerError(f"the driver did not answer within {patience_s:g} s")
    return answers[0]


class Sampling:
    """Samples a GPU in a thread of its own every `interval_s` from entering to leaving; `samples` are those taken so far.

    A sampler that fails ends the sampling, never the run: `failure` says why. A driver that hangs is left behind after `patience_s`.
    """

    def __init__(self, sampler: GpuSampler, interval_s: float, patience_s: float = 2.0) -> None:
        self.failure = ""
        self._sampler = sampler
        self._interval_s = interval_s
        self._patience_s = patience_s
        self._taken: list[GpuSample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-sampling", daemon=True)

    def __enter__(self) -> Sampling:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            self.failure = f"the driver did not answer within {self._patience_s:g} s"

    @property
    def samples(self) -> tuple[GpuSample, ...]:
        return tuple(self._taken)

    def _run(self) -> None:
        try:
            while True:
                self._taken.append(self._sampler.sample())
                if self._stop.wait(self._interval_s):
                    return
        except Exception as error:  # a reading must not cost the run
            self.failure = f"{type(error).__name__}: {error}"
