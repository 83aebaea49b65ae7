"""The operating system and board: kernel, its command line without identifiers, timers, scheduler, firmware without serials."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, absent, call, first, from_file, missing, ok, virtualised
from suite.fingerprint.files import list_names, read_text, selected, under
from suite.fingerprint.system import commandline, kernel_config
from suite.fingerprint.system.virtual import detect

DMI = "/sys/class/dmi/id"
# The DMI files that name a model. Serial numbers, UUIDs and asset tags (EC2 puts its instance id there) are never read.
DMI_FILES = (
    "sys_vendor",
    "product_name",
    "product_family",
    "board_vendor",
    "board_name",
    "bios_vendor",
    "bios_version",
    "bios_release",
    "bios_date",
)
SYSCTL = "/proc/sys/kernel"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"
SCHED = "/sys/kernel/debug/sched"
# Scheduler settings as sysctls (kernels before 5.13, and some still) or in debugfs.
SCHEDULER_SETTINGS = (
    "sched_min_granularity_ns",
    "sched_wakeup_granularity_ns",
    "sched_migration_cost_ns",
    "sched_latency_ns",
    "sched_rt_runtime_us",
    "sched_energy_aware",
    "sched_child_runs_first",
)
DEBUG_SETTINGS = ("base_slice_ns", "min_granularity_ns", "migration_cost_ns", "latency_ns", "tunable_scaling")


def read(root: Path = Path("/")) -> Facts:
    """Facts of the operating system, the kernel and the board. Never raises."""
    live = root == Path("/")
    elsewhere = absent("uname", "a recorded tree does not hold it")
    facts: Facts = {
        "os": _os_release(root),
        "kernel": first(
            from_file(root, f"{SYSCTL}/osrelease"),
            from_file(root, "/proc/version", lambda text: text.split()[2]),
        ),
        "kernel_build": from_file(root, f"{SYSCTL}/version"),
        "kernel_config": kernel_config.read(root),
        "architecture": ok(os.uname().machine, "uname") if live else elsewhere,
        "libc": call("confstr CS_GNU_LIBC_VERSION", lambda: os.confstr("CS_GNU_LIBC_VERSION")) if live else elsewhere,
        "command_line": _command_line(root),
        "address_space_randomisation": from_file(root, f"{SYSCTL}/randomize_va_space", int, "2 is full"),
        **_timers(root),
        **_scheduler(root),
        "numa_balancing": from_file(root, f"{SYSCTL}/numa_balancing", int),
        "perf_event_paranoid": from_file(root, f"{SYSCTL}/perf_event_paranoid", int),
        "nmi_watchdog": from_file(root, f"{SYSCTL}/nmi_watchdog", int),
        "lockdown": from_file(root, "/sys/kernel/security/lockdown", selected),
        "security_modules": from_file(root, "/sys/kernel/security/lsm", lambda text: text.split(",")),
        "kernel_tainted": from_file(root, f"{SYSCTL}/tainted", int, "0 is not at all"),
        "firmware": _firmware(root),
    }
    return facts | _board(root)


def _board(root: Path) -> Facts:
    facts = {name: from_file(root, f"{DMI}/{name}", str.strip) for name in DMI_FILES}
    if facts["product_name"].value is None:
        tree = from_file(root, "/proc/device-tree/model")  # Arm boards without ACPI
        facts["product_name"] = first(facts["product_name"], tree) if tree.value else facts["product_name"]
    if detect(root).name:
        return {name: virtualised(fact, "the hypervisor writes it") for name, fact in facts.items()}
    return facts


def _firmware(root: Path) -> Fact:
    for path, name in (
        ("/sys/firmware/efi", "UEFI"),
        ("/proc/device-tree", "device tree"),
        ("/sys/firmware/acpi", "BIOS, ACPI"),
    ):
        try:
            if under(root, path).is_dir():
                return ok(name, path)
        except OSError:
            continue
    return missing(root, "/sys/firmware/efi", "neither UEFI, ACPI nor a device tree is shown", "/sys/firmware")


def _timers(root: Path) -> Facts:
    event = "/sys/devices/system/clockevents"
    return {
        "clocksource": from_file(root, f"{CLOCKSOURCE}/current_clocksource"),
        "clocksources_available": from_file(root, f"{CLOCKSOURCE}/available_clocksource", str.split),
        "tick_device": from_file(root, f"{event}/clockevent0/current_device"),
        "tick_broadcast_device": from_file(root, f"{event}/broadcast/current_device"),
        "timer_migration": from_file(root, f"{SYSCTL}/timer_migration", int),
    }


def _scheduler(root: Path) -> Facts:
    sysctls = {name: read_text(root, f"{SYSCTL}/{name}").text or "" for name in SCHEDULER_SETTINGS}
    debug = {f"sched_{name}": read_text(root, f"{SCHED}/{name}").text or "" for name in DEBUG_SETTINGS}
    known = {name: int(text) for name, text in {**debug, **sysctls}.items() if text.lstrip("-").isdigit()}
    return {
        "scheduler_autogroup": from_file(root, f"{SYSCTL}/sched_autogroup_enabled", int),
        "scheduler_settings": ok(known, f"{SYSCTL}/sched_*, {SCHED}")
        if known
        else missing(root, f"{SYSCTL}/sched_rt_runtime_us", "the kernel shows none", f"{SYSCTL}/sched_*"),
        "scheduler_features": _debug(root, "features", str.split),
        "scheduler_preemption": _debug(root, "preempt", _parenthesised),
        "scheduler_extension": from_file(root, "/sys/kernel/sched_ext/state"),
        "interrupt_affinity": from_file(root, "/proc/irq/default_smp_affinity"),
        "workqueue_cpus": from_file(root, "/sys/devices/virtual/workqueue/cpumask"),
    }


def _debug(root: Path, name: str, parse: Callable[[str], object]) -> Fact:
    fact = from_file(root, f"{SCHED}/{name}", parse)
    if fact.status == "absent" and not list_names(root, "/sys/kernel/debug"):
        return msgspec.structs.replace(fact, note="debugfs is not mounted")
    return fact


def _parenthesised(text: str) -> str:
    """The choice in "none voluntary (full) lazy". Raises ValueError."""
    return selected(text.replace("(", "[").replace(")", "]"))


def _command_line(root: Path) -> Fact:
    fact = from_file(root, "/proc/cmdline", commandline.redact)
    # That is our own choice and no mask of the container's: the fact stays as read.
    return msgspec.structs.replace(fact, note=commandline.NOTE) if commandline.REMOVED in str(fact.value) else fact


def _os_release(root: Path) -> Fact:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        pairs = [line.partition("=") for line in (read_text(root, path).text or "").splitlines() if "=" in line]
        fields = {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
        name = fields.get("PRETTY_NAME") or " ".join(filter(None, (fields.get("NAME"), fields.get("VERSION"))))
        if name:
            return ok(name, path)
    return absent("/etc/os-release", "no such file, or it names no system")
