"""`make versus-sequential`: three methods measure the same ratio in turn, several times each; how far does each scatter?

The usual method with the tutorial's counts, the same method given the wall time of ours, and ours (five processes, mirrored blocks).
All start their processes with the same launch settings, and every compilation comes from a cache, so that none waits for a compiler.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reports.results import results
from suite.bundle import reader
from suite.launch import command, libraries, topology

CASE = "pointwise_chain/16384x512-fp32"
PROCESSES = 5


def sequential(launch: command.Launch, cache: Path, seconds: float | None) -> float:
    """One ratio by the usual method."""
    words = launch.command([sys.executable, "-m", "tests.perf.sequential", CASE, *([str(seconds)] if seconds else [])])
    environment = {**launch.environ(os.environ), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def ours(output: Path) -> tuple[float, float, float, float, list[str]]:
    """One ratio by ours: estimate, interval, wall seconds of its measuring processes, and what the machine did meanwhile."""
    from reports.render.state_words import regime_sentences
    from reports.state import regimes

    words = [sys.executable, "-m", "suite", "run", "--quiet", "--no-profile", "--engine", "native", "--cases", CASE]
    words += ["--arms", "inductor", "--processes", str(PROCESSES), "--output", str(output)]
    start = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    loaded = reader.load(reader.runs(output)[-1])
    found = results(loaded).cases[0].candidates[0].ratio
    assert found is not None
    assert found.interval is not None
    return found.estimate, found.interval.low, found.interval.high, seconds, regime_sentences(regimes(loaded))


def main() -> int:
    """Run the rounds and print each, then the spreads."""
    parser = argparse.ArgumentParser(prog="python -m tests.perf.versus_sequential", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    launch = command.plan(topology.read(), libraries.find(os.environ), os.environ)
    usual, equal_time, mine, intervals = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        sequential(launch, cache, None)  # Fills the cache; not counted.
        print(f"{CASE}; ratio eager / compiled\n round  usual (10 + 50)  usual, our wall time  ours")
        for number in range(options.rounds):
            estimate, low, high, seconds, changes = ours(Path(folder) / "results")
            usual.append(sequential(launch, cache, None))
            equal_time.append(sequential(launch, cache, seconds))
            mine.append(estimate)
            intervals.append((low, high))
            print(
                f"{number:6}  {usual[-1]:16.3f}  {equal_time[-1]:20.3f}  {estimate:.3f} ({low:.3f} to {high:.3f}), {seconds:.0f} s",
                flush=True,
            )
            for change in changes:
                print(f"        {change}")
    spreads = [math.log(max(values) / min(values)) for values in (usual, equal_time, mine)]
    print("\nspread of the log ratio (max / min):")
    for name, values, spread in zip(
        ("usual", "usual, our wall time", "ours"), (usual, equal_time, mine), spreads, strict=True
    ):
        print(
            f"  {name:22} {max(values) / min(values):.3f}  log {spread:.4f}  ({spread / spreads[0]:.2f} of the usual)"
        )
    overlap = max(low for low, _ in intervals) <= min(high for _, high in intervals)
    print(f"our intervals {'all share a point' if overlap else 'do not all share a point'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
