"""Loaded by every Python of a test's run (PYTHONPATH): a GPU of doubles, so that the real commands and workers can be run without one."""

from suite.device import nvml, registry
from suite.fingerprint.gpu import missing
from tests.device import fake

registry.MODULES["cuda"] = "tests.device.fake"
nvml._binding = lambda: fake.FakeNvml()  # type: ignore[assignment]
missing.refusal = lambda facts, version: ""  # type: ignore[assignment]
