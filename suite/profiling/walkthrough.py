"""The profiling walkthrough's own files, by its own names, from the further profiles of a run's bundle.

It writes `traces/01_matmul_add/<size>_<dtype>_<cold|warm>_<eager|compile>.json` and `.txt`: the trace and the table of three steps. Its
cold and warm are profiles without and with a loop of calls before, not the state of a cache.
"""

from __future__ import annotations

from pathlib import Path

from isal import igzip

from suite.bundle import manifest, reader
from suite.bundle.writer import write_bytes

FOLDER = Path("traces") / "01_matmul_add"
ARMS = {"eager": "eager", "inductor": "compile"}
PASSES = ("cold", "warm")
SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def write(bundle: Path) -> list[Path]:
    """Write the files of every matmul_add case that was profiled so; returns their paths below the bundle.

    Raises:
        BundleError: the bundle cannot be read or written.
    """
    loaded = reader.load(bundle)
    cases = {case.name: case for case in loaded.run.cases}
    written = []
    for (name, arm, one), profile in loaded.passes.items():
        case = cases[name]
        if case.workload != "matmul_add" or arm not in ARMS or one not in PASSES:
            continue
        source = bundle / "cases" / name / arm / "passes" / one
        stem = FOLDER / f"{case.parameters['size']}_{SHORT[case.dtype]}_{one}_{ARMS[arm]}"
        trace = igzip.decompress((source / profile.cycles[-1].trace).read_bytes())  # type: ignore[no-untyped-call]
        write_bytes(bundle / f"{stem}.json", trace)
        write_bytes(bundle / f"{stem}.txt", (source / "profile.txt").read_bytes())
        written += [Path(f"{stem}.json"), Path(f"{stem}.txt")]
    if written:
        manifest.write(bundle)
    return written
