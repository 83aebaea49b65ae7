"""Threads and memory: where they were asked to be, and where they were seen."""

from __future__ import annotations

import re

from suite.bundle.schema import Effective
from suite.fingerprint.files import format_cpulist, parse_cpulist
from suite.launch import meaning
from suite.launch.command import Requested
from suite.launch.seen import Seen, Status, process_of

# Under a binding all private memory comes from the nodes asked for. What is allowed for: pages that another process shares.
MOST_ELSEWHERE = 0.01
SHRUNK = "KMP_AFFINITY without `reset,` left the primary thread and all children one CPU (pytorch#136307)"
TASKS = "/proc/self/task/*/status"


def affinity(request: Requested, effective: Effective) -> Seen:
    """`cpu_affinity`: the process's own mask is what was asked for, and no thread may run elsewhere."""
    value, proof = format_cpulist(effective.affinity), f"sched_getaffinity in {process_of(effective)}"
    asked, own = set(numbers(request.value)), set(effective.affinity)
    if effective.affinities:
        total = sum(effective.affinities.values())
        outside = outside_of(request.value, effective)
        proof += f"; {total - sum(outside.values())} of {total} threads may use only CPUs {request.value} ({TASKS})"
    else:
        outside = {}
    if own == asked and not outside:
        return value, "in force", proof, ""
    notes = [SHRUNK] if shrunk(effective) else []
    notes += [f"{count} thread{'s' if count > 1 else ''} may use CPUs {cpus}" for cpus, count in outside.items()]
    return value, "not in force", proof, "; ".join(notes)


def shrunk(effective: Effective) -> bool:
    """Whether binding by KMP_AFFINITY has left the primary thread one CPU of those that the process was given."""
    value = effective.environment.get("KMP_AFFINITY", "")
    return len(effective.affinity) == 1 and bool(value) and not meaning.resets(value)


def outside_of(cpulist: str, effective: Effective) -> dict[str, int]:
    """The threads that may run on another CPU than those of a list, counted by what they may use."""
    asked = set(numbers(cpulist))
    return {cpus: count for cpus, count in effective.affinities.items() if not set(numbers(cpus)) <= asked}


def memory(request: Requested, effective: Effective) -> Seen:
    """`memory_nodes`: the policy binds to the nodes asked for, or no other node may be used; and the pages lie there.

    numactl -m sets the policy and leaves Mems_allowed_list as it is, so the policy is the better proof.
    """
    asked, process = set(numbers(request.value)), process_of(effective)
    policy, allowed = effective.runtime.get("memory.policy"), effective.memory_nodes
    only = bool(allowed) and set(numbers(allowed)) <= asked
    share = share_elsewhere(request.value, effective)
    proof, note = f"/proc/self/numa_maps of {process}", ""
    status: Status
    binding = re.fullmatch(r"bind(?:=\w+)*:([\d,-]+)", policy or "")
    value = policy or allowed or None
    if binding is not None:
        status = "in force" if set(numbers(binding[1])) <= asked else "not in force"
    elif only:
        status, note = "in force", "no other node may be used"
        proof = f"Mems_allowed_list in /proc/self/status of {process}"
    elif policy is None:
        return (
            value,
            "unknown",
            f"Mems_allowed_list in /proc/self/status of {process}",
            "it does not show a memory policy",
        )
    else:
        status = "not in force"
    if share is None:
        return value, status, proof, note or effective.runtime.get("memory.place_unknown", "")
    total = sum(effective.memory_bytes_by_node.values())
    proof += f"; {100 * (1 - share):.4g} % of {total / 1e6:.4g} MB private memory on node {request.value}"
    if share > MOST_ELSEWHERE:
        elsewhere = [node for node in effective.memory_bytes_by_node if int(node) not in asked]
        return value, "not in force", proof, f"{100 * share:.3g} % of the memory is on node {', '.join(elsewhere)}"
    return value, status, proof, note


def share_elsewhere(nodes: str, effective: Effective) -> float | None:
    """The fraction of private memory on other nodes than those of a list; None when it is not known where memory is."""
    sizes = effective.memory_bytes_by_node
    asked = set(numbers(nodes))
    total = sum(sizes.values())
    return sum(size for node, size in sizes.items() if int(node) not in asked) / total if total else None


def numbers(cpulist: str) -> list[int]:
    """A CPU or node list; empty for what is none."""
    try:
        return parse_cpulist(cpulist)
    except ValueError:
        return []
