"""What a slice is: told by its category, never by its process id; and what a run-time call does, told by its name.

Covers Kineto's categories from 2021 to today, for CUDA, ROCm (which keeps the names `cuda_*`), XPU, MTIA and private back-ends.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache


class Kind(IntEnum):
    """Kinds of slices. Host: up to `RUNTIME`. GPU work: `KERNEL`, `MEMCPY`, `MEMSET`. `FRAME`: a frame of Python's stack."""

    OP = 0
    ANNOTATION = 1
    RUNTIME = 2
    KERNEL = 3
    MEMCPY = 4
    MEMSET = 5
    GPU_ANNOTATION = 6
    OVERHEAD = 7
    GPU_SYNC = 8
    OTHER = 9
    FRAME = 10


HOST = (Kind.OP, Kind.ANNOTATION, Kind.RUNTIME)
"""What the host's time is made of."""

GPU_WORK = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)

_BY_CATEGORY = {
    "cpu_op": Kind.OP,
    "operator": Kind.OP,
    "user_annotation": Kind.ANNOTATION,
    "runtime": Kind.RUNTIME,
    "kernel": Kind.KERNEL,
    "concurrent_kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "gpu_user_annotation": Kind.GPU_ANNOTATION,
    "overhead": Kind.OVERHEAD,
    "cuda_sync": Kind.GPU_SYNC,
    "python_function": Kind.FRAME,
}
_RUNTIME = re.compile(r"(?:cuda|hip|xpu|mtia|glow|privateuse1|sycl|ur)_(?:runtime|driver|ccp_runtime)")


@cache
def kind_of(category: str) -> Kind:
    """The kind of a slice of this category ("Kernel" of 2021 and "kernel" of today are the same)."""
    lower = category.lower()
    found = _BY_CATEGORY.get(lower)
    if found is not None:
        return found
    return Kind.RUNTIME if _RUNTIME.fullmatch(lower) else Kind.OTHER


class Call(IntEnum):
    """What a run-time call does."""

    OTHER = 0
    LAUNCH = 1
    GRAPH_LAUNCH = 2
    COPY = 3
    SET = 4
    QUERY = 5
    SYNCHRONIZE = 6


ENQUEUES = (Call.LAUNCH, Call.GRAPH_LAUNCH, Call.COPY, Call.SET)
"""Calls that put work on a GPU: launches of all kinds."""

_CALLS = (
    (re.compile(r"Graph.*Launch"), Call.GRAPH_LAUNCH),
    (re.compile(r"LaunchHostFunc|LaunchConfig"), Call.OTHER),
    (
        re.compile(
            r"Launch.*Kernel|LaunchCooperative|KernelLaunch|LaunchGrid|EnqueueNDRange|AppendLaunch", re.IGNORECASE
        ),
        Call.LAUNCH,
    ),
    (re.compile(r"Memcpy|MemoryCopy"), Call.COPY),
    (re.compile(r"Memset|MemoryFill|USMFill|MemBufferFill"), Call.SET),
    (re.compile(r"(?<!Pointer)(?<!MemPool)GetAttribute|Occupancy|GetDeviceProperties"), Call.QUERY),
    (re.compile(r"Synchronize|QueueFinish|EventWait\b|clFinish"), Call.SYNCHRONIZE),
)


@cache
def call_of(name: str) -> Call:
    """What the run-time call of this name does ("cuLaunchKernelEx", "hipExtModuleLaunchKernel": a launch)."""
    return next((call for pattern, call in _CALLS if pattern.search(name)), Call.OTHER)
