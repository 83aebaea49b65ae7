from __future__ import annotations

from pathlib import Path

import pytest
from archspec.cpu import TARGETS

from suite.fingerprint.processor import cpu, flags, microarchitecture
from suite.fingerprint.system import virtual
from tests.fingerprint.trees import cpu_files, write_tree

CPU = "/sys/devices/system/cpu"
# Recorded on a KVM guest and on an Arm board, shortened.
EPYC_GUEST = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
stepping\t: 1
microcode\t: 0x1000065
cpu MHz\t\t: 2596.126
flags\t\t: fpu sse2 ssse3 fma sse4_1 avx f16c hypervisor avx2 avx512f avx512_bf16 avx512_vnni vaes

processor\t: 1
vendor_id\t: AuthenticAMD"""
ARM = """processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd aes sve bf16 i8mm
CPU implementer\t: 0x41
CPU part\t: 0xd4f

Hardware\t: BCM2835
Serial\t\t: 100000000abcdef0"""


def test_a_model_is_read_from_cpuinfo(tmp_path: Path) -> None:
    facts = cpu.read(write_tree(tmp_path, {"/proc/cpuinfo": EPYC_GUEST}))
    assert facts["model"].value == "AMD EPYC"
    assert facts["family"].value == "25"
    assert facts["model"].source == "/proc/cpuinfo"


def test_instruction_sets_are_told_from_other_flags(tmp_path: Path) -> None:
    facts = cpu.read(write_tree(tmp_path, {"/proc/cpuinfo": EPYC_GUEST}))
    assert facts["instruction_sets"].value == {
        "SSE": ["sse2", "sse4_1", "ssse3"],
        "AVX": ["avx", "avx2", "f16c", "fma"],
        "AVX-512 and AVX10": ["avx512_bf16", "avx512_vnni", "avx512f"],
        "crypto": ["vaes"],
        "virtualisation": ["hypervisor"],
    }
    assert "fpu" in facts["flags"].value


@pytest.mark.parametrize(
    ("flag", "group"),
    [
        ("amx_int8", "AMX"),
        ("avx_vnni", "AVX"),
        ("avx512_fp16", "AVX-512 and AVX10"),
        ("avx10_2", "AVX-512 and AVX10"),
        ("vpclmulqdq", "crypto"),
        ("abm", "bit manipulation"),
        ("pdpe1gb", "pages"),
        ("constant_tsc", "clocks and power"),
        ("ept_ad", "virtualisation"),
        ("cat_l3", "cache and bandwidth control"),
    ],
)
def test_a_flag_stands_in_its_group(flag: str, group: str) -> None:
    assert flags.by_group([flag, "fpu"], flags.X86) == {group: [flag]}


def test_riscv_extensions_are_flags() -> None:
    names, groups = flags.of_record({"isa": "rv64imafdcv_zba_zvfh"})
    assert {"v", "zba", "zvfh"} <= set(names)
    assert flags.by_group(names, groups) == {"vectors": ["v", "zvfh"], "bit manipulation": ["zba"]}


def test_an_arm_processor_is_read_without_its_boards_serial_number(tmp_path: Path) -> None:
    facts = cpu.read(write_tree(tmp_path, {"/proc/cpuinfo": ARM}))
    assert facts["flags"].value == ["aes", "asimd", "bf16", "fp", "i8mm", "sve"]
    assert facts["model"].value == "Neoverse V2"
    assert facts["model_number"].value == "0xd4f"
    assert "abcdef0" not in str(facts)
    assert list(cpu.parse_cpuinfo(ARM)) == [0]
    assert "Serial" not in cpu.parse_cpuinfo("processor: 0\nSerial: 100000000abcdef0")[0]


def test_a_micro_architecture_needs_vendor_and_flags() -> None:
    haswell = TARGETS["haswell"].features
    record = {"vendor_id": "GenuineIntel", "flags": " ".join(haswell) + " lm"}
    assert microarchitecture.identify(record) == microarchitecture.Named("haswell", "x86_64_v3", True)
    other = microarchitecture.identify(record | {"vendor_id": "AuthenticAMD"})
    assert other is not None and other.level == "x86_64_v3" and other.name != "haswell"


@pytest.mark.parametrize(
    ("vendor", "family", "model", "stepping", "name"),
    [
        ("GenuineIntel", 6, 207, 2, "Emerald Rapids"),
        ("GenuineIntel", 6, 85, 4, "Skylake"),
        ("GenuineIntel", 6, 85, 7, "Cascade Lake"),
        ("GenuineIntel", 6, 85, 11, "Cooper Lake"),
        ("GenuineIntel", 6, 254, 0, None),
        ("GenuineIntel", 15, 207, 0, None),
        ("AuthenticAMD", 25, 1, 1, "Zen 3"),
        ("AuthenticAMD", 25, 17, 1, "Zen 4"),
        ("AuthenticAMD", 26, 2, 1, "Zen 5"),
        ("HygonGenuine", 24, 1, 1, None),
    ],
)
def test_a_processors_name_comes_from_its_numbers_or_is_unknown(
    vendor: str, family: int, model: int, stepping: int, name: str | None
) -> None:
    record = {"vendor_id": vendor, "cpu family": f"{family}", "model": f"{model}", "stepping": f"{stepping}"}
    assert microarchitecture.x86_model(record) == name


def test_what_the_flags_look_like_stands_beside_the_name_and_is_none(tmp_path: Path) -> None:
    flags_seen = " ".join(TARGETS["icelake"].features) + " lm pni avx512_bf16"
    numbers = "processor: 0\nvendor_id: GenuineIntel\ncpu family: 6\nmodel: {}\nstepping: 2\n"
    known, unknown = (
        cpu.read(write_tree(tmp_path / model, {"/proc/cpuinfo": f"{numbers.format(model)}flags: {flags_seen}"}))
        for model in ("207", "254")
    )
    looks = {"archspec_by_flags": "icelake", "generic_level": "x86_64_v4"}
    assert known["microarchitecture"].value == {"name": "Emerald Rapids"} | looks
    assert unknown["microarchitecture"].value == looks
    assert "the name is unknown" in unknown["microarchitecture"].note


def test_an_arm_part_without_an_entry_is_not_called_by_anothers_name() -> None:
    features = " ".join(TARGETS["neoverse_v3ae"].features)
    record = {"CPU implementer": "0x41", "CPU part": "0xd87", "Features": features}
    named = microarchitecture.identify(record)
    assert named == microarchitecture.Named("aarch64", "aarch64", False)
    assert microarchitecture.arm_model([record]) == "Cortex-A725"
    assert microarchitecture.arm_model([record, {"CPU implementer": "0x99", "CPU part": "0x1"}]) is None


def test_an_unknown_architecture_has_no_name() -> None:
    assert microarchitecture.identify({}) is None
    power = microarchitecture.identify({"cpu": "POWER9, altivec supported"})
    assert power is not None and power.name == "power9le"


def test_cores_and_sockets_are_counted(tmp_path: Path) -> None:
    facts = cpu.read(write_tree(tmp_path, cpu_files({0: [[0, 2]], 1: [[1, 3]]})))
    counts = {name: facts[name].value for name in ("online_cpus", "sockets", "physical_cores", "threads_per_core")}
    assert counts == {"online_cpus": 4, "sockets": 2, "physical_cores": 2, "threads_per_core": 2}
    assert facts["smt_active"].value is True


def test_caches_are_counted_by_who_shares_them(tmp_path: Path) -> None:
    files = cpu_files({0: [[0], [1]]})
    for n in (0, 1):
        for index, (level, kind, size, shared) in enumerate([(1, "Data", "32K", n), (3, "Unified", "32768K", "0-1")]):
            folder = f"{CPU}/cpu{n}/cache/index{index}"
            files |= {f"{folder}/level": str(level), f"{folder}/type": kind, f"{folder}/size": size}
            files[f"{folder}/shared_cpu_list"] = str(shared)
    assert cpu.read(write_tree(tmp_path, files))["caches"].value == [
        {"name": "L1 data", "size_bytes": 32768, "shared_by_cpus": 1, "instances": 2},
        {"name": "L3 unified", "size_bytes": 32 << 20, "shared_by_cpus": 2, "instances": 1},
    ]


def test_clocks_are_in_megahertz_by_the_cpus_that_have_them(tmp_path: Path) -> None:
    files = cpu_files({0: [[0], [1], [2]]})
    governors = ["performance", "powersave", "performance"]
    files |= {f"{CPU}/cpu{n}/cpufreq/scaling_governor": governor for n, governor in enumerate(governors)}
    files |= {f"{CPU}/cpu{n}/cpufreq/cpuinfo_max_freq": "3400000" for n in range(3)}
    files |= {f"{CPU}/intel_pstate/no_turbo": "1"}
    facts = cpu.read(write_tree(tmp_path, files))
    assert facts["maximum_mhz"].value == {"3400": "0-2"}
    assert facts["governor"].value == {"performance": "0,2", "powersave": "1"}
    assert facts["boost"].value is False
    assert facts["governor"].status == "ok"


def test_the_base_clock_may_stand_in_the_models_name(tmp_path: Path) -> None:
    info = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU E5-2680 0 @ 2.70GHz\ncpu MHz\t\t: 1204.3"
    facts = cpu.read(write_tree(tmp_path, cpu_files({0: [[0]]}) | {"/proc/cpuinfo": info}))
    assert facts["base_mhz"].value == {"2700": "0"}
    assert facts["current_mhz"].value == {"1200": "0"}


def test_a_clock_that_some_cpus_do_not_show_says_so(tmp_path: Path) -> None:
    files = cpu_files({0: [[0], [1]]}) | {f"{CPU}/cpu0/cpufreq/base_frequency": "2000000"}
    fact = cpu.read(write_tree(tmp_path / "a", files))["base_mhz"]
    assert (fact.value, fact.note) == ({"2000": "0"}, "1 CPUs do not show it")
    odd = {f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "<unknown>"}
    fact = cpu.read(write_tree(tmp_path / "b", cpu_files({0: [[0]]}) | odd))["maximum_mhz"]
    assert fact.status == "absent" and "not understood" in fact.note


def test_idle_states_tell_latency_and_where_they_are_off(tmp_path: Path) -> None:
    files = cpu_files({0: [[0], [1]]})
    for n in (0, 1):
        for state, (name, latency, off) in enumerate([("POLL", 0, 0), ("C6", 133, n)]):
            folder = f"{CPU}/cpu{n}/cpuidle/state{state}"
            files |= {f"{folder}/name": name, f"{folder}/latency": str(latency), f"{folder}/disable": str(off)}
    assert cpu.read(write_tree(tmp_path, files))["idle_states"].value == [
        {"name": "POLL", "exit_latency_us": 0, "disabled_on": ""},
        {"name": "C6", "exit_latency_us": 133, "disabled_on": "1"},
    ]


def test_a_hypervisor_marks_what_it_chooses_and_hides(tmp_path: Path) -> None:
    facts = cpu.read(write_tree(tmp_path, cpu_files({0: [[0], [1]]}) | {"/proc/cpuinfo": EPYC_GUEST}))
    assert facts["microcode"].status == "virtualised"
    assert facts["microcode"].value == "0x1000065"
    assert facts["smt_active"].status == "virtualised"
    assert facts["model"].status == "ok"
    assert (facts["governor"].status, facts["governor"].value) == ("virtualised", None)
    assert "hypervisor" in facts["governor"].note


def test_mitigations_are_listed(tmp_path: Path) -> None:
    files = {f"{CPU}/vulnerabilities/meltdown": "Not affected", f"{CPU}/vulnerabilities/srbds": "Vulnerable"}
    assert cpu.read(write_tree(tmp_path, files))["mitigations"].value == {
        "meltdown": "Not affected",
        "srbds": "Vulnerable",
    }


def test_cpus_without_ticks_are_listed_and_none_is_a_fact(tmp_path: Path) -> None:
    assert cpu.read(write_tree(tmp_path / "a", {f"{CPU}/nohz_full": "2-3"}))["nohz_full"].value == [2, 3]
    assert cpu.read(write_tree(tmp_path / "b", {f"{CPU}/nohz_full": "(null)"}))["nohz_full"].value == []


def test_an_empty_tree_gives_reasons(tmp_path: Path) -> None:
    facts = cpu.read(tmp_path)
    assert facts["model"].status == "absent"
    assert all(fact.note for fact in facts.values() if fact.status == "absent")
    assert facts["hypervisor"].value == "none"


def test_hypervisors_are_named_by_dmi(tmp_path: Path) -> None:
    dmi = "/sys/class/dmi/id"
    guest = write_tree(tmp_path / "a", {"/proc/cpuinfo": EPYC_GUEST, f"{dmi}/sys_vendor": "Amazon EC2"})
    assert virtual.detect(guest).name == "KVM (Amazon Nitro)"
    metal = write_tree(tmp_path / "b", {f"{dmi}/sys_vendor": "Amazon EC2", f"{dmi}/product_name": "m5.metal"})
    assert virtual.detect(metal).name is None
    xen = write_tree(tmp_path / "c", {"/sys/hypervisor/type": "xen"})
    assert virtual.detect(xen).name == "Xen"
