"""A worker: one fresh process that measures or profiles one case. Started by the orchestrator; reads its assignment from stdin.

Exit status: 0 done, 1 failed (the pipe carries one sentence).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Literal

import msgspec

from suite.bundle.errors import BundleError
from suite.bundle.schema import Noted
from suite.bundle.writer import Bundle
from suite.clocktime import now
from suite.device.registry import traits
from suite.fingerprint.redact import names_to_hide, redact_text
from suite.launch.variables import take_out
from suite.protocol import Assignment, Failure, Reporter, leave

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when the orchestrator dies: an orphan would measure into a run that nobody leads."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error is a failed allocation; torch's allocators raise a RuntimeError (on the processor and on a device)."""
    signs = ("can't allocate memory", "out of memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
    )


def _take_out(assignment: Assignment, bundle: Bundle) -> None:
    """Take out of this process what something in it has set (sitecustomize, a .pth file, an image) and would change an arm.

    Raises:
        RuntimeError: torch was imported before, and may have read it.
    """
    told = take_out(os.environ, traits(assignment.device).cleared, spare=("TORCHINDUCTOR_CACHE_DIR",))
    changing = [each for each in told if each.fate == "out"]
    if changing and "torch" in sys.modules:
        raise RuntimeError(f"{changing[0].shown} was set before the worker began, and torch had been imported with it")
    for each in told:
        if each.fate != "kept":
            said = f"{each.shown} was set within the worker and is taken out before torch is imported: {each.effect}"
            message = redact_text(said, names_to_hide())
            bundle.event(Noted(at=now(), case=assignment.case.name, message=message))


def main() -> int:
    """Run the assignment on standard input."""
    assignment = msgspec.json.decode(sys.stdin.buffer.read(), type=Assignment)
    if assignment.parent:
        die_with_parent(assignment.parent)
    report = Reporter(assignment.progress_descriptor)
    bundle = Bundle(Path(assignment.bundle))
    try:
        _take_out(assignment, bundle)
        if assignment.role == "measure":
            from suite.measure.process import Measurement

            Measurement(assignment, bundle, report).run()
        else:
            from suite.profiling import passes

            passes.run(assignment, bundle, report)
    except BundleError as error:
        report.failure(Failure(kind="bundle", message=str(error)))
        return 1
    except Exception as error:
        traceback.print_exc()
        kind: Literal["out_of_memory", "failed"] = "out_of_memory" if out_of_memory(error) else "failed"
        report.failure(
            Failure(kind=kind, message=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        )
        return 1
    return 0


if __name__ == "__main__":
    leave(main())
