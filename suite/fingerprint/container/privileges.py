"""What this process may do: capabilities by name, seccomp, user namespace, limits.

Sources: Linux, include/uapi/linux/capability.h; capabilities(7), user_namespaces(7), getrlimit(2).
"""

from __future__ import annotations

import re
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.facts import Facts, call, from_file, missing, ok
from suite.fingerprint.files import parse_fields, read_text

# In the order of their numbers.
CAPABILITIES = [
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
    "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
    "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
    "sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
    "mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
    "checkpoint_restore",
]  # fmt: skip
SECCOMP = {"0": "off", "1": "strict", "2": "filter"}
STATUS = "/proc/self/status"
UID_MAP = "/proc/self/uid_map"
WHOLE_RANGE = (0, 0, 4294967295)  # the first user namespace maps every id to itself
LIMITS = {
    "Max locked memory": "locked_memory",
    "Max stack size": "stack",
    "Max open files": "open_files",
    "Max address space": "address_space",
    "Max data size": "data",
    "Max processes": "processes",
    "Max cpu time": "cpu_time",
    "Max realtime priority": "realtime_priority",
    "Max nice priority": "nice_priority",
}


def read(root: Path) -> Facts:
    """Facts of this process's rights. Never raises."""
    status = parse_fields(read_text(root, STATUS).text or "")

    def field(name: str) -> str | None:
        return status.get(name)

    def capabilities(name: str) -> Fact:
        source = f"{STATUS} {name}"
        text = field(name)
        fact = call(source, lambda: None if text is None else names(int(text, 16)), "no such field")
        return missing(root, STATUS, fact.note, source) if fact.value is None else fact

    effective = capabilities("CapEff")
    nice = None if effective.value is None else "sys_nice" in effective.value
    return {
        "capabilities": effective,
        "capabilities_bounding": capabilities("CapBnd"),
        # numactl's memory policies need it under docker's own seccomp profile.
        "capability_sys_nice": effective if nice is None else ok(nice, effective.source),
        "seccomp": call(f"{STATUS} Seccomp", lambda: SECCOMP.get(field("Seccomp") or ""), "no such field"),
        "no_new_privileges": call(
            f"{STATUS} NoNewPrivs", lambda: {"0": False, "1": True}.get(field("NoNewPrivs") or ""), "no such field"
        ),
        "security_profile": from_file(root, "/proc/self/attr/current", _profile),
        "user_namespace": from_file(root, UID_MAP, _own_namespace, "True where not all user ids are the machine's"),
        "rootless": from_file(root, UID_MAP, rootless, "True where root here is an ordinary user outside"),
    }


def names(mask: int) -> list[str]:
    """Names of the capabilities in a mask; those that this list does not know by number."""
    return [
        CAPABILITIES[bit] if bit < len(CAPABILITIES) else f"capability_{bit}"
        for bit in range(mask.bit_length())
        if mask >> bit & 1
    ]


def limits(root: Path) -> Facts:
    """Soft and hard limits of this process, as /proc/self/limits writes them (sizes in bytes). Never raises."""
    return {"limits": from_file(root, "/proc/self/limits", parse_limits, "soft and hard; sizes in bytes, times in s")}


def parse_limits(text: str) -> dict[str, list[int | str]]:
    """/proc/self/limits: [soft, hard] by name, "unlimited" where there is none. Raises ValueError when none is found."""
    found: dict[str, list[int | str]] = {}
    for line in text.splitlines():
        match = re.match(r"(Max [a-z A-Z]+?)\s{2,}(\S+)\s+(\S+)", line)
        if match and match[1] in LIMITS:
            found[LIMITS[match[1]]] = [int(part) if part.isdigit() else part for part in match.group(2, 3)]
    if not found:
        raise ValueError("no limit is named")
    return found


def rootless(uid_map: str) -> bool:
    """Whether root in this namespace is an ordinary user outside of it. Raises ValueError on other text."""
    return any(inside <= 0 < inside + count and outside - inside != 0 for inside, outside, count in _ranges(uid_map))


def _own_namespace(uid_map: str) -> bool:
    return _ranges(uid_map) != [WHOLE_RANGE]


def _ranges(uid_map: str) -> list[tuple[int, int, int]]:
    ranges = []
    for line in uid_map.splitlines():
        inside, outside, count = map(int, line.split())
        ranges.append((inside, outside, count))
    return ranges


def _profile(text: str) -> str:
    """AppArmor's or SELinux's label; SELinux's two last parts are a container's own and are left out, and so is what LXD names."""
    if text.startswith(("lxd-", "lxc-")):
        return f"{text[:4]}<removed>"
    parts = text.split(":")
    return ":".join(parts[:3]) if len(parts) >= 4 else text
