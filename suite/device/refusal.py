"""Why a GPU cannot be measured on, in a clause that says what to do, from what torch raised. Pure."""

from __future__ import annotations

CAUSES = (
    (
        "driver on your system is too old",
        "the driver is too old for this torch: {0}; install a newer driver, or a torch for its CUDA",
    ),
    ("Found no NVIDIA driver", "no driver of NVIDIA's is loaded: {0}"),
    ("not compiled with CUDA", "this torch is built without CUDA; install a build with it"),
    (
        "No CUDA GPUs are available",
        "torch sees no GPU: none is visible to this process (see CUDA_VISIBLE_DEVICES, and --gpus of a container)",
    ),
    ("no CUDA-capable device", "the driver shows no GPU that can compute: {0}"),
    ("busy or unavailable", "another process has the GPU for itself (compute mode): {0}"),
    (
        "out of memory",
        "its memory is taken: {0}; end the processes that hold it (nvidia-smi lists them), or choose another with DEVICE",
    ),
    ("no kernel image is available", "this torch has no kernels for this GPU: {0}; install a build for it"),
    ("driver/library version mismatch", "the driver was renewed without a restart: {0}; load it anew"),
)
"""A sign in what torch raises -> the clause; {0} is torch's own first line."""


def why_not(error: BaseException) -> str:
    """The clause for an exception of CUDA's initialisation or first allocation."""
    text = str(error).strip()
    # torch appends advice of several sentences; the first says what is wrong.
    first = (text.splitlines() or [type(error).__name__])[0].partition(". ")[0].strip().rstrip(".")
    for sign, clause in CAUSES:
        if sign.lower() in text.lower():
            return clause.format(first)
    return f"torch cannot use it: {type(error).__name__}: {first}"
