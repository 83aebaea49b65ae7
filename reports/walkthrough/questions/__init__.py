"""The questions, in the walkthrough's order."""

from __future__ import annotations

from reports.walkthrough.answer import Question
from reports.walkthrough.questions.compiled import COMPILE_QUESTIONS
from reports.walkthrough.questions.kernels import TRACE_QUESTIONS_OF_KERNELS
from reports.walkthrough.questions.table import TABLE_QUESTIONS
from reports.walkthrough.questions.trace import TRACE_QUESTIONS_OF_THE_HOST

QUESTIONS: tuple[Question, ...] = (
    *TABLE_QUESTIONS,
    *TRACE_QUESTIONS_OF_THE_HOST,
    *TRACE_QUESTIONS_OF_KERNELS,
    *COMPILE_QUESTIONS,
)

__all__ = ["QUESTIONS"]
