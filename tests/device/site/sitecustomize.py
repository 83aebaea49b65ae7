"""Loaded by every Python of a test's run (PYTHONPATH): a GPU of doubles, so that the real commands and workers can be run without one.

GPU_DOUBLE (JSON) plants what is wrong: `states` and `strangers` of NVML, `refuses` (NVML's return code), `broken` (what torch raises).
"""

import json
import os

from suite.device import nvml, registry
from suite.fingerprint.gpu import missing
from tests.device import fake

planted = json.loads(os.environ.get("GPU_DOUBLE", "{}"))
fake.BROKEN = planted.pop("broken", "")
registry.MODULES["cuda"] = "tests.device.fake"
nvml._binding = lambda: fake.FakeNvml(**planted)  # type: ignore[assignment]
missing.refusal = lambda *arguments, **options: ""  # type: ignore[assignment]
