"""What NVIDIA's management library says of the driver and of each GPU, as facts.

Everything here takes the library as an argument: the module `pynvml` (nvidia-ml-py), or a recording with its interface
(`suite.fingerprint.gpu.nvml_recorder`). Process ids are only compared with one's own, and neither they nor the names of
processes, serial numbers or raw UUIDs are kept.
"""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec

from suite.bundle.schema import Fact, FactStatus
from suite.fingerprint.facts import Facts, absent, ok
from suite.fingerprint.gpu.nvml_calls import (
    DEVICE_CALLS,
    MEMORY_CALL,
    OLD_MEMORY_CALL,
    SYSTEM_CALLS,
    VIRTUALISATION,
    Call,
    Decode,
    text_of,
)

Nvml = Any
"""`pynvml`, or an object with its interface."""

# NVML's return codes in the reader's words; any other error speaks for itself.
REASONS = {
    2: "not offered by this GPU (invalid argument)",
    3: "not supported by this GPU",
    4: "permission denied",
    6: "not found",
    10: "the driver did not answer in time",
    13: "this driver has no such function",
    15: "the GPU is lost: it has fallen off the bus",
    16: "the GPU has to be reset",
    17: "the operating system or a control group blocks the request",
    26: "no longer told by this driver",
}
NO_PERMISSION = 4
FUNCTION_NOT_FOUND = 13

REMOTE_KINDS = {0: "GPU", 1: "IBM NPU", 2: "switch"}
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
NVLINK_FACTS = ("nvlink_links", "nvlink_active", "nvlink_version", "nvlink_remote", "nvlink_speed_mb_per_s")
FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}


def read(nvml: Nvml) -> Facts | int:
    """The facts of the driver and of every GPU ("gpu 0 name"), or NVML's return code when it cannot be started.

    Starts NVML and always ends it; never raises. "count" is how many GPUs NVML lets this process see.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return int(error.value)
    try:
        return _read_all(nvml)
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _read_all(nvml: Nvml) -> Facts:
    facts = ask(nvml, Call("nvmlDeviceGetCount", (), {"count": int}))
    for call in SYSTEM_CALLS:
        facts |= ask(nvml, call)
    for index in range(facts["count"].value or 0):
        handle = value_of(nvml, "nvmlDeviceGetHandleByIndex", index)
        found = _device(nvml, handle.value) if handle.status == "ok" else {"name": handle}
        facts |= {f"gpu {index} {name}": fact for name, fact in found.items()}
    return facts


def _device(nvml: Nvml, handle: Any) -> Facts:
    facts: Facts = {}
    for call in DEVICE_CALLS:
        facts |= ask(nvml, call, handle)
    memory = ask(nvml, MEMORY_CALL, handle)
    if memory["memory_total_bytes"].status != "ok":
        memory |= ask(nvml, OLD_MEMORY_CALL, handle)
    facts |= memory
    facts |= _link_at_rest(facts)
    facts["mig_instances"] = _instances(nvml, handle, facts["mig"])
    facts |= _links(nvml, handle)
    facts["fabric_state"] = _fabric(nvml, handle)
    facts |= _processes(nvml, handle)
    if facts["virtualisation"].value != VIRTUALISATION[2]:
        return facts
    given = {name: fact for name, fact in facts.items() if fact.status == "ok"}
    replaced = {"status": "virtualised", "note": "as the host of the virtual GPU presents it"}
    return facts | {name: msgspec.structs.replace(fact, **replaced) for name, fact in given.items()}


def ask(nvml: Nvml, call: Call, *before: Any) -> Facts:
    """The facts of one call; later functions are tried where the driver or nvidia-ml-py lacks those before them."""
    missing = absent("NVML")
    for function in call.functions.split():
        source = f"NVML {function}"
        try:
            arguments = [getattr(nvml, each) if isinstance(each, str) else each for each in call.arguments]
            answer = getattr(nvml, function)(*before, *arguments)
        except AttributeError:
            missing = absent(source, "nvidia-ml-py has no such function")
        except nvml.NVMLError as error:
            missing = refused(source, int(error.value), str(error))
            if error.value != FUNCTION_NOT_FOUND:
                break
        except Exception as error:  # a binding that does not fit its driver must not cost the run
            missing = absent(source, f"{type(error).__name__}: {error}")
            break
        else:
            return {name: _decoded(source, answer, decode) for name, decode in call.facts.items()}
    return dict.fromkeys(call.facts, missing)


def value_of(nvml: Nvml, function: str, *arguments: Any) -> Fact:
    """One call's answer as it is, as a fact."""
    return ask(nvml, Call(function, (), {"value": lambda answer: answer}), *arguments)["value"]


def refused(source: str, code: int, message: str) -> Fact:
    """The fact that NVML refuses with a return code."""
    status: FactStatus = "denied" if code == NO_PERMISSION else "absent"
    return Fact(value=None, source=source, status=status, note=REASONS.get(code, message))


def _decoded(source: str, answer: Any, decode: Decode) -> Fact:
    try:
        value = decode(answer)
    except Exception as error:  # a struct of another version
        return absent(source, f"not understood: {type(error).__name__}: {error}")
    return absent(source, "NVML gives none") if value is None else ok(value, source)


def _instances(nvml: Nvml, handle: Any, mode: Fact) -> Fact:
    """Sizes of the MIG instances that exist, when MIG is on."""
    source = "NVML nvmlDeviceGetMigDeviceHandleByIndex"
    if not mode.value:
        return absent(source, mode.note or "MIG is off")
    most = value_of(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle).value or 0
    found = [value_of(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number) for number in range(most)]
    rows = []
    for instance in (fact.value for fact in found if fact.status == "ok"):
        attributes = value_of(nvml, "nvmlDeviceGetAttributes", instance).value
        rows.append(
            {
                "name": text_of(value_of(nvml, "nvmlDeviceGetName", instance).value or "unnamed"),
                "multiprocessors": int(attributes.multiprocessorCount) if attributes is not None else "unknown",
                "memory_bytes": int(attributes.memorySizeMB) << 20 if attributes is not None else "unknown",
            }
        )
    return ok(rows, source) if rows else absent(source, "MIG is on, and no instance is visible")


AT_REST = "read at rest, when a link may train down; what it is under load is read while the GPU works"


def _link_at_rest(facts: Facts) -> Facts:
    """The PCIe link's facts, with a note where the GPU had no work: then they do not tell what a copy finds."""
    reasons, busy = facts["clock_event_reasons"], facts["utilisation_percent"]
    rests = "GPU idle" in reasons.value if reasons.value is not None else busy.value == 0
    link = {name: facts[name] for name in ("pcie_generation", "pcie_width") if facts[name].status == "ok"}
    return {name: msgspec.structs.replace(fact, note=AT_REST) for name, fact in link.items()} if rests else {}


def _links(nvml: Nvml, handle: Any) -> Facts:
    """NVLink: how many links there are, how many are up, and the versions and other ends of those that are."""
    function = "nvmlDeviceGetNvLinkState"
    states = [value_of(nvml, function, handle, link) for link in range(nvml.NVML_NVLINK_MAX_LINKS)]
    known = [link for link, state in enumerate(states) if state.status == "ok"]
    if not known:
        return dict.fromkeys(NVLINK_FACTS, states[0])
    up = [link for link in known if states[link].value]
    down = absent(f"NVML {function}", "no link is up")
    versions = [value_of(nvml, "nvmlDeviceGetNvLinkVersion", handle, link) for link in up] or [down]
    remotes = [value_of(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) for link in up] or [down]
    numbers = sorted({NVLINK_VERSIONS.get(fact.value, str(fact.value)) for fact in versions if fact.status == "ok"})
    kinds = Counter(REMOTE_KINDS.get(fact.value, "unknown") for fact in remotes if fact.status == "ok")
    return {
        "nvlink_links": ok(len(known), f"NVML {function}"),
        "nvlink_active": ok(len(up), f"NVML {function}"),
        "nvlink_version": ok(", ".join(numbers), versions[0].source) if numbers else versions[0],
        "nvlink_remote": ok(dict(kinds), remotes[0].source) if kinds else remotes[0],
        "nvlink_speed_mb_per_s": _link_speed(nvml, handle),
    }


def _link_speed(nvml: Nvml, handle: Any) -> Fact:
    """Speed of one link in MB/s, from the field that all links share."""
    source = "NVML NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON"
    answer = value_of(nvml, "nvmlDeviceGetFieldValues", handle, [nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON])
    if answer.status != "ok":
        return answer
    field = answer.value[0]
    if field.nvmlReturn:
        return refused(source, int(field.nvmlReturn), f"NVML's return code {field.nvmlReturn}")
    return ok(int(field.value.uiVal), source) if field.value.uiVal else absent(source, "NVML gives none")


def _fabric(nvml: Nvml, handle: Any) -> Fact:
    """Whether the GPU has joined its NVSwitch fabric; the cluster's UUID stays where it is."""
    source = "NVML nvmlDeviceGetGpuFabricInfoV"
    try:
        info = nvml.c_nvmlGpuFabricInfo_v2_t()
    except AttributeError:
        return absent(source, "nvidia-ml-py has no such function")
    answer = value_of(nvml, "nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    if answer.status != "ok":
        return answer
    failed = f", with return code {info.status}" if info.state == 3 and info.status else ""
    return ok(FABRIC_STATES.get(info.state, f"unknown ({info.state})") + failed, source)


def _processes(nvml: Nvml, handle: Any) -> Facts:
    """How many other processes use the GPU and what memory those that compute hold; nothing that names one."""
    facts: Facts = {}
    for name in ("compute", "graphics"):
        answer = value_of(nvml, f"nvmlDeviceGet{name.capitalize()}RunningProcesses", handle)
        others = [process for process in answer.value or () if process.pid != os.getpid()]
        facts[f"other_{name}_processes"] = ok(len(others), answer.source) if answer.status == "ok" else answer
        if name == "compute":
            sizes = [process.usedGpuMemory for process in others if process.usedGpuMemory is not None]
            hidden = absent(answer.source, "the driver does not say") if answer.status == "ok" else answer
            told = answer.status == "ok" and len(sizes) == len(others)
            facts["other_compute_memory_bytes"] = ok(sum(sizes), answer.source) if told else hidden
    return facts
