"""Salted identities: tell machines, boots and GPUs apart without naming them.

An identity is 16 hexadecimal digits of SHA-256 over a fixed salt of the suite and a stable identifier that never leaves
this module. What guards it against guessing depends on the identifier:

- Random UUIDs (GPU, boot, machine-id: 122 bits) cannot be guessed.
- DMI's product UUID may hold a serial number (Dell's encode the service tag, some 36 bits): PBKDF2 makes a guess cost
  200,000 hashes instead of one.
- MAC addresses and disk serials have little entropy, which no hash mends. They are folded to 20 bits first: two machines
  of one kind differ with a probability of 1 - 10^-6, and what could be guessed fits hundreds of millions of addresses.

Identities of different sources cannot be compared, so each has a fact of its own beside the best one.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from pathlib import Path

from suite.bundle.schema import Fact
from suite.fingerprint.container import engine as container
from suite.fingerprint.facts import Facts, absent, ok
from suite.fingerprint.files import Text, list_names, parse_fields, read_text, under
from suite.fingerprint.system import virtual
from suite.launch import topology

SALT = "speedproof machine identity 1"
DIGITS = 16
ROUNDS = 200_000
FOLDED_DIGITS = 5

PRODUCT_UUID = "/sys/class/dmi/id/product_uuid"
MACHINE_ID = "/etc/machine-id"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
DMI = "/sys/class/dmi/id"
HARDWARE = f"CPU model, cores, memory, {DMI}, /sys/class/net, /sys/class/nvme"

# UUIDs that board vendors left in by the thousand, beside those of one repeated digit or byte.
PLACEHOLDERS = {
    "03000200-0400-0500-0006-000700080009",
    "00020003-0004-0005-0006-000700080009",
    "12345678-1234-5678-90ab-cddeefaabbcc",
    "11111111-2222-3333-4444-555555555555",
    "4c4c4544-0000-2010-8020-80c04f202020",  # Dell, without a service tag
}
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)


def read(root: Path = Path("/")) -> Facts:
    """Salted identities of the machine (and of this boot of it), each by its source; never raises.

    "machine_id" is the best there is: its status is ok when it is of this machine alone, virtualised when it is of a
    virtual machine (or of the image that it was made from), masked when equal machines may share it.
    """
    contained = str(container.detect(root).value)
    hypervisor = virtual.detect(root).name
    product = _by_product(_identifier(root, PRODUCT_UUID), hypervisor)
    host = _by_machine_id(root, contained, hypervisor)
    known = next((fact for fact in (product, host) if fact.value is not None), None)
    # Published only when it has to be: the less is derived from addresses and serials, the better.
    unused = absent(HARDWARE, "not used: a better source is readable")
    hardware = unused if known else _by_hardware(root, contained, hypervisor)
    return {
        "machine_id": known or hardware,
        "id_by_product_uuid": product,
        "id_by_machine_id": host,
        "id_by_hardware": hardware,
        "boot": _boot(root),
    }


def salted(kind: str, text: str) -> str:
    """16 hexadecimal digits for an identifier with enough entropy of its own (a random UUID)."""
    return hashlib.sha256(f"{SALT}\0{kind}\0{text.strip().lower()}".encode()).hexdigest()[:DIGITS]


def stretched(kind: str, text: str) -> str:
    """16 hexadecimal digits for an identifier that could be guessed with patience; takes some 0.1 s."""
    salt = f"{SALT}\0{kind}".encode()
    return hashlib.pbkdf2_hmac("sha256", text.strip().lower().encode(), salt, ROUNDS).hex()[:DIGITS]


def gpu_identity(uuid_text: str) -> str:
    """16 hexadecimal digits for a GPU's UUID, with or without its prefix ("GPU-", "MIG-")."""
    match = UUID.search(uuid_text)
    return salted("gpu", match[0] if match else uuid_text)


def redact_uuids(text: str) -> str:
    """`text` with every UUID salted, as in CUDA_VISIBLE_DEVICES="GPU-4f1c...": "GPU-salted-0123456789abcdef"."""
    return UUID.sub(lambda match: f"salted-{gpu_identity(match[0])}", text)


def _identifier(root: Path, path: str) -> Text:
    """One identifier's file. A link that leads out of a recorded tree would name the live machine, and is not followed."""
    try:
        if root != Path("/") and not under(root, path).resolve().is_relative_to(root.resolve()):
            return Text(None, "absent", path, "a link out of the recorded tree")
    except (OSError, RuntimeError) as error:
        return Text(None, "absent", path, f"cannot be read: {type(error).__name__}")
    return read_text(root, path)


def _missing(read: Text, note: str = "") -> Fact:
    return Fact(value=None, source=read.source, status=read.status, note="; ".join(filter(None, (read.reason, note))))


def _by_product(read: Text, hypervisor: str | None) -> Fact:
    if read.text is None:
        return _missing(read, "only root may read it" if read.status == "denied" else "")
    try:
        value = str(uuid.UUID(read.text))
    except ValueError:
        return absent(PRODUCT_UUID, "not a UUID")
    if value in PLACEHOLDERS or len(set(value.replace("-", ""))) <= 2:
        return absent(PRODUCT_UUID, "a placeholder that many machines share")
    identity = stretched("product uuid", value)
    if hypervisor:
        return Fact(value=identity, source=PRODUCT_UUID, status="virtualised", note="of the virtual machine")
    return ok(identity, PRODUCT_UUID)


def _by_machine_id(root: Path, contained: str, hypervisor: str | None) -> Fact:
    if contained != "none" and not _is_the_hosts(_identifier(root, "/proc/self/mountinfo").text or ""):
        # An image's file is the same in every container made from it; podman writes one of its own.
        note = f"in a container ({contained}) it is not the host's; mount the host's read-only to use it"
        return Fact(value=None, source=MACHINE_ID, status="masked", note=note)
    read = _identifier(root, MACHINE_ID)
    if read.text is None:
        return _missing(read)
    if not re.fullmatch(r"[0-9a-f]{32}", read.text) or len(set(read.text)) == 1:
        return absent(MACHINE_ID, "empty, uninitialised or not a machine id")
    identity = salted("machine-id", read.text)
    if hypervisor:
        note = "of the virtual machine; clones of one image may share it"
        return Fact(value=identity, source=MACHINE_ID, status="virtualised", note=note)
    return ok(identity, MACHINE_ID, "of the installed system: it changes when the system is installed again")


def _is_the_hosts(mountinfo: str) -> bool:
    """Whether the host's own file is mounted over /etc/machine-id. Source: proc_pid_mountinfo(5), fields 4 and 5."""
    fields = (line.split() for line in mountinfo.splitlines())
    return any(len(f) > 4 and f[4] == MACHINE_ID and f[3].endswith(MACHINE_ID) for f in fields)


def _by_hardware(root: Path, contained: str, hypervisor: str | None) -> Fact:
    """What machines of one kind share, and what tells them apart where it is readable: addresses and serials, folded."""
    cpuinfo = parse_fields(read_text(root, "/proc/cpuinfo").text or "")
    kilobytes = parse_fields(read_text(root, "/proc/meminfo").text or "").get("MemTotal", "").split()
    machine = topology.read(root)
    # In whole GiB: the kernel's own share of memory differs from version to version.
    memory = round(int(kilobytes[0]) / (1 << 20)) if kilobytes and kilobytes[0].isdigit() else 0
    board = [read_text(root, f"{DMI}/{name}").text or "" for name in ("sys_vendor", "product_name", "board_name")]
    model = next((cpuinfo[name] for name in ("model name", "cpu model", "Processor", "cpu") if cpuinfo.get(name)), "")
    distinct = sorted({*_mac_addresses(root), *_disk_serials(root)})
    parts = [model, str(len({cpu.core for cpu in machine.cpus.values()})), str(memory), *board, folded(distinct)]
    if not (model or memory or distinct):
        return absent(HARDWARE, "nothing of the machine is readable")
    identity = stretched("hardware", "\0".join(parts))
    if not distinct:
        where = f"in a container ({contained})" if contained != "none" else "here"
        note = (
            f"no address of a network card and no disk serial is readable {where}: equal machines share this identity"
        )
        return Fact(value=identity, source=HARDWARE, status="masked", note=note)
    if hypervisor:
        return Fact(value=identity, source=HARDWARE, status="virtualised", note="of the virtual machine")
    return ok(identity, HARDWARE, "it changes when cards, disks or memory are exchanged")


def folded(identifiers: list[str]) -> str:
    """20 bits of low-entropy identifiers: so few that none of them can be found out, even by trying all."""
    return hashlib.sha256("\0".join([SALT, *identifiers]).encode()).hexdigest()[:FOLDED_DIGITS] if identifiers else ""


def _mac_addresses(root: Path) -> list[str]:
    """Permanent addresses of cards on a bus; bridges, tunnels and containers' ends have none."""
    folder = "/sys/class/net"
    found = []
    for name in list_names(root, folder):
        on_a_bus = under(root, f"{folder}/{name}/device").is_dir()
        # 0 is the card's own address; others were made up at random, stolen or set by hand (Documentation/ABI, net).
        if on_a_bus and read_text(root, f"{folder}/{name}/addr_assign_type").text in ("0", None):
            address = (_identifier(root, f"{folder}/{name}/address").text or "").lower()
            if re.fullmatch(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", address) and set(address) - {"0", ":"}:
                found.append(address)
    return found


def _disk_serials(root: Path) -> list[str]:
    folder = "/sys/class/nvme"
    texts = (_identifier(root, f"{folder}/{name}/serial").text for name in list_names(root, folder, r"nvme\d+"))
    return [text.strip() for text in texts if text and text.strip()]


def _boot(root: Path) -> Fact:
    read = _identifier(root, BOOT_ID)
    if read.text is None:
        return _missing(read)
    if not UUID.fullmatch(read.text):
        return absent(BOOT_ID, "not a UUID")
    return ok(salted("boot", read.text), BOOT_ID, "the same in every run until the machine is started again")
