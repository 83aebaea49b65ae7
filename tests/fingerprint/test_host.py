"""The host collector: what it writes, what a run takes from it, and what it refuses."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from suite.bundle.errors import BundleError
from suite.bundle.schema import Fact, FactStatus
from suite.fingerprint import collect as collecting
from suite.fingerprint import host, identity
from suite.fingerprint.facts import Facts
from suite.fingerprint.gpu import devices as gpu
from tests.fingerprint.trees import write_tree

BOOT = "0123456789abcdef"
AT = "2026-03-01T10:00:00.000Z"


def fact(value: object, status: FactStatus = "ok", note: str = "") -> Fact:
    return Fact(value=value, source="/somewhere", status=status, note=note)


def inside(**changes: Fact | None) -> dict[str, Facts]:
    """What a container sees; a name is "subject__fact", and None takes a fact away."""
    facts: dict[str, Facts] = {
        "cpu": {"model": fact("EPYC"), "governor": fact(None, "masked", "hidden")},
        "memory": {"total_bytes": fact(1 << 36), "dimms": fact(None, "denied", "only root")},
        "system": {"kernel": fact("6.1"), "os": fact("Debian 12"), "board_name": fact(None, "absent", "no such file")},
        "identity": {"boot": fact(BOOT), "machine_id": fact("f" * 16, "masked", "shared")},
        "gpu": {"count": fact(0), "other_accelerators": fact(None, "absent", "no PCI bus")},
        "container": {"engine": fact(None, "absent", "not handed in")},
    }
    return changed(facts, changes)


def document(as_root: bool = True, **changes: Fact | None) -> host.HostFingerprint:
    facts: dict[str, Facts] = {
        "cpu": {"model": fact("EPYC"), "governor": fact(["performance"]), "allowed_cpus": fact([0])},
        "memory": {"total_bytes": fact(1 << 36), "dimms": fact(["16 x 32 GiB"])},
        "system": {"kernel": fact("6.1"), "os": fact("Ubuntu"), "board_name": fact("X11DPU")},
        "identity": {"boot": fact(BOOT), "machine_id": fact("a" * 16)},
        "gpu": {"count": fact(8), "other_accelerators": fact(["none"])},
        "container": {"engine": fact("docker")},
    }
    boot = changes.pop("boot", fact(BOOT))
    return host.HostFingerprint(
        format=host.FORMAT,
        schema_version=host.VERSION,
        collected_at=AT,
        boot=boot.value if boot else "",
        as_root=as_root,
        facts=changed(facts, changes),
    )


def changed(facts: dict[str, Facts], changes: dict[str, Fact | None]) -> dict[str, Facts]:
    for name, new in changes.items():
        subject, _, key = name.partition("__")
        if new is None:
            facts[subject].pop(key)
        else:
            facts[subject][key] = new
    return facts


def test_what_is_masked_absent_or_denied_inside_is_filled_and_says_from_where() -> None:
    facts = host.merge(inside(), document())
    assert facts["cpu"]["governor"] == Fact(value=["performance"], source="host collector: /somewhere", status="ok")
    assert facts["memory"]["dimms"].value == ["16 x 32 GiB"]
    assert facts["system"]["board_name"].value == "X11DPU"
    assert facts["identity"]["machine_id"].value == "a" * 16
    told = ["cpu governor", "memory dimms", "system board_name", "identity machine_id"]
    assert facts["host_collector"]["filled"].value == told
    assert facts["host_collector"]["collected_at"].value == AT


def test_what_is_seen_inside_stays() -> None:
    before = inside()
    facts = host.merge(before, document(cpu__model=fact("EPYC"), system__os=fact("Ubuntu")))
    assert facts["cpu"]["model"].source == "/somewhere"
    assert facts["system"]["os"].value == "Debian 12"
    assert before == inside()  # the caller's facts are not changed


def test_what_is_the_containers_own_is_never_taken_from_the_host() -> None:
    facts = host.merge(inside(), document())
    assert "allowed_cpus" not in facts["cpu"]
    assert facts["container"]["engine"].value is None


def test_gpus_are_taken_only_where_the_container_sees_none_of_its_own() -> None:
    seen = host.merge(inside(), document(gpu__name=fact("A100")))
    assert seen["gpu"]["count"].value == 0 and "name" not in seen["gpu"]
    hidden = inside(gpu__count=fact(None, "masked", "no /dev/nvidiactl"))
    filled = host.merge(hidden, document(**{"gpu__gpu 0 name": fact("A100")}))
    assert (filled["gpu"]["count"].value, filled["gpu"]["gpu 0 name"].value) == (8, "A100")


def test_what_the_collector_could_not_read_either_fills_nothing() -> None:
    facts = host.merge(inside(), document(memory__dimms=fact(None, "denied"), cpu__governor=fact("x", "masked")))
    assert facts["memory"]["dimms"].note == "only root"
    assert facts["cpu"]["governor"].note == "hidden"


@pytest.mark.parametrize(
    ("here", "there", "reason"),
    [
        ({}, {"boot": fact("another")}, "another machine or before the last start"),
        ({}, {"boot": None}, "another machine or before the last start"),
        ({"identity__boot": None}, {}, "the boot id is not readable here"),
        ({"identity__boot": fact(None, "denied")}, {}, "the boot id is not readable here"),
        ({}, {"cpu__model": fact("Xeon")}, "its processor is another one (Xeon)"),
        ({}, {"cpu__model": None}, "its processor is another one"),
        ({"system__kernel": fact("6.2")}, {}, "its kernel release is another one (6.1)"),
        ({"memory__total_bytes": fact(1 << 37)}, {}, "its memory is smaller"),
    ],
)
def test_a_file_of_another_machine_or_boot_is_refused(
    here: dict[str, Fact | None], there: dict[str, Fact | None], reason: str
) -> None:
    before = inside(**here)
    facts = host.merge(before, document(**there))
    assert reason in facts.pop("host_collector")["file"].note
    assert facts == before


def test_a_container_that_is_shown_less_memory_is_of_the_machine_still() -> None:
    facts = host.merge(inside(memory__total_bytes=fact(1 << 31, "masked", "lxcfs")), document())
    assert facts["memory"]["total_bytes"].value == 1 << 36
    assert facts["memory"]["total_bytes"].source.startswith("host collector: ")


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "results" / "host.json"
    host.write(path, document())
    assert host.load(path) == document()
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is damaged"),
        ("[]", "it is not a host collector's file"),
        ('{"schema_version": "1.1", "run_id": "x"}', "it is not a host collector's file"),
        ('{"format": "speedproof host fingerprint", "schema_version": "2.0"}', "its schema is 2.0"),
        ('{"format": "speedproof host fingerprint", "schema_version": "1.3"}', "it is damaged"),
        ('{"format": "speedproof host fingerprint", "schema_version": "1.0", "facts": 3}', "it is damaged"),
        ("[" * 100_000, "it is damaged"),
        (" " * (host.LARGEST_BYTES + 1), "it is larger than 4 MiB"),
    ],
)
def test_what_is_no_collectors_file_is_refused_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "host.json"
    path.write_text(text)
    said = host.load(path)
    assert isinstance(said, str) and reason in said


@pytest.mark.parametrize("name", ["missing.json", ".", "no\0path", "x" * 5000])
def test_a_path_that_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    assert isinstance(host.load(tmp_path / name), str)


def test_a_newer_minor_version_is_read(tmp_path: Path) -> None:
    newer = msgspec.to_builtins(document()) | {"schema_version": "1.7", "new_field": [1]}
    path = tmp_path / "host.json"
    path.write_bytes(msgspec.json.encode(newer))
    assert isinstance(host.load(path), host.HostFingerprint)


def test_a_run_takes_the_file_that_the_environment_names(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    host.write(path, document())
    assert host.with_host(inside(), {}) == inside()
    assert host.with_host(inside(), {host.VARIABLE: str(path)})["cpu"]["governor"].value == ["performance"]
    missing = host.with_host(inside(), {host.VARIABLE: str(tmp_path / "elsewhere")})["host_collector"]["file"]
    assert (missing.status, missing.note) == ("absent", "refused: there is no such file")
    assert str(tmp_path) not in str(missing)  # a path may hold the user's name


@pytest.fixture
def _all_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "ROUNDS", 10)
    for name, reader in (("gpu", gpu.read), ("identity", identity.read)):
        monkeypatch.setitem(collecting.SUBJECTS, name, reader)


@pytest.mark.usefixtures("_all_subjects")
def test_this_machines_file_is_of_this_machine() -> None:
    gathered = host.gather()
    assert set(gathered.facts) == set(host.SUBJECTS)
    assert host.refusal(collecting.collect(), gathered) is None
    names = {name for found in gathered.facts.values() for name in found}
    assert not names & host.NOT_THE_MACHINES


@pytest.mark.usefixtures("_all_subjects")
def test_no_identifier_of_a_recorded_machine_is_gathered(tmp_path: Path) -> None:
    secrets = {
        "/sys/class/dmi/id/product_uuid": "9a3f1c52-7d64-4b0e-8a11-5c2e9f7d3b60",
        "/sys/class/dmi/id/product_serial": "SERIAL-77",
        "/sys/class/dmi/id/board_serial": "SERIAL-78",
        "/sys/class/dmi/id/chassis_asset_tag": "ASSET-79",
        "/etc/machine-id": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "/proc/sys/kernel/random/boot_id": "b1530660-e49e-4660-b706-3b4ba6643fa0",
        "/proc/sys/kernel/hostname": "lab-seven",
        "/proc/cmdline": "root=UUID=11112222-3333-4444-5555-666677778888 hostname=lab-seven quiet",
    }
    root = write_tree(tmp_path, secrets | {"/proc/cpuinfo": "processor: 0\nmodel name: Xeon"})
    text = msgspec.json.encode(host.gather(root)).decode().lower()
    for secret in (*secrets.values(), "11112222", "lab-seven"):
        assert secret.lower() not in text
    assert identity.read(root)["machine_id"].value in text  # type: ignore[operator]


def test_what_a_user_without_rights_misses_is_said() -> None:
    facts = inside(container__container=fact("docker"))
    assert host._missing(facts) == [
        "this is a container (docker): the collector is meant to run on the host",
        "cpu governor: hidden",
        "memory dimms: only root",
    ]


def test_the_results_folder_stays_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, user, group, **_: given.append((Path(path).name, user, group)))
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "100")
    host.write(tmp_path / "results" / "host.json", document())
    assert sorted(given) == [("host.json", 1000, 100), ("results", 1000, 100)]


def test_a_place_that_cannot_be_written_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BundleError):
        host.write(Path("/proc/nowhere/host.json"), document())
    assert host.main(["--output", "/proc/nowhere/host.json"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("speedproof: /proc/nowhere/host.json: cannot be written") and "Traceback" not in said


def test_the_script_says_what_to_do_without_an_environment(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "docker" / "fingerprint-host"
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "fingerprint-host").write_text(script.read_text())
    done = subprocess.run(
        ["bash", str(tmp_path / "docker/fingerprint-host")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "run make setup first" in done.stderr
