"""MLPerf's system description: the fields of its checker, in its formats, and nothing made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from reports.commands import app
from reports.export.mlperf import FIELDS, system_description
from suite.bundle.schema import SCHEMA_VERSION, Fact, Fingerprint
from tests import samples

GOLDEN_A100 = Path(__file__).parents[1] / "fingerprint" / "golden" / "one-a100.json"
# What the checker of v5.1 asks for (SYSTEM_DESC_REQUIRED_FIELDS).
REQUIRED = """division submitter status system_name number_of_nodes host_processor_model_name host_processors_per_node
host_processor_core_count host_memory_capacity host_storage_capacity host_storage_type accelerators_per_node
accelerator_model_name accelerator_memory_capacity framework operating_system system_type other_software_stack
host_processor_frequency host_processor_caches host_memory_configuration host_processor_interconnect host_networking
host_networking_topology accelerator_frequency accelerator_host_interconnect accelerator_interconnect
accelerator_interconnect_topology accelerator_memory_configuration accelerator_on-chip_memories cooling hw_notes sw_notes
host_network_card_count system_type_detail"""


def described(**facts: Any) -> dict[str, Any]:
    """The description of a machine of plain values; a name is "subject__fact", and a `Fact` stands for itself."""
    subjects: dict[str, dict[str, Fact]] = {}
    for name, value in facts.items():
        subject, _, key = name.partition("__")
        fact = value if isinstance(value, Fact) else Fact(value=value, source="a test", status="ok")
        subjects.setdefault(subject, {})[key] = fact
    return system_description(Fingerprint(schema_version=SCHEMA_VERSION, facts=subjects))


def cache(name: str, size_bytes: int, shared: int, instances: int) -> dict[str, Any]:
    return {"name": name, "size_bytes": size_bytes, "shared_by_cpus": shared, "instances": instances}


SERVER = {
    "cpu__model": "Intel(R) Xeon(R) Platinum 8164 CPU @ 2.00GHz",
    "cpu__hypervisor": "none",
    "cpu__sockets": 2,
    "cpu__physical_cores": 52,
    "cpu__online_cpus": 104,
    "cpu__threads_per_core": 2,
    "cpu__smt_active": True,
    "cpu__base_mhz": 2000.0,
    "cpu__maximum_mhz": 3700.0,
    "cpu__governor": ["performance"],
    "cpu__frequency_driver": "intel_pstate",
    "cpu__boost": True,
    "cpu__caches": [
        cache("L1 data", 32 << 10, 2, 52),
        cache("L1 instruction", 32 << 10, 2, 52),
        cache("L2 unified", 1 << 20, 2, 52),
        cache("L3 unified", 37_486_592 + 2_097_152, 52, 2),
    ],
    "memory__total_bytes": 400_000_000_000,
    "memory__node_total_bytes": {"0": 1, "1": 1},
    "memory__dimms": [
        {
            "count": 12,
            "size_bytes": 32 << 30,
            "type": "DDR4",
            "speed_mt_s": 2666,
            "ranks": 2,
            "part_number": "M393A4K40BB2-CTD",
            "slots": ["DIMM_A1"],
        }
    ],
    "system__sys_vendor": "Supermicro",
    "system__product_name": "SYS-2029U",
    "system__os": "Ubuntu 22.04.4 LTS",
    "system__kernel": "5.15.0-105-generic",
    "system__bios_version": "3.4",
    "system__bios_date": "11/01/2020",
    "torch__version": "2.13.0+cu130",
    "torch__cuda": "13.0",
    "python__version": "3.11.9",
    "python__packages": {"transformers": {"version": "5.24.0", "record_sha256": "0"}},
    "container__container": "none",
    "gpu__count": 0,
}


def test_every_field_of_the_checker_is_there_in_the_rules_order() -> None:
    assert set(REQUIRED.split()) <= set(FIELDS)
    assert tuple(described()) == FIELDS
    assert len(set(FIELDS)) == len(FIELDS)


def test_a_machine_that_tells_nothing_is_one_node_and_otherwise_empty() -> None:
    known = {field: value for field, value in described().items() if value != ""}
    assert known == {"number_of_nodes": 1}


def test_a_server_is_described_in_the_rules_formats() -> None:
    told = described(**SERVER)
    assert {name: told[name] for name in told if name.startswith("host_") and told[name] != ""} == {
        "host_processors_per_node": 2,
        "host_processor_model_name": "Intel(R) Xeon(R) Platinum 8164 CPU @ 2.00GHz",
        "host_processor_core_count": 26,
        "host_processor_frequency": "2000MHz",
        "host_processor_caches": "L1: 32KB I + 32KB D per core, L2: 1MB per core, L3: 37.75MB per chip",
        "host_memory_capacity": "384GB",
        "host_memory_configuration": "12x 32GB 2R DDR4 2666 MT/s M393A4K40BB2-CTD",
    }
    assert told["system_name"] == "Supermicro SYS-2029U"
    assert told["framework"] == "PyTorch 2.13.0+cu130"
    assert told["operating_system"] == "Ubuntu 22.04.4 LTS, Linux 5.15.0-105-generic"
    assert told["other_software_stack"] == "Python 3.11.9, transformers 5.24.0, CUDA 13.0"
    assert told["hw_notes"] == "SMT on, 2 NUMA nodes"
    assert told["power_management"] == "governor performance, driver intel_pstate, boost on"
    assert told["boot_firmware_version"] == "3.4 11/01/2020"


def test_a_machine_without_an_accelerator_says_so() -> None:
    told = described(**SERVER)
    assert told["accelerators_per_node"] == 0
    assert {value for name, value in told.items() if name.startswith("accelerator_")} == {"N/A"}


def test_whether_there_are_accelerators_may_be_unknown() -> None:
    hidden = Fact(value=None, source="/dev/nvidiactl", status="masked", note="hidden")
    told = described(**SERVER | {"gpu__count": hidden})
    assert {value for name, value in told.items() if name.startswith("accelerator")} == {""}


def test_virtual_cpus_stand_for_cores_in_a_virtual_machine() -> None:
    told = described(**SERVER | {"cpu__hypervisor": "KVM"})
    assert (told["host_processor_core_count"], told["host_processor_vcpu_count"]) == ("", 104)
    assert told["hw_notes"].startswith("virtual machine (KVM)")


def test_processors_of_different_sizes_have_no_one_number_of_cores() -> None:
    assert described(**SERVER | {"cpu__physical_cores": 51})["host_processor_core_count"] == ""


def test_without_modules_the_kernels_total_is_the_capacity() -> None:
    denied = Fact(value=None, source="/sys/firmware/dmi", status="denied")
    told = described(**SERVER | {"memory__dimms": denied})
    assert (told["host_memory_capacity"], told["host_memory_configuration"]) == ("373GB", "")


def test_a_clock_that_is_only_the_highest_is_called_that() -> None:
    told = described(**SERVER | {"cpu__base_mhz": Fact(value=None, source="x", status="absent")})
    assert told["host_processor_frequency"] == "3700MHz maximum"


def test_the_caches_of_a_hybrid_part_are_told_apart() -> None:
    rows = [
        cache("L1 data", 48 << 10, 2, 6),
        cache("L1 data", 32 << 10, 1, 8),
        cache("L2 unified", 1280 << 10, 2, 6),
        cache("L2 unified", 2 << 20, 4, 2),
    ]
    told = described(cpu__caches=rows, cpu__threads_per_core=2, cpu__sockets=1, cpu__online_cpus=20)
    assert told["host_processor_caches"] == (
        "L1: 6x 48KB D per core + 8x 32KB D per CPU, L2: 6x 1.25MB per core + 2x 2MB per 4 CPUs"
    )


def test_an_a100_is_described_from_its_golden_fingerprint() -> None:
    facts = msgspec.json.decode(GOLDEN_A100.read_bytes(), type=dict[str, dict[str, Fact]])
    told = system_description(Fingerprint(schema_version=SCHEMA_VERSION, facts=facts))
    assert {name: value for name, value in told.items() if name.startswith("accelerator")} == {
        "accelerators_per_node": 1,
        "accelerator_model_name": "NVIDIA A100-SXM4-80GB",
        "accelerator_host_interconnect": "PCIe 4.0 x16",
        "accelerator_frequency": "1410MHz",
        "accelerator_on-chip_memories": "",
        "accelerator_memory_configuration": "5120-bit bus",
        "accelerator_memory_capacity": "80GB",
        "accelerator_interconnect": "12x NVLink 3.0, 25GB/s each",
        "accelerator_interconnect_topology": "NVSwitch",
    }
    assert told["power_management"] == "accelerator limited to 400W"
    assert "driver 550.54.15" in str(told["other_software_stack"])


def test_unlike_accelerators_are_all_named_once() -> None:
    names = {
        "gpu__gpu 0 name": "NVIDIA H100 80GB HBM3",
        "gpu__gpu 1 name": "NVIDIA A10",
        "gpu__gpu 2 name": "NVIDIA A10",
    }
    told = described(gpu__count=3, **names, **{"gpu__gpu 0 memory_bus_bits": 5120})
    assert told["accelerator_model_name"] == "NVIDIA H100 80GB HBM3 + NVIDIA A10"
    assert told["accelerator_memory_configuration"] == "HBM3, 5120-bit bus"


def test_a_product_that_begins_with_its_vendor_is_not_named_twice() -> None:
    assert described(system__sys_vendor="Dell", system__product_name="Dell R750")["system_name"] == "Dell R750"


@pytest.mark.parametrize("odd", [None, "text", -1, 2.5, True, [], [1], {}, {"a": "b"}, [{"name": 3}]])
def test_odd_values_cost_only_their_field(odd: object) -> None:
    names = [*SERVER, "gpu__gpu 0 name", "gpu__gpu 0 nvlink_active", "gpu__gpu 0 memory_total_bytes"]
    for name in names:
        facts = SERVER | {"gpu__count": 1} | {name: odd}
        assert json.dumps(described(**facts))


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return samples.write(tmp_path / "run", {"matmul_add/64-fp32": {"eager": [2e6] * 3, "inductor": [1e6] * 3}})


def test_the_description_goes_to_standard_output(bundle: Path) -> None:
    done = CliRunner().invoke(app, ["mlperf", str(bundle)])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["host_processor_model_name"] == "Test CPU <&>"
    assert done.stderr.startswith("not known from the machine, and left empty: submitter, division")


def test_the_description_is_written_to_a_file_outside_of_the_bundle(bundle: Path, tmp_path: Path) -> None:
    sums = (bundle / "SHA256SUMS").read_bytes()
    done = CliRunner().invoke(app, ["mlperf", str(bundle), "--output", str(tmp_path / "new" / "system.json")])
    assert done.exit_code == 0
    assert tuple(json.loads((tmp_path / "new" / "system.json").read_text())) == FIELDS
    refused = CliRunner().invoke(app, ["mlperf", str(bundle), "--output", str(bundle / "system.json")])
    assert refused.exit_code == 2 and "sealed by its checksums" in refused.stderr
    assert (bundle / "SHA256SUMS").read_bytes() == sums and not (bundle / "system.json").exists()


def test_what_is_no_bundle_or_was_never_looked_at_is_refused(bundle: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["mlperf", str(tmp_path / "nothing")])
    assert done.exit_code == 2 and "not a bundle" in done.stderr
    (bundle / "fingerprint.json").unlink()
    done = CliRunner().invoke(app, ["mlperf", str(bundle)])
    assert done.exit_code == 2 and "before the machine was looked at" in done.stderr


def test_clocks_and_governors_that_are_told_per_cpu_are_understood() -> None:
    facts = SERVER | {
        "cpu__base_mhz": {"2000.0": "0-31"},
        "cpu__governor": {"performance": "0-15", "powersave": "16-31"},
    }
    told = described(**facts)
    assert told["host_processor_frequency"] == "2000MHz"
    assert "governor performance and powersave" in told["power_management"]
