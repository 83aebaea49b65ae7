"""The accuracy check in a measuring process: of what is timed, before the first block and, beside a host, after the last one again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from suite.accuracy.compare import compare, failed
from suite.accuracy.outputs import kept
from suite.arms import BASELINE
from suite.bundle import schema
from suite.bundle.writer import Bundle
from suite.measure.clock import Call


class AccuracyCheck:
    """Compares arms with the baseline. `outputs` holds each label's own copy of its output, `reference` the float64 one.

    Arms of one name compute the same and are checked once. A check that raises fails its arm and no other.
    """

    def __init__(self, case: schema.Case, bundle: Bundle, outputs: Mapping[str, Any], reference: Any) -> None:
        self._case = case
        self._bundle = bundle
        self._expected = outputs[BASELINE]
        self._reference = kept(reference)
        self._passed: set[str] = set()

    def before(self, arms: list[schema.Arm], outputs: Mapping[str, Any]) -> None:
        """Check every arm's output, and write each arm's accuracy.json."""
        checked: set[str] = set()
        for arm in arms:
            if arm.name in checked or arm.label not in outputs or arm.role == "baseline":
                continue
            checked.add(arm.name)
            result = self._compare(arm.name, outputs[arm.label])
            self._write(arm.name, result)
            if result.passed:
                self._passed.add(arm.label)

    def after(self, calls: Mapping[str, Call], arms: list[schema.Arm]) -> None:
        """Check once more what every arm that passed computes now, the baseline too; only what went wrong since is written."""
        names = {arm.label: arm.name for arm in arms}
        for label, call in calls.items():
            if label not in self._passed and label != BASELINE:
                continue
            try:
                result = self._compare(names[label], kept(call()))
            except Exception as error:
                result = failed(self._case, names[label], error)
            if not result.passed:
                late = msgspec.structs.replace(result, message=f"after the last block: {result.message}")
                self._write(names[label], late)

    def _compare(self, arm: str, output: Any) -> schema.Accuracy:
        try:
            return compare(self._case.name, arm, self._case.dtype, output, self._expected, self._reference)
        except Exception as error:
            return failed(self._case, arm, error)

    def _write(self, arm: str, result: schema.Accuracy) -> None:
        directory = self._bundle.case_directory(self._case.name, arm).relative_to(self._bundle.path)
        self._bundle.document(f"{directory}/accuracy.json", result)
