"""`make perf`: how fast the suite and the reports themselves are."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

from suite.measure.clock import time_iterations
from tests import samples
from tests.perf.side_by_side import measure, show


def command(*arguments: str) -> None:
    """Run this Python with arguments to a good end."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def start_up() -> None:
    """The command lines against an empty program and against importing torch."""
    show(
        "start-up",
        measure(
            {
                "python -c pass": lambda: command("-c", "pass"),
                "python -m reports --help": lambda: command("-m", "reports", "--help"),
                "python -m suite --help": lambda: command("-m", "suite", "--help"),
                "python -c 'import torch'": lambda: command("-c", "import torch"),
            },
            rounds=6,
        ),
    )


def timing_loop() -> None:
    """What timing every iteration costs over timing the whole loop once (timeit), for a call of about 10 us."""
    work = list(range(600))

    def call() -> int:
        return sum(work)

    loops = 20_000
    show(
        f"timing {loops} calls of {timeit.timeit(call, number=2000) / 2000 * 1e6:.1f} us",
        measure(
            {
                "timeit, one clock pair for all": lambda: timeit.timeit(call, number=loops, globals={}),
                "time_iterations, a clock pair a call": lambda: time_iterations(call, loops, 1),
                "time_iterations, a clock pair every 10 calls": lambda: time_iterations(call, loops // 10, 10),
            },
            rounds=10,
        ),
    )


def rendering() -> None:
    """Rendering a report of twelve cases against merely importing what draws it."""
    with tempfile.TemporaryDirectory() as folder:
        times = {"eager": [2e6, 2.1e6, 2e6], "eager#2": [2e6, 2.1e6, 2e6], "inductor": [1e6, 1e6, 1.1e6]}
        bundle = samples.write(Path(folder) / "run", {f"matmul_add/{size}-fp32": times for size in range(12)}, pairs=6)
        imports = "import matplotlib.figure, weasyprint, jinja2"
        show(
            "a report of twelve cases",
            measure(
                {
                    "importing matplotlib, weasyprint, jinja2": lambda: command("-c", imports),
                    "python -m reports render": lambda: command("-m", "reports", "render", str(bundle)),
                },
                rounds=3,
            ),
        )


if __name__ == "__main__":
    start_up()
    timing_loop()
    rendering()
