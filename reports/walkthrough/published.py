"""What the profiling walkthrough published, as data: its source, and its numbers on an NVIDIA A100 (times in us).

The item numbers in comments count the walkthrough's claims in the order of its text (sections: set-up, trace, torch.compile). Shares, rates
and ratios are computed from its own times and sizes where it rounds them or leaves them to the reader.
"""

from __future__ import annotations

SOURCE = 'the profiling walkthrough (Hugging Face, "Profiling in PyTorch", part 1), on an NVIDIA A100'
"""Where every number of the column "A100" comes from."""

SHORT = "A100, as published"

SMALL, LARGE = 64, 4096
"""Edges of its square matrices."""
BATCH = 8

SMALL_CPU_US, SMALL_GPU_US = 2314.0, 23.104  # item 76
LARGE_CPU_US, LARGE_GPU_US = 4908.0, 4495.0  # item 78
GAPS_US = (227.757, 5.521, 4.488)  # item 82
FIRST_DELAY_US = 2320.0  # item 84
SYNCHRONIZE_US, SYNCHRONIZE_GPU_US, SYNCHRONIZE_IDLE = 1780.0, 26.0, 0.985  # item 93; it says 98 %
QUERY, LAUNCH = "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaLaunchKernel"  # item 90
ADD_REGISTERS, ADD_SHARED_BYTES = 32, 0  # item 91
MEAN_US, TYPICAL_US = 1084.0, 580.0  # item 97
MEAN_TFLOPS, TYPICAL_TFLOPS = 127.0, 237.0  # item 97: computed, 2·4096³ over its times
PEAK_SHARE = 0.76  # item 97: computed, of the dense bf16 peak of 312 TFLOP/s
PRODUCT = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn"  # item 101
COPY_BYTES, COPY_US, COPY_TB_S = 32 * 2**20, 33.0, 2.03  # item 108; the rate is computed, read and written
STEP_RATIOS = (2.0, 1.43, 1.43)  # item 112: 0.1 to 0.2 ms, then twice 0.07 to 0.1 ms; it says "roughly 2x"
