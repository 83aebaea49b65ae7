"""What a kernel does, told by its name: vendors and code generators have schemes of their own. What no scheme tells stays unknown."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

KernelClass = Literal[
    "gemm",
    "convolution",
    "attention",
    "normalization",
    "elementwise",
    "reduction",
    "copy",
    "fill",
    "triton",
    "collective",
    "index",
    "unknown",
]

_TYPES = re.compile(r"cutlass::\w+_t\b|cutlass::(?:Array|Coord|layout)\b|\bfbgemm(?:_gpu)?\b(?:::)?", re.IGNORECASE)
"""Types of CUTLASS, and a library's own name, stand in the names of kernels that multiply nothing."""

_PATTERNS: tuple[tuple[KernelClass, str], ...] = (
    (
        "collective",
        r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|nvshmem|rocshmem|quickreduce"
        r"|multimem_|(?:one|two)_?shot|deep_ep|(?:inter|intra)node::|mscclpp",
    ),
    # Inductor's templates carry in their name what they compute; its other kernels what was fused into one pass over memory.
    ("attention", r"^triton_tem_\w*(?:flex_attention|attention|sdpa)"),
    ("convolution", r"^triton_tem_\w*conv"),
    ("gemm", r"^triton_tem_\w*mm|^triton_\w*(?:matmul|bmm)"),
    ("triton", r"^triton_(?:poi|red|per|for|tem)_|^triton_"),
    # A product that was split along k is added up in a kernel of its own, which multiplies nothing.
    ("reduction", r"splitK_?reduce|reduce_?splitK|splitk_?reduction"),
    ("normalization", r"layer_?norm|rms_?norm|batch_?norm|group_?norm|bn_fw|bn_bw"),
    # Before GEMM: fused attention is built from matrix products, and its name often says so.
    (
        "attention",
        r"flash_?(?:fwd|bwd|attn|attention|mla)|fmha|attn|attention|sdpa|\bmha_|fwd_kernel_d\d|\bsage_|paged_|\bmla_"
        r"|Batch(?:Prefill|Decode)With|SinglePrefill|SingleDecode",
    ),
    (
        "convolution",
        r"conv(?!ert)|winograd|implicit_gemm|scudnn|xmma_(?:fprop|dgrad|wgrad)|Igemm|im2col|vol2col|naive_conv|ConvAsm"
        r"|fprop|dgrad|wgrad",
    ),
    (
        "gemm",
        r"gemm|gemv|Cijk_|nvjet|(?:ampere|volta|turing|hopper|sm\d\d+|maxwell)_\w*?(?:s\d+|gemm|xmma|fp16|bf16|tf32)|cutlass"
        r"|cublas|splitK|\bb?mm_|mmha|_?\bmatmul|_matmul_|::mm_|dot_kernel|wgmma|wmma|rocblas|marlin|fused_moe|moe_mm|grouped_mm|machete"
        r"|awq_\w*(?:dequant|gemm)|gptq",
    ),
    ("normalization", r"softmax|(?<!re)normalize"),
    ("reduction", r"reduce|reduction|(?:max|avg|adaptive)\w*_?pool|argmax|argmin|cumsum|scan|topk|sort|\bsum"),
    ("index", r"index|gather|scatter|embedding"),
    ("fill", r"FillFunctor|fill_|fillBuffer|memset|distribution"),
    ("copy", r"copy(?!right)|CatArray|transpose|memcpy|permute|direct_copy|LoadWithCast|reshape_and_cache"),
    (
        "elementwise",
        r"elementwise|pointwise|vectorized|Functor|unrolled|activation|act_and_mul|OpTensor|SubTensorOp|_kernel_impl|addcmul"
        r"|adam|sgd|foreach|multi_tensor",
    ),
)
_CLASSES = tuple((found, re.compile(pattern, re.IGNORECASE)) for found, pattern in _PATTERNS)


@cache
def class_of(name: str) -> KernelClass:
    """What a kernel of this name does, by how vendors name theirs; "unknown" where the name does not tell."""
    bare = _TYPES.sub("", name)
    return next((found for found, pattern in _CLASSES if pattern.search(bare)), "unknown")


DEVICE_TO_DEVICE = ("DtoD", "Device -> Device", "CopyDeviceToDevice")


def device_to_device(name: str) -> bool:
    """Whether a copy of this name stays on the device ("Memcpy DtoD (Device -> Device)", ROCm's "CopyDeviceToDevice")."""
    return any(word in name for word in DEVICE_TO_DEVICE)
