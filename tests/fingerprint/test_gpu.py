"""GPUs: NVML as recorded, what stands in its way, and what is seen without it."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pynvml
import pytest

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts
from suite.fingerprint.gpu import devices as gpu
from suite.fingerprint.gpu import nvml, nvml_recorder
from suite.fingerprint.gpu.nvml_calls import clock_reasons, cpu_list, cuda_version
from suite.fingerprint.gpu.nvml_recorder import Answer, Player, load
from tests.fingerprint.trees import write_tree

HERE = Path(__file__).parent
A100 = HERE / "nvml_recording_a100.json"
MIXED = HERE / "nvml_recording_mixed.json"
GOLDEN = HERE / "golden" / "one-a100.json"

ADDRESS = "0000:07:00.0"
DEVICE = f"/sys/bus/pci/devices/{ADDRESS}"
CARD = {f"{DEVICE}/vendor": "0x10de", f"{DEVICE}/device": "0x20b2", f"{DEVICE}/class": "0x030200"}
MODULE = {
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC "
    "2024\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)"
}
HOST = {"/proc/mounts": "/dev/sda1 / ext4 rw 0 0"}
DOCKER = {"/.dockerenv": ""}


@pytest.fixture
def mixed() -> Facts:
    return gpu.read(Path("/nowhere"), load(MIXED), {})


def test_the_golden_fingerprint_of_one_a100(tmp_path: Path) -> None:
    root = write_tree(tmp_path, CARD | MODULE | HOST | {f"{DEVICE}/numa_node": "3"})
    facts = gpu.read(root, load(A100), {"NVIDIA_VISIBLE_DEVICES": "GPU-00000000-0000-4000-8000-0000000000a1"})
    assert facts == msgspec.json.decode(GOLDEN.read_bytes(), type=dict[str, dict[str, Fact]])["gpu"]
    # A GPU is known again where a variable names it by its UUID.
    assert facts["gpu 0 uuid_salted"].value in facts["visible_devices"].value


def test_a_card_that_is_not_at_its_best_is_told_so(mixed: Facts) -> None:
    found = {name.removeprefix("gpu 0 "): fact.value for name, fact in mixed.items() if name.startswith("gpu 0 ")}
    assert (found["ecc"], found["ecc_pending"]) == (False, True)
    assert (found["power_limit_default_w"], found["power_limit_enforced_w"]) == (300, 200)
    assert found["clock_event_reasons"] == ["software power cap", "software thermal slowdown"]
    assert (found["pcie_width"], found["pcie_width_maximum"]) == (8, 16)
    assert (found["pcie_generation"], found["pcie_generation_of_the_gpu"]) == (3, 4)
    assert (found["other_compute_processes"], found["other_compute_memory_bytes"]) == (1, 22374 << 20)
    assert (found["remapped_rows_uncorrected"], found["remapped_rows_pending"]) == (1, True)
    assert found["compute_mode"] == "exclusive process"
    assert (found["nvlink_links"], found["nvlink_active"]) == (4, 0)


def test_a_link_read_at_rest_says_so_and_one_read_under_load_does_not(mixed: Facts) -> None:
    assert mixed["gpu 0 pcie_width"].note == ""
    idle = gpu.read(Path("/nowhere"), load(A100), {})
    assert "read at rest" in idle["gpu 0 pcie_width"].note and "read at rest" in idle["gpu 0 pcie_generation"].note
    assert idle["gpu 0 pcie_width_maximum"].note == ""


@pytest.mark.parametrize(("busy", "noted"), [(0, True), (40, False)])
def test_a_driver_without_clock_reasons_tells_rest_by_its_use(busy: int, noted: bool) -> None:
    player = load(A100)
    player._calls = dict(player._calls) | {
        "nvmlDeviceGetCurrentClocksEventReasons(gpu 0)": Answer(error="NVML_ERROR_NOT_SUPPORTED"),
        "nvmlDeviceGetUtilizationRates(gpu 0)": Answer(value={"gpu": busy, "memory": 0}),
    }
    facts = gpu.read(Path("/nowhere"), player, {})
    assert ("read at rest" in facts["gpu 0 pcie_width"].note) == noted


def test_a_function_that_a_driver_gave_up_is_told_as_such() -> None:
    player = load(A100)
    player._calls = dict(player._calls) | {
        "nvmlDeviceGetDefaultApplicationsClock(gpu 0, 0)": Answer(error="NVML_ERROR_DEPRECATED")
    }
    fact = gpu.read(Path("/nowhere"), player, {})["gpu 0 clock_graphics_application_default_mhz"]
    assert (fact.value, fact.note) == (None, "no longer told by this driver")


def test_instances_of_mig_are_listed_with_their_sizes(mixed: Facts) -> None:
    assert mixed["gpu 1 mig"].value is True
    assert mixed["gpu 1 mig_instances"].value == [
        {"name": "NVIDIA A100-PCIE-40GB MIG 3g.20gb", "multiprocessors": 42, "memory_bytes": 19968 << 20},
        {"name": "NVIDIA A100-PCIE-40GB MIG 1g.5gb", "multiprocessors": 14, "memory_bytes": 4864 << 20},
    ]
    assert mixed["gpu 0 mig_instances"].status == "absent"


@pytest.mark.parametrize(
    ("name", "status", "note"),
    [
        ("gpu 0 ecc_corrected_volatile", "absent", "not supported by this GPU"),
        ("gpu 1 other_compute_processes", "denied", "permission denied"),
        ("gpu 0 fabric_state", "absent", "this driver has no such function"),
        ("gpu 2 name", "absent", "the GPU is lost: it has fallen off the bus"),
    ],
)
def test_each_refusal_has_its_status_and_reason(mixed: Facts, name: str, status: str, note: str) -> None:
    assert (mixed[name].value, mixed[name].status, mixed[name].note) == (None, status, note)


def test_an_older_driver_is_asked_by_the_older_names(mixed: Facts) -> None:
    assert mixed["gpu 0 clock_event_reasons"].source == "NVML nvmlDeviceGetCurrentClocksThrottleReasons"


def test_a_driver_without_the_second_version_of_memory_gives_the_first() -> None:
    player = Player(
        {
            "nvmlDeviceGetCount()": Answer(value=1),
            "nvmlDeviceGetHandleByIndex(0)": Answer(value="gpu 0"),
            "nvmlDeviceGetMemoryInfo(gpu 0)": Answer(value={"total": 4, "used": 1, "free": 3}),
        }
    )
    facts = gpu.read(Path("/nowhere"), player, {})
    assert (facts["gpu 0 memory_total_bytes"].value, facts["gpu 0 memory_used_bytes"].value) == (4, 1)
    assert facts["gpu 0 memory_reserved_bytes"].status == "absent"


def test_values_of_a_virtual_gpu_are_its_hosts() -> None:
    player = load(A100)
    player._calls = dict(player._calls) | {"nvmlDeviceGetVirtualizationMode(gpu 0)": Answer(value=2)}
    facts = gpu.read(Path("/nowhere"), player, {})
    assert (facts["gpu 0 clock_sm_mhz"].value, facts["gpu 0 clock_sm_mhz"].status) == (210, "virtualised")
    assert facts["gpu 0 temperature_margin_c"].status == "absent"


@pytest.mark.parametrize("recording", [A100, MIXED])
def test_no_identifier_of_a_recording_reaches_a_fact(recording: Path) -> None:
    text = msgspec.json.encode(gpu.read(Path("/nowhere"), load(recording), {})).decode()
    assert not re.search(r"00000000-0000-4000|[0-9a-f]{8}-[0-9a-f]{4}-|4194304", text)


@pytest.mark.parametrize("recording", [A100, MIXED])
def test_nvml_is_always_ended(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player = load(recording)
    gpu.read(Path("/nowhere"), player, {})
    assert not player.running

    def fail(*_: object) -> Facts:
        raise RuntimeError("a reader with a mistake")

    monkeypatch.setattr(nvml, "_device", fail)
    with pytest.raises(RuntimeError):
        nvml.read(player)
    assert not player.running


def test_a_binding_that_fails_costs_one_fact() -> None:
    class Odd(Player):
        def nvmlDeviceGetName(self, handle: object) -> str:
            raise ValueError("a struct of another size")

    odd = Odd(load(A100)._calls)
    facts = gpu.read(Path("/nowhere"), odd, {})
    assert facts["gpu 0 name"].note == "ValueError: a struct of another size"
    assert facts["gpu 0 cuda_cores"].value == 6912


# --- without NVML ---------------------------------------------------------------------------------------------------

VFIO = {f"{DEVICE}/driver": "vfio-pci"}
BUS = {"/sys/bus/pci/devices/0000:00:00.0/vendor": "0x8086"}


@pytest.mark.parametrize(
    ("files", "environ", "asked", "value", "status", "note"),
    [
        (BUS | HOST, {}, 12, 0, "ok", "no device of NVIDIA's on PCI"),
        (HOST, {}, 12, None, "absent", "no PCI bus is visible"),
        (CARD | HOST, {}, 12, None, "absent", "1 GPU of NVIDIA's on PCI, bound to no driver: NVIDIA's kernel driver"),
        (CARD | VFIO | HOST, {}, 12, None, "absent", "bound to vfio-pci, that is, kept for virtual machines"),
        (CARD | MODULE | HOST, {}, 12, None, "absent", "no /dev/nvidiactl: run nvidia-modprobe"),
        (
            CARD | MODULE | DOCKER,
            {},
            12,
            None,
            "masked",
            "no /dev/nvidiactl in this container: start it with --gpus all",
        ),
        (
            CARD | MODULE | DOCKER,
            {"NVIDIA_VISIBLE_DEVICES": "void"},
            12,
            None,
            "masked",
            "in this container (NVIDIA_VISIBLE_DEVICES=void)",
        ),
        (
            CARD | MODULE | DOCKER | {"/dev/nvidiactl": ""},
            {},
            12,
            None,
            "masked",
            "NVIDIA_DRIVER_CAPABILITIES must hold utility",
        ),
        (CARD | MODULE | HOST | {"/dev/nvidiactl": ""}, {}, 12, None, "absent", "libnvidia-ml.so.1 is not installed"),
        (CARD | MODULE | HOST | {"/dev/nvidiactl": ""}, {}, 18, None, "absent", "are of different versions"),
        (CARD | MODULE | HOST | {"/dev/nvidiactl": ""}, {}, 4, None, "denied", "permission denied"),
        (CARD | MODULE | HOST | {"/dev/nvidiactl": ""}, {}, "no answer", None, "absent", "cannot be asked: no answer"),
    ],
)
def test_it_is_said_why_no_gpu_is_seen(
    tmp_path: Path,
    files: dict[str, str],
    environ: dict[str, str],
    asked: int | str,
    value: int | None,
    status: str,
    note: str,
) -> None:
    links = {path: text for path, text in files.items() if path.endswith("/driver")}
    root = write_tree(tmp_path, {path: text for path, text in files.items() if path not in links})
    for path, driver in links.items():
        (root / path.lstrip("/")).symlink_to(f"../../../../bus/pci/drivers/{driver}")
    fact = gpu.why_none(gpu.look(root, gpu.pci_devices(root), environ), asked)
    assert (fact.value, fact.status) == (value, status)
    assert note in fact.note


def test_gpus_hidden_from_a_container_are_counted(tmp_path: Path) -> None:
    other = {path.replace("07:00", "0b:00"): text for path, text in CARD.items()}
    root = write_tree(tmp_path, CARD | other | MODULE | DOCKER)
    count = gpu.read(root, load(A100), {"NVIDIA_VISIBLE_DEVICES": "0"})["count"]
    assert (count.value, count.status) == (1, "masked")
    assert "PCI shows 2" in count.note and "NVIDIA_VISIBLE_DEVICES=0" in count.note


def test_a_sound_function_of_a_card_and_a_switch_are_no_gpus(tmp_path: Path) -> None:
    audio = {path.replace("07:00.0", "07:00.1"): text for path, text in CARD.items()} | {
        DEVICE.replace("07:00.0", "07:00.1") + "/class": "0x040300"
    }
    switch = {path.replace("07:00.0", "c1:00.0"): text for path, text in CARD.items()} | {
        DEVICE.replace("07:00.0", "c1:00.0") + "/class": "0x068000"
    }
    root = write_tree(tmp_path, CARD | audio | switch)
    assert gpu.look(root, gpu.pci_devices(root), {}).gpus == 1
    assert gpu.read(root, environ={})["nvswitches"].value == 1


def test_other_makers_accelerators_are_named(tmp_path: Path) -> None:
    folder = "/sys/bus/pci/devices/0000"
    files = {
        f"{folder}:01:00.0/vendor": "0x1002",
        f"{folder}:01:00.0/device": "0x74a1",
        f"{folder}:01:00.0/class": "0x120000",
        f"{folder}:02:00.0/vendor": "0x8086",
        f"{folder}:02:00.0/device": "0x0bd5",
        f"{folder}:02:00.0/class": "0x038000",
        f"{folder}:03:00.0/vendor": "0x1234",
        f"{folder}:03:00.0/device": "0x1111",
        f"{folder}:03:00.0/class": "0x030000",
        "/usr/share/misc/pci.ids": "1002  AMD\n\t74a1  Aqua Vanjaram [Instinct MI300X]\n8086  Intel\n\t74a1  not this",
    }
    facts = gpu.read(write_tree(tmp_path, files), environ={})
    named = ["1 x AMD Aqua Vanjaram [Instinct MI300X] (1002:74a1)", "1 x Intel GPU (8086:0bd5)"]
    assert facts["other_accelerators"].value == named


def test_a_driver_that_hangs_is_given_up_and_its_process_ended(tmp_path: Path) -> None:
    started, number = time.monotonic(), tmp_path / "pid"
    asked = gpu.ask_apart(1, ("sh", "-c", f"echo $$ >{number}; exec sleep 60"))
    assert isinstance(asked, str) and "no answer within 1 s" in asked
    assert time.monotonic() - started < 10
    assert not Path(f"/proc/{number.read_text().strip()}").exists()


def test_a_driver_that_crashes_its_process_costs_nothing_else() -> None:
    asked = gpu.ask_apart(20, (sys.executable, "-c", "import os; os.abort()"))
    assert asked == "the process that asked it ended with status -6"


def test_what_the_process_prints_is_what_is_read() -> None:
    asked = gpu.ask_apart(30)
    assert isinstance(asked, dict | int)


def test_the_live_machine_is_not_looked_at_for_a_recorded_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "ask_apart", lambda *_: pytest.fail("the live machine was asked"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    facts = gpu.read(write_tree(tmp_path, CARD | MODULE | HOST | {"/dev/nvidiactl": ""}))
    assert facts["visible_devices"].value is None
    assert "a recorded tree does not hold it" in facts["count"].note


# --- recordings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recording", [A100, MIXED])
def test_a_recording_of_a_player_is_the_recording_it_plays(recording: Path) -> None:
    player = load(recording)
    made = nvml_recorder.record(player, "again")
    # What was missing from the first is written down as refused in the second.
    again = Player(msgspec.json.decode(msgspec.json.encode(made), type=nvml_recorder.Recording).calls)
    first, second = (gpu.read(Path("/nowhere"), each, {}) for each in (load(recording), again))
    salted = {name for name in first if name.endswith("uuid_salted")}
    assert {n: f for n, f in first.items() if n not in salted} == {n: f for n, f in second.items() if n not in salted}
    assert "00000000-0000-4000" not in msgspec.json.encode(made).decode()


def test_a_recorder_writes_ctypes_down_and_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the real nvidia-ml-py, on a library that is a few Python functions with C's signatures."""

    def get_count(count: Any) -> int:
        count._obj.value = 1
        return 0

    def get_handle(index: object, handle: Any) -> int:
        handle._obj.contents = pynvml.struct_c_nvmlDevice_t()
        return 0

    def get_memory(handle: object, memory: Any) -> int:
        memory._obj.total, memory._obj.used = 1 << 40, 5
        return 0

    def get_processes(handle: object, count: Any, rows: Any) -> int:
        count._obj.value = 1
        if rows is None:
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        rows[0].pid, rows[0].usedGpuMemory = 1234, 99
        return 0

    def get_uuid(handle: object, text: Any, size: object) -> int:
        text.value = b"GPU-4f1c2d3e-0000-4000-8000-0123456789ab"
        return 0

    library = {
        "nvmlInitWithFlags": lambda flags: 0,
        "nvmlShutdown": lambda: 0,
        "nvmlDeviceGetCount_v2": get_count,
        "nvmlDeviceGetHandleByIndex_v2": get_handle,
        "nvmlDeviceGetMemoryInfo_v2": get_memory,
        "nvmlDeviceGetComputeRunningProcesses_v3": get_processes,
        "nvmlDeviceGetUUID": get_uuid,
    }

    def function(name: str) -> Any:
        if name not in library:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return library[name]

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", function)
    monkeypatch.setattr(pynvml, "_LoadNvmlLibrary", lambda: None)
    made = nvml_recorder.record(pynvml, "a test")
    text = msgspec.json.encode(made).decode()
    assert "1234" not in text and "4f1c2d3e" not in text
    facts = gpu.read(Path("/nowhere"), Player(made.calls), {})
    assert facts["gpu 0 memory_total_bytes"].value == 1 << 40
    assert facts["gpu 0 other_compute_memory_bytes"].value == 99
    assert facts["gpu 0 name"].note == "this driver has no such function"


@pytest.mark.parametrize("text", ['{"format": "another", "origin": "", "calls": {}}', "[]", "nonsense"])
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recording.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"format|Expected|malformed"):
        load(path)


# --- decoding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, ["none"]),
        (0b1, ["GPU idle"]),
        (0xC8, ["hardware slowdown", "hardware thermal slowdown", "hardware power brake slowdown"]),
        (1 << 40, ["bit 40"]),
    ],
)
def test_clock_reasons_are_named(mask: int, names: list[str]) -> None:
    assert clock_reasons(mask) == names


def test_versions_and_affinities_are_written_as_people_do() -> None:
    assert [cuda_version(number) for number in (12040, 11080, 13000)] == ["12.4", "11.8", "13.0"]
    assert cpu_list([0b1111, 1 << 63]) == "0-3,127"
    assert cpu_list([0, 0]) is None


def test_the_kernel_driver_is_named_without_its_builder() -> None:
    text = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs-builder@host)  Fri Aug"
    )
    assert gpu.kernel_driver(text) == "560.35.03 (open)"
    assert gpu.kernel_driver(MODULE["/proc/driver/nvidia/version"]) == "550.54.15"
    with pytest.raises(ValueError, match="no version"):
        gpu.kernel_driver("")
