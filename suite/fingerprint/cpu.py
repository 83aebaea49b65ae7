"""The processor: model, instruction sets, cores, caches, clocks, mitigations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, first, from_file, ok, virtualised
from suite.fingerprint.files import list_names, parse_cpulist, parse_cpumask, parse_size, read_text
from suite.fingerprint.virtual import detect
from suite.launch import topology

CPU = "/sys/devices/system/cpu"
CPUINFO = "/proc/cpuinfo"
# Instruction sets that decide which kernel torch, oneDNN and Inductor choose (x86, then Arm).
ISA = re.compile(
    r"avx\w*|amx_\w+|fma4?|f16c|sse4_[12]|ssse3|vaes|gfni|bmi[12]|vpclmulqdq"
    r"|asimd\w*|neon|sve\w*|sme\w*|bf16|i8mm|fphp|fcma"
)
# Facts that a hypervisor chooses or hides.
MASKABLE = ("microcode", "sockets", "physical_cores", "threads_per_core", "smt_active", "caches", "clock_reported_mhz")


def read(root: Path = Path("/")) -> Facts:
    """Facts of the processor. Clocks in MHz, cache sizes in bytes. Never raises."""
    text = read_text(root, CPUINFO).text or ""
    records = parse_cpuinfo(text)
    record = records[0] if records else {}
    machine = topology.read(root)
    facts: Facts = {
        "model": _field(record, "model name", "Processor", "cpu model", "cpu"),
        "vendor": _field(record, "vendor_id", "CPU implementer"),
        "family": _field(record, "cpu family", "CPU architecture"),
        "model_number": _field(record, "model", "CPU part"),
        "stepping": _field(record, "stepping", "CPU revision"),
        "microcode": first(_field(record, "microcode"), from_file(root, f"{CPU}/cpu0/microcode/version")),
    }
    flags = sorted(record.get("flags", record.get("Features", "")).split())
    facts["flags"] = ok(flags, CPUINFO) if flags else absent(CPUINFO, "no flags or Features")
    isa = [flag for flag in flags if ISA.fullmatch(flag)]
    facts["isa"] = ok(isa, CPUINFO) if isa else absent(CPUINFO, "no vector instruction set is named")
    facts |= _topology(root, machine)
    facts["caches"] = _caches(root, machine.online)
    facts |= _clocks(root, record, machine.online)
    facts["mitigations"] = _mitigations(root)
    facts["isolated"] = from_file(root, f"{CPU}/isolated", parse_cpulist, may_be_empty=True)
    facts["nohz_full"] = from_file(root, f"{CPU}/nohz_full", _unless_null, may_be_empty=True)
    hypervisor = detect(root)
    facts["hypervisor"] = ok(hypervisor.name or "none", hypervisor.source)
    if hypervisor.name:
        for name in MASKABLE:
            facts[name] = virtualised(facts[name], "as the hypervisor presents it")
        for name in ("governor", "frequency_driver", "maximum_mhz", "base_mhz", "boost"):
            facts[name] = virtualised(facts[name], "the hypervisor's host decides")
    return facts


def parse_cpuinfo(text: str) -> list[dict[str, str]]:
    """/proc/cpuinfo as one dictionary a processor; Arm's trailing board record (no `processor`) is left out, since it
    carries a serial number."""
    records = []
    for block in re.split(r"\n\s*\n", text):
        pairs = [line.partition(":") for line in block.splitlines() if ":" in line]
        record = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in record:
            record.pop("Serial", None)
            records.append(record)
    return records


def _unless_null(text: str) -> list[int]:
    return [] if text == "(null)" else parse_cpulist(text)  # what the kernel prints for a mask that it never made


def _field(record: dict[str, str], *names: str) -> Fact:
    value = next((record[name] for name in names if record.get(name)), None)
    return ok(value, CPUINFO) if value else absent(CPUINFO, f"no field {' or '.join(names)}")


def _topology(root: Path, machine: topology.Topology) -> Facts:
    cpus = machine.cpus.values()
    source = f"{CPU}/cpu*/topology"
    packages = {cpu.package for cpu in cpus if cpu.package is not None}
    cores = {cpu.core for cpu in cpus}
    kinds = {kind: sum(cpu.kind == kind for cpu in cpus) for kind in ("performance", "efficiency")}
    described = bool(list_names(root, f"{CPU}/cpu{machine.online[0]}/topology"))
    unknown = absent(source, "sysfs does not describe it")
    quota = machine.quota_cpus
    return {
        "online_cpus": ok(len(cpus), f"{CPU}/online"),
        "allowed_cpus": ok(list(machine.allowed), "sched_getaffinity" if root == Path("/") else "cpuset"),
        "sockets": ok(len(packages), source) if packages else unknown,
        "physical_cores": ok(len(cores), source) if described else unknown,
        "threads_per_core": ok(max(len(cpu.siblings) for cpu in cpus), source) if described else unknown,
        "smt_active": first(
            from_file(root, f"{CPU}/smt/active", lambda text: text == "1"),
            ok(len(cores) < len(cpus), source) if described else unknown,
        ),
        "smt_control": from_file(root, f"{CPU}/smt/control"),
        "core_kinds": ok(kinds, source) if any(kinds.values()) else absent(source, "one kind, or not told apart"),
        "quota_cpus": ok(quota, "cgroup") if quota is not None else absent("cgroup", "no CPU quota"),
    }


def _caches(root: Path, online: tuple[int, ...]) -> Fact:
    """Caches by "L1 Data" and so on: size in bytes, CPUs that share one, how many there are."""

    def gather() -> list[dict[str, Any]] | None:
        seen: dict[tuple[str, int, int], set[tuple[int, ...]]] = {}
        for number in online:
            folder = f"{CPU}/cpu{number}/cache"
            for index in list_names(root, folder, r"index\d+"):
                values = {n: read_text(root, f"{folder}/{index}/{n}").text for n in ("level", "type", "size")}
                level, kind, size = values["level"], values["type"], values["size"]
                if not (level and kind and size):
                    continue
                listed = read_text(root, f"{folder}/{index}/shared_cpu_list").text
                mask = read_text(root, f"{folder}/{index}/shared_cpu_map").text
                shared = parse_cpulist(listed) if listed else parse_cpumask(mask) if mask else [number]
                key = (f"L{level} {kind.lower()}", parse_size(size), len(shared))
                seen.setdefault(key, set()).add(tuple(shared))
        rows = [
            {"name": name, "size_bytes": size, "shared_by_cpus": shared, "instances": len(groups)}
            for (name, size, shared), groups in sorted(seen.items())
        ]
        return rows or None

    return call(f"{CPU}/cpu*/cache", gather, "sysfs describes no cache")


def _clocks(root: Path, record: dict[str, str], online: tuple[int, ...]) -> Facts:
    def mhz(text: str) -> float:
        return int(text) / 1000  # cpufreq counts in kHz

    frequency = f"{CPU}/cpu{online[0]}/cpufreq"

    def every(name: str) -> list[str] | None:
        texts = {read_text(root, f"{CPU}/cpu{number}/cpufreq/{name}").text for number in online}
        return sorted(text for text in texts if text) or None

    reported = record.get("cpu MHz")
    return {
        "base_mhz": from_file(root, f"{frequency}/base_frequency", mhz),
        "maximum_mhz": from_file(root, f"{frequency}/cpuinfo_max_freq", mhz),
        "minimum_mhz": from_file(root, f"{frequency}/cpuinfo_min_freq", mhz),
        "clock_reported_mhz": first(
            from_file(root, f"{frequency}/scaling_cur_freq", mhz, "of the first CPU, at the time of reading"),
            call(CPUINFO, lambda: float(reported) if reported else None, "no field cpu MHz"),
        ),
        "governor": call(f"{CPU}/cpu*/cpufreq/scaling_governor", lambda: every("scaling_governor"), "no cpufreq"),
        "frequency_driver": from_file(root, f"{frequency}/scaling_driver"),
        "energy_performance_preference": from_file(root, f"{frequency}/energy_performance_preference"),
        "boost": first(
            from_file(root, f"{CPU}/intel_pstate/no_turbo", lambda text: text == "0"),
            from_file(root, f"{CPU}/cpufreq/boost", lambda text: text == "1"),
        ),
    }


def _mitigations(root: Path) -> Fact:
    folder = f"{CPU}/vulnerabilities"
    texts = {name: read_text(root, f"{folder}/{name}").text for name in list_names(root, folder)}
    known = {name: text for name, text in texts.items() if text}
    return ok(known, folder) if known else absent(folder, "the kernel does not report vulnerabilities")
