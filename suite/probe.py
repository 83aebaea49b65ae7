"""What only torch can say about this machine before anything is measured; runs in a process of its own, started as workers are.

Besides torch's own facts it compiles one trivial kernel. That shows whether compiled arms can run at all, and builds torch's
precompiled C++ header, which all kernels share and which takes up to a minute once per machine: without this, the first case's
cold compile time would include it.
"""

from __future__ import annotations

import sys
import time

import msgspec

from suite.bundle.schema import Fact
from suite.fingerprint.software import torch as torch_facts
from suite.profiling.compilation import ready_toolchain


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """`no_compiler` is empty when compiled arms can run, else the reason in a clause; `compile_ns` is the kernel's wall time."""

    facts: dict[str, Fact]
    no_compiler: str
    compile_ns: int


def probe() -> Probe:
    """Read torch's facts, then compile and run a kernel in a throw-away cache. Imports torch."""
    facts = torch_facts.read()
    start = time.perf_counter_ns()
    reason = _try_to_compile()
    return Probe(facts=facts, no_compiler=reason, compile_ns=time.perf_counter_ns() - start)


def _try_to_compile() -> str:
    import torch
    from torch._inductor.utils import fresh_cache

    try:
        # Before the throw-away cache: what it finds out about the processor is kept.
        ready_toolchain()
        with fresh_cache(), torch.no_grad():
            torch.compile(lambda tensor: tensor * 2 + 1)(torch.ones(64))
    except Exception as error:
        return why_not(error)
    return ""


def why_not(error: Exception) -> str:
    """Why compiled arms cannot run, from what the trivial kernel raised."""
    text = f"{type(error).__name__}: {error}".strip()
    if "'openssl'" in text:
        # Inductor hashes its precompiled header with this program.
        return "no openssl program, which Inductor calls"
    if any(sign in text for sign in ("InvalidCxxCompiler", "No working C++ compiler")):
        return "no C++ compiler"
    return next(line.strip() for line in text.splitlines() if line.strip())


if __name__ == "__main__":
    # torch writes notes of its own to both streams; the result is the last line.
    sys.stdout.write("\n" + msgspec.json.encode(probe()).decode() + "\n")
