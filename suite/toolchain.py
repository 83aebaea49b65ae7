"""Compiles one trivial kernel, in a process of its own, before anything is measured.

It shows whether compiled arms can run at all, and builds torch's precompiled C++ header, which is shared by all kernels and takes
up to a minute once per machine: without this, the first case's cold compile time would include it.
"""

from __future__ import annotations

import sys

import msgspec


class Toolchain(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is empty when compiled arms can run, else one clause; `duration_ns` is the trivial compile's wall time."""

    reason: str
    duration_ns: int


def probe() -> Toolchain:
    """Compile and run a kernel in a throw-away cache. Imports torch."""
    import time

    import torch
    from torch._inductor.utils import fresh_cache

    start = time.perf_counter_ns()
    reason = ""
    try:
        with fresh_cache(), torch.no_grad():
            torch.compile(lambda tensor: tensor * 2 + 1)(torch.ones(64))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        missing = (
            "InvalidCxxCompiler" in text
            or "No working C++ compiler" in text
            or ("g++" in text and "No such file" in text)
        )
        reason = "no C++ compiler" if missing else text.strip().partition("\n")[0]
    return Toolchain(reason=reason, duration_ns=time.perf_counter_ns() - start)


if __name__ == "__main__":
    # torch writes notes of its own to both streams; the result is the last line.
    sys.stdout.write("\n" + msgspec.json.encode(probe()).decode() + "\n")
