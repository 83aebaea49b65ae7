"""What the answers must say of recordings that hold the walkthrough's own numbers."""

from __future__ import annotations

from reports.walkthrough.answer import Answer, ask
from reports.walkthrough.questions import QUESTIONS
from reports.walkthrough.recording import Recordings

PLANTED = {
    "overhead": "the GPU works 23.",
    "bound": "compute-bound",
    "first-step": "227.757 us pass between matmul_add and its first operator, aten::matmul",
    "late-kernel": "The first kernel begins 2.32 ms after its launch",
    "buffer-request": "Activity Buffer Request: 2.316 ms",
    "synchronize": "98.5 % idle in it",
    "heavy": "aten::mm is the heavy one",
    "spread": "is 1084 us against a typical 580 us (median of 20): 2 slow calls make the difference",
    "batch": "Yes, at 8x4096: aten::matmul became aten::bmm 3 times",
    "rows": "All 3 steps call the same graph",
    "fusion": "No new kernel: two operators became one that exists already, addmm",
    "same-kernel": "Yes: the same GEMM kernel, ampere_bf16_s16816gemm_bf16_",
    "second-operation": "32 MiB in 33 us, 2.03 TB/s read and written",
    "host-price": "a compiled step takes 2.0x an eager one on the host",
}
"""By the question's id; of reduce-overhead the walkthrough has no trace."""


def answers(recordings: Recordings) -> dict[str, Answer]:
    """Every answer by its question's id."""
    return {one.question.id: one.answer for one in ask(QUESTIONS, recordings)}


def beside(answer: Answer) -> dict[str, tuple[str, str]]:
    """The walkthrough's number and this machine's, by what it is."""
    return {row.what: (row.published, row.here) for row in answer.beside}
