"""No bundle names the machine or the person that made it; and the search for it finds what is planted."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RealRun
from tests.redaction import Names, leaks, needles, of_this_machine

MADE_UP = Names(
    hosts=["quokka-lab-17", "vm"],
    users=["zebulonquux", "root"],
    homes=["/home/zebulonquux", "/root"],
    addresses=["192.0.2.77", "2001:db8::77"],
    macs=["3c:ec:ef:12:34:56"],
    identifiers=["0f1e2d3c4b5a69788796a5b4c3d2e1f0", "9a3f1c52-7d64-4b0e-8a11-5c2e9f7d3b60"],
    serials=["S4EWNX0R123456"],
)

PLANTED = [
    ("host name", "built on quokka-lab-17 at noon"),
    ("host name", '"host_name": "vm",'),
    ("host name", "ssh someone@vm"),
    ("user name", "zebulonquux"),
    ("user name", "USER=root"),
    ("user name", "root@example"),
    ("user name", "/tmp/torchinductor_root/ab/cd.cpp"),
    ("home", "-I/home/zebulonquux/include"),
    ("home", "/root/.cache/torch"),
    ("home", "-L/root/lib"),
    ("address", "rank 0 at 192.0.2.77:29500"),
    ("address", "[2001:DB8::77]"),
    ("MAC address", "3c-ec-ef-12-34-56"),
    ("MAC address", "3CECEF123456"),
    ("identifier", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"),
    ("identifier", "9a3f1c527d644b0e8a115c2e9f7d3b60"),
    ("serial number", "nvme0: S4EWNX0R123456"),
]

HARMLESS = [
    "/proc/sys/vm/swappiness",
    "vmx svm kvm-clock",
    "the root cause; rootless: no; /proc/self/root; root: the file system",
    "chroot@v1 /rootfs /srv/root.img",
    "version 1192.0.2.77 and 192.0.2.778",
    "12001:db8::779",
    "S4EWNX0R1234567",
]


def test_no_file_of_a_bundle_names_the_machine_or_the_user(real_run: RealRun) -> None:
    assert leaks(real_run.bundle, needles(real_run.names)) == []


def test_the_run_that_is_searched_holds_every_kind_of_file(real_run: RealRun) -> None:
    kinds = {path.suffix for path in real_run.bundle.rglob("*") if path.is_file()}
    assert kinds >= {".json", ".jsonl", ".log", ".html", ".pdf", ".gz", ".txt", ".py"}


def test_this_machine_has_names_that_are_looked_for() -> None:
    names = of_this_machine()
    assert names.hosts and names.users and names.homes
    assert {needle.kind for needle in needles(names)} >= {"host name", "user name", "home"}


@pytest.mark.parametrize(("kind", "text"), PLANTED)
def test_each_kind_of_name_is_found(tmp_path: Path, kind: str, text: str) -> None:
    (tmp_path / "events.jsonl").write_text(json.dumps({"message": "x"}) + "\n" + text + "\n")
    found = leaks(tmp_path, needles(MADE_UP))
    assert any(line.startswith(f"events.jsonl: {kind}: ") for line in found), found


@pytest.mark.parametrize("text", HARMLESS)
def test_honest_texts_are_let_through(tmp_path: Path, text: str) -> None:
    (tmp_path / "fingerprint.json").write_text(text)
    assert leaks(tmp_path, needles(MADE_UP)) == []


def test_names_are_found_in_compressed_traces_and_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(b'{"host_name": "vm"}'))
    (tmp_path / "quokka-lab-17.json").write_text("{}")
    found = leaks(tmp_path, needles(MADE_UP))
    assert [line.partition(":")[0] for line in found] == ["quokka-lab-17.json", "trace.json.gz"]


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext (poppler-utils) is not installed")
def test_names_are_found_in_the_text_of_a_pdf(tmp_path: Path) -> None:
    # As a program of its own: WeasyPrint's libraries stay out of the tests' process.
    code = "import sys, weasyprint; weasyprint.HTML(string='<p>made on quokka-lab-17</p>').write_pdf(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "report.pdf")], check=True, capture_output=True)
    assert b"quokka" not in (tmp_path / "report.pdf").read_bytes()  # compressed, and in a font of its own
    assert any("report.pdf: host name" in line for line in leaks(tmp_path, needles(MADE_UP)))
