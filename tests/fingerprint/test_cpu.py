from __future__ import annotations

from pathlib import Path

from suite.fingerprint import cpu, virtual
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
    expected = ["avx", "avx2", "avx512_bf16", "avx512_vnni", "avx512f", "f16c", "fma", "sse4_1", "ssse3", "vaes"]
    assert facts["isa"].value == expected
    assert "fpu" in facts["flags"].value


def test_an_arm_processor_is_read_without_its_boards_serial_number(tmp_path: Path) -> None:
    facts = cpu.read(write_tree(tmp_path, {"/proc/cpuinfo": ARM}))
    assert facts["isa"].value == ["asimd", "bf16", "i8mm", "sve"]
    assert facts["model_number"].value == "0xd4f"
    assert "abcdef0" not in str(facts)
    assert len(cpu.parse_cpuinfo(ARM)) == 1


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


def test_clocks_are_in_megahertz_and_governors_of_all_cpus(tmp_path: Path) -> None:
    files = cpu_files({0: [[0], [1]]})
    files |= {f"{CPU}/cpu{n}/cpufreq/scaling_governor": g for n, g in enumerate(["performance", "powersave"])}
    files |= {f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "3400000", f"{CPU}/intel_pstate/no_turbo": "1"}
    facts = cpu.read(write_tree(tmp_path, files))
    assert facts["maximum_mhz"].value == 3400
    assert facts["governor"].value == ["performance", "powersave"]
    assert facts["boost"].value is False
    assert facts["governor"].status == "ok"


def test_a_hypervisor_marks_what_it_chooses_and_hides(tmp_path: Path) -> None:
    facts = cpu.read(write_tree(tmp_path, cpu_files({0: [[0], [1]]}) | {"/proc/cpuinfo": EPYC_GUEST}))
    assert facts["microcode"].status == "virtualised"
    assert facts["microcode"].value == "0x1000065"
    assert facts["smt_active"].status == "virtualised"
    assert facts["model"].status == "ok"
    assert facts["governor"].status == "absent"
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
