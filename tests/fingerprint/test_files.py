from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.fingerprint import files
from suite.fingerprint.facts import call, denied, first, from_file, ok, virtualised


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", []), ("0", [0]), ("0-2,5", [0, 1, 2, 5]), ("3,1-2\n", [1, 2, 3]), ("0-1, 4", [0, 1, 4])],
)
def test_cpu_lists_are_parsed(text: str, numbers: list[int]) -> None:
    assert files.parse_cpulist(text) == numbers


@pytest.mark.parametrize("text", ["(null)", "1-", "a", "3-1", "0-9999999999"])
def test_other_text_is_no_cpu_list(text: str) -> None:
    with pytest.raises(ValueError, match="not a CPU list"):
        files.parse_cpulist(text)


def test_cpu_masks_are_parsed_most_significant_word_first() -> None:
    assert files.parse_cpumask("00000001,00000101") == [0, 8, 32]
    assert files.parse_cpumask("") == []


def test_cpu_lists_are_written_as_ranges() -> None:
    assert files.format_cpulist([5, 0, 1, 2, 2]) == "0-2,5"
    assert files.format_cpulist([]) == ""
    assert files.parse_cpulist(files.format_cpulist([0, 2, 3, 9])) == [0, 2, 3, 9]


@pytest.mark.parametrize(("text", "size"), [("32K", 32768), ("24684084 kB", 25276502016), ("8M", 8 << 20), ("7", 7)])
def test_sizes_are_bytes(text: str, size: int) -> None:
    assert files.parse_size(text) == size


def test_the_choice_in_brackets_is_found() -> None:
    assert files.selected("always [madvise] never") == "madvise"
    with pytest.raises(ValueError, match="brackets"):
        files.selected("always")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/venv/lib:/home/ada", "~/venv/lib:~"),
        ("/root/.cache /Users/bo/x", "~/.cache ~/x"),
        ("/data/people/cy/lib", "~/lib"),
        ("/data/people/cyd/lib", "/data/people/cyd/lib"),
        ("/rooted/x /opt/home/ada", "/rooted/x /opt/home/ada"),
        ("/tmp/torchinductor_ada/ab", "/tmp/torchinductor_<user>/ab"),
    ],
)
def test_home_directories_and_users_are_taken_out(text: str, shown: str) -> None:
    assert files.without_home(text, home="/data/people/cy") == shown


def test_a_users_own_folders_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What gpu-check's first run on a real GPU showed: the folders of its caches and of its Python."""
    monkeypatch.setattr(files.sys, "prefix", "/data/di/torch/.venv")
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch/di/tmp.Ab12/cache/")
    monkeypatch.setenv("TMPDIR", "/scratch/di")
    for text, shown in {
        "/data/di/torch/.venv/bin/python3": "<venv>/bin/python3",
        "g++ -I/data/di/torch/.venv/include -L/scratch/di/tmp.Ab12/cache/x": "g++ -I<venv>/include -L<cache>/x",
        "/scratch/di/tmp.Ab12/cache/speedproof/toolchain": "<cache>/speedproof/toolchain",
        "/scratch/di/other /data/di/torch/.venv2": "<tmp>/other /data/di/torch/.venv2",
    }.items():
        assert files.without_home(text) == shown


def test_what_every_machine_has_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prefix", "base_prefix"):
        monkeypatch.setattr(files.sys, name, "/usr")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("TMPDIR", "/tmp/")
    assert files.without_home("/usr/bin/openssl /tmp/x", home="/nowhere") == "/usr/bin/openssl /tmp/x"


def test_the_root_is_no_home() -> None:
    assert files.without_home("/usr/lib", home="/") == "/usr/lib"


def test_names_are_in_numeric_order(tmp_path: Path) -> None:
    for name in ("cpu10", "cpu2", "cpufreq"):
        (tmp_path / name).mkdir()
    assert files.list_names(tmp_path, "/", r"cpu\d+") == ["cpu2", "cpu10"]
    assert files.list_names(tmp_path, "/nowhere") == []


def test_a_missing_file_is_absent_with_a_reason(tmp_path: Path) -> None:
    fact = from_file(tmp_path, "/proc/nothing")
    assert (fact.value, fact.status, fact.source, fact.note) == (None, "absent", "/proc/nothing", "no such file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_forbidden_file_is_denied(tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0)
    assert from_file(tmp_path, "/secret").status == "denied"


def test_a_denied_read_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("x")

    def refuse(*_: object, **__: object) -> bytes:
        raise PermissionError

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert from_file(tmp_path, "/secret").status == "denied"


def test_a_file_under_a_device_is_masked() -> None:
    assert from_file(Path("/"), "/dev/null").status == "masked"


def test_a_pipe_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert from_file(tmp_path, "/pipe").status == "absent"


def test_text_that_is_not_understood_is_absent_with_the_refusal(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("many")
    fact = from_file(tmp_path, "/number", int)
    assert (fact.value, fact.status) == (None, "absent")
    assert "many" in fact.note


def test_an_empty_file_is_absent_unless_it_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "isolated").write_text("\n")
    assert from_file(tmp_path, "/isolated", files.parse_cpulist).status == "absent"
    assert from_file(tmp_path, "/isolated", files.parse_cpulist, may_be_empty=True) == ok([], "/isolated")


def test_a_call_that_fails_or_gives_nothing_is_absent() -> None:
    assert call("f()", lambda: 1 // 0).note.startswith("ZeroDivisionError")
    assert call("f()", lambda: None, "no such thing").note == "no such thing"
    assert call("f()", lambda: 0).value == 0


def test_a_virtual_machine_marks_what_the_hypervisor_chose_or_hides() -> None:
    seen = virtualised(ok(2, "x"), "chosen")
    assert (seen.value, seen.status, seen.note) == (2, "virtualised", "chosen")
    hidden = virtualised(call("f()", lambda: None), "hidden")
    assert (hidden.value, hidden.status, hidden.note) == (None, "virtualised", "not given; hidden")
    assert virtualised(denied("x"), "hidden").status == "denied"


def test_the_first_fact_that_was_read_is_taken() -> None:
    missing = call("f()", lambda: None)
    assert first(missing, ok(1, "x")).value == 1
    assert first(missing, missing) == missing
    assert first(denied("x"), missing).status == "denied"
