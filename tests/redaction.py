"""Looks for what names a machine or a person in every file of a bundle.

Distinctive names are looked for wherever they stand. Short and common ones (a host called "vm", the user "root") stand in
honest texts too, and are looked for where a name stands: behind "user=", before "@", as the value of "host_name".
"""

from __future__ import annotations

import getpass
import gzip
import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from suite.fingerprint.files import OWN_FOLDER

COMMON = {
    "localhost", "localdomain", "debian", "ubuntu", "fedora", "centos", "docker", "podman", "container", "builder",
    "runner", "worker", "server", "machine", "benchmark", "python", "nobody", "jenkins", "gitlab", "github", "speedproof",
}  # fmt: skip
NO_SERIAL = re.compile(r"to be filled|default|not specified|none|serial|asset|unknown|n/?a|0+|x+", re.IGNORECASE)


@dataclass(frozen=True)
class Names:
    """What names one machine and its user."""

    hosts: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    homes: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    macs: list[str] = field(default_factory=list)
    identifiers: list[str] = field(default_factory=list)
    serials: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Needle:
    """One thing to look for, and what it is."""

    kind: str
    pattern: re.Pattern[str]


def of_this_machine() -> Names:
    """Everything that names this machine and whoever runs the tests."""
    # Where the suite lies is the user's own choice, and as telling as a home.
    users, homes = [], [os.environ.get("HOME", ""), OWN_FOLDER]
    with suppress(KeyError, OSError):
        users.append(getpass.getuser())
    with suppress(KeyError):
        entry = pwd.getpwuid(os.getuid())
        users.append(entry.pw_name)
        homes.append(entry.pw_dir)
    addresses, macs = [], []
    for interfaces in psutil.net_if_addrs().values():
        for each in interfaces:
            if each.family in (socket.AF_INET, socket.AF_INET6):
                addresses.append(each.address.partition("%")[0])
            elif each.family == psutil.AF_LINK and set(each.address) - set("0:"):
                macs.append(each.address)
    dmi, disks = "/sys/class/dmi/id", ("sys/class/nvme/*/serial", "sys/block/*/serial", "sys/block/*/device/serial")
    serials = [
        *Path(dmi).glob("*_serial"),
        *Path(dmi).glob("*_tag"),
        *(p for each in disks for p in Path("/").glob(each)),
    ]
    host = socket.gethostname()
    return Names(
        hosts=sorted({host, host.partition(".")[0], socket.getfqdn()} - {""}),
        users=sorted(set(users) - {""}),
        homes=sorted(set(homes) - {"", "/"}),
        addresses=sorted({a for a in addresses if not a.startswith("127.") and a != "::1"}),
        macs=sorted(set(macs)),
        identifiers=_read("/etc/machine-id", "/proc/sys/kernel/random/boot_id", f"{dmi}/product_uuid"),
        serials=[s for s in _read(*map(str, serials)) if len(s) >= 6 and not NO_SERIAL.fullmatch(s.split()[0])],
    )


def _read(*paths: str) -> list[str]:
    found = []
    for path in paths:
        with suppress(OSError, UnicodeDecodeError):
            found.append(Path(path).read_text().strip("\0\n "))
    return sorted({text for text in found if text})


def needles(names: Names) -> list[Needle]:
    """What to look for."""
    found = [Needle("host name", _named(name, _HOST)) for name in names.hosts]
    found += [Needle("user name", _named(name, _USER)) for name in names.users]
    # "/root" is a folder of many trees; a longer home is one person's wherever it stands.
    starts = {home: "" if home.count("/") > 1 else r"(?:(?<![\w/.-])|(?<=-[IL]))" for home in names.homes}
    found += [Needle("home", _pattern(rf"{start}{re.escape(home)}(?![\w-])")) for home, start in starts.items()]
    for address in names.addresses:
        edge = r"[0-9a-f:]" if ":" in address else r"[\d.]"
        found.append(Needle("address", _pattern(rf"(?<!{edge}){re.escape(address)}(?!{edge})")))
    for mac in names.macs:
        pairs = "[:-]?".join(re.split("[:-]", mac))
        found.append(Needle("MAC address", _pattern(rf"(?<![0-9a-f]){pairs}(?![0-9a-f])")))
    for identifier in names.identifiers:
        digits = "-?".join(identifier.replace("-", ""))
        found.append(Needle("identifier", _pattern(digits)))
    return found + [Needle("serial number", _pattern(_whole(serial))) for serial in names.serials]


# Where a name of a host or a user stands when the word itself may be any.
_HOST = (
    r'"?host_?name"?\s*[:=]\s*"?{0}(?![\w-])',
    r'"?(?:node_?name|computer_?name|fqdn|host)"?\s*[:=]\s*"?{0}(?![\w/-])',
    r"\w@{0}(?![\w-])",
    r"//{0}(?![\w-])",
)
_USER = (
    r'"?(?:user(?:_?name)?|logname|login|owner)"?\s*[:=]\s*"?{0}(?![\w-])',
    r"(?<![\w.-]){0}@\w",
    r"(?:/home|/Users)/{0}(?![\w-])",
    r"(?:torchinductor_|pytest-of-|/run/user/){0}(?![\w-])",
)


def _named(name: str, places: tuple[str, ...]) -> re.Pattern[str]:
    if len(name) >= 6 and name.lower() not in COMMON:
        return _pattern(_whole(name))
    return _pattern("|".join(place.format(re.escape(name)) for place in places))


def _whole(text: str) -> str:
    return rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def texts(path: Path) -> Iterator[str]:
    """A file as text, in every way that a reader could see it."""
    content = path.read_bytes()
    yield content.decode("utf-8", errors="replace")
    if path.suffix == ".gz":
        yield gzip.decompress(content).decode("utf-8", errors="replace")
    if path.suffix == ".pdf" and shutil.which("pdftotext"):
        command = ["pdftotext", "-layout", str(path), "-"]
        yield subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stdout
        yield subprocess.run(
            ["pdfinfo", str(path)], capture_output=True, text=True, check=True, errors="replace"
        ).stdout


def leaks(folder: Path, wanted: list[Needle]) -> list[str]:
    """Where something stands that must not: "trace.json.gz: host name: ..."; names of files are looked at too."""
    found = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = str(path.relative_to(folder))
        for text in (name, *texts(path)):
            for needle in wanted:
                if match := needle.pattern.search(text):
                    around = text[max(0, match.start() - 40) : match.end() + 40]
                    found.append(f"{name}: {needle.kind}: {around!r}")
    return found
