"""The processor: model, instruction sets, cores, caches, clocks, idle states, mitigations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import (
    Facts,
    absent,
    call,
    first,
    from_file,
    joined,
    missing,
    ok,
    shown_by_container,
    virtualised,
)
from suite.fingerprint.files import format_cpulist, list_names, parse_cpulist, read_text
from suite.fingerprint.percpu import CPU, per_cpu
from suite.fingerprint.processor import caches, clocks, flags, idle, microarchitecture
from suite.fingerprint.system.virtual import detect
from suite.launch import topology

CPUINFO = "/proc/cpuinfo"
# What a hypervisor presents as it likes, and what it keeps to its host. A guest's flags and model are what its programs
# really have, so these stay as they are.
PRESENTED = (
    "microcode",
    "microarchitecture",
    "sockets",
    "numa_cpus",
    "physical_cores",
    "threads_per_core",
    "smt_active",
    "smt_control",
    "caches",
    "base_mhz",
    "current_mhz",
)
HOSTS = (
    "maximum_mhz",
    "minimum_mhz",
    "allowed_maximum_mhz",
    "allowed_minimum_mhz",
    "governor",
    "frequency_driver",
    "frequency_driver_mode",
    "energy_performance_preference",
    "energy_performance_bias",
    "boost",
    "performance_percent",
    "preferred_cores",
    "idle_driver",
    "idle_governor",
    "idle_maximum_state",
    "idle_states",
)


def read(root: Path = Path("/")) -> Facts:
    """Facts of the processor. Clocks in MHz, cache sizes in bytes, idle latencies in µs. Never raises."""
    records = parse_cpuinfo(read_text(root, CPUINFO).text or "")
    record = next(iter(records.values()), {})
    machine = topology.read(root)
    facts: Facts = _identity(root, records)
    facts["microcode"] = first(
        _field(root, record, "microcode"), per_cpu(root, machine.online, "microcode/version", str)
    )
    facts["microarchitecture"] = _microarchitecture(list(records.values()))
    facts |= _flags(root, record)
    facts |= _topology(root, machine)
    facts["caches"] = caches.read(root, machine.online)
    facts |= clocks.read(root, records, machine.online)
    facts |= idle.read(root, machine.online, _one_of_each_kind(machine))
    facts["mitigations"] = _mitigations(root)
    facts["isolated"] = from_file(root, f"{CPU}/isolated", parse_cpulist, may_be_empty=True)
    facts["nohz_full"] = from_file(root, f"{CPU}/nohz_full", _unless_null, may_be_empty=True)
    hypervisor = detect(root)
    facts["hypervisor"] = ok(hypervisor.name or "none", hypervisor.source)
    if hypervisor.name:
        facts |= {name: virtualised(facts[name], "as the hypervisor presents it") for name in PRESENTED}
        facts |= {name: virtualised(facts[name], "the hypervisor's host decides") for name in HOSTS}
    return facts


def parse_cpuinfo(text: str) -> dict[int, dict[str, str]]:
    """/proc/cpuinfo as one dictionary a processor, by its number; Arm's trailing board record (no `processor`) is left
    out, since it carries a serial number."""
    records = {}
    for block in re.split(r"\n\s*\n", text):
        pairs = [line.partition(":") for line in block.splitlines() if ":" in line]
        record = {key.strip(): value.strip() for key, _, value in pairs}
        number = record.get("processor", "")
        if number.isdigit():
            record.pop("Serial", None)
            records[int(number)] = record
    return records


def _unless_null(text: str) -> list[int]:
    return [] if text == "(null)" else parse_cpulist(text)  # what the kernel prints for a mask that it never made


def _field(root: Path, record: dict[str, str], *names: str) -> Fact:
    value = next((record[name] for name in names if record.get(name)), None)
    if value:
        return shown_by_container(root, CPUINFO, ok(value, CPUINFO))
    return missing(root, CPUINFO, f"no field {' or '.join(names)}")


def _identity(root: Path, records: Mapping[int, dict[str, str]]) -> Facts:
    record = next(iter(records.values()), {})
    parts = microarchitecture.arm_model(list(records.values()))
    named = (
        ok(parts, f"{CPUINFO} CPU part") if parts else absent(f"{CPUINFO} CPU part", "not an Arm part that is known")
    )
    return {
        "model": first(
            _field(root, record, "model name", "Processor", "cpu model"), named, _field(root, record, "cpu")
        ),
        "vendor": _field(root, record, "vendor_id", "CPU implementer"),
        "family": _field(root, record, "cpu family", "CPU architecture"),
        "model_number": _field(root, record, "model", "CPU part"),
        "stepping": _field(root, record, "stepping", "CPU revision", "revision"),
        "address_sizes": _field(root, record, "address sizes", "mmu"),
    }


def _microarchitecture(records: list[dict[str, str]]) -> Fact:
    """The name by the maker's own numbers where it is known, and what archspec makes of the flags, which need not be the same."""
    source = f"{CPUINFO}: family, model and stepping, or part; archspec by the flags"
    record = next(iter(records), {})
    name = microarchitecture.x86_model(record) or microarchitecture.arm_model(records)
    found = call(source, lambda: microarchitecture.identify(record), "archspec does not know the architecture")
    value = {"name": name} if name else {}
    if isinstance(flags := found.value, microarchitecture.Named):
        value |= {"archspec_by_flags": flags.name if flags.specific else "no named part", "generic_level": flags.level}
    if not value:
        return found
    unknown = "" if name else "the name is unknown: family and model, or part, are not in the table of known ones"
    return ok(value, source, joined(unknown, "archspec tells which of its sets of flags fits, and that is no name"))


def _flags(root: Path, record: dict[str, str]) -> Facts:
    names, groups = flags.of_record(record)
    grouped = flags.by_group(names, groups)
    none = missing(root, CPUINFO, "no field flags, Features or isa")
    bugs = record.get("bugs", "").split()
    return {
        "instruction_sets": ok(grouped, CPUINFO) if grouped else none,
        "flags": ok(names, CPUINFO) if names else none,
        "bugs": ok(bugs, CPUINFO) if "bugs" in record else absent(CPUINFO, "no field bugs"),
    }


def _topology(root: Path, machine: topology.Topology) -> Facts:
    cpus = machine.cpus.values()
    source = f"{CPU}/cpu*/topology"
    packages = {cpu.package for cpu in cpus if cpu.package is not None}
    cores = {cpu.core for cpu in cpus}
    kinds = {kind: sum(cpu.kind == kind for cpu in cpus) for kind in ("performance", "efficiency")}
    nodes = {cpu.node for cpu in cpus if cpu.node is not None}
    by_node = {str(node): format_cpulist(cpu.number for cpu in cpus if cpu.node == node) for node in sorted(nodes)}
    described = bool(list_names(root, f"{CPU}/cpu{machine.online[0]}/topology"))
    unknown = missing(root, f"{CPU}/cpu{machine.online[0]}/topology", "sysfs does not describe it", source)
    allowed = "sched_getaffinity" if root == Path("/") else "Cpus_allowed_list, else the cpuset"
    quota = machine.quota_cpus
    return {
        "online_cpus": ok(len(cpus), f"{CPU}/online", joined(*machine.notes)),
        "offline_cpus": from_file(root, f"{CPU}/offline", parse_cpulist, may_be_empty=True),
        "allowed_cpus": ok(list(machine.allowed), allowed),
        "sockets": ok(len(packages), source) if packages else unknown,
        "physical_cores": ok(len(cores), source) if described else unknown,
        "threads_per_core": ok(max(len(cpu.siblings) for cpu in cpus), source) if described else unknown,
        "smt_active": first(
            from_file(root, f"{CPU}/smt/active", lambda text: text == "1"),
            ok(len(cores) < len(cpus), source) if described else unknown,
        ),
        "smt_control": from_file(root, f"{CPU}/smt/control"),
        "numa_cpus": ok(by_node, "/sys/devices/system/node/node*/cpulist")
        if by_node
        else missing(root, topology.NODE_FOLDER, "the kernel describes no NUMA node with CPUs"),
        "core_kinds": ok(kinds, source) if any(kinds.values()) else absent(source, "one kind, or not told apart"),
        "core_capacity": per_cpu(root, machine.online, "cpu_capacity", str, "1024 is the fastest kind of core"),
        "quota_cpus": ok(quota, "cgroup") if quota is not None else absent("cgroup", "no CPU quota"),
    }


def _one_of_each_kind(machine: topology.Topology) -> list[int]:
    lowest: dict[str, int] = {}
    for number in machine.online:
        lowest.setdefault(machine.cpus[number].kind, number)
    return list(lowest.values())


def _mitigations(root: Path) -> Fact:
    folder = f"{CPU}/vulnerabilities"
    texts = {name: read_text(root, f"{folder}/{name}").text for name in list_names(root, folder)}
    known = {name: text for name, text in texts.items() if text}
    return ok(known, folder) if known else missing(root, folder, "the kernel does not report vulnerabilities")
