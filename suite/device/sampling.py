"""A GPU sampled in a thread beside a run."""

from __future__ import annotations

import threading
from types import TracebackType

from suite.device.nvml import GpuSample, GpuSampler


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

    def between(self, start_ns: int, end_ns: int) -> tuple[GpuSample, ...]:
        """The samples taken within a stretch of `time.monotonic_ns`."""
        return tuple(each for each in self._taken if start_ns <= each.at_ns <= end_ns)

    def _run(self) -> None:
        try:
            while True:
                self._taken.append(self._sampler.sample())
                if self._stop.wait(self._interval_s):
                    return
        except Exception as error:  # a reading must not cost the run
            self.failure = f"{type(error).__name__}: {error}"
