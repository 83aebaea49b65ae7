"""The locks agree with pyproject.toml and with each other; all of it is checked on the files, without the network."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = ("cpu", "dev", "torch", "torch-cuda")
ENTRY = re.compile(r"^([a-z0-9.-]+)==([^ ;]+)[^\n]*\n((?: {4}[^\n]*\n)*)", re.MULTILINE)
LINE = re.compile(r"#.*|[a-z0-9.-]+==[^ ;]+( ; [^\\]+)? \\| {4}--hash=sha256:[0-9a-f]{64}( \\)?| {4}#.*")


def text(name: str) -> str:
    return (ROOT / "docker" / f"requirements-{name}.lock").read_text()


def pins(name: str) -> dict[str, Version]:
    return {found[1]: Version(found[2]) for found in ENTRY.finditer(text(name))}


def direct(*groups: str) -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    return [
        Requirement(line) for line in [*PROJECT["dependencies"], *(line for name in groups for line in extras[name])]
    ]


@pytest.mark.parametrize(("lock", "groups"), [("cpu", ()), ("dev", ("dev",))])
def test_every_direct_dependency_is_locked_within_its_range(lock: str, groups: tuple[str, ...]):
    locked = pins(lock) | pins("torch")
    for requirement in direct(*groups):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is missing from the {lock} lock: run docker/lock"
        assert version in requirement.specifier, f"{requirement.name} {version} is outside {requirement.specifier}"


@pytest.mark.parametrize("lock", NAMES)
def test_every_entry_has_a_hash(lock: str):
    found = list(ENTRY.finditer(text(lock)))
    assert found
    assert [entry[1] for entry in found if "--hash=sha256:" not in entry[3]] == []


@pytest.mark.parametrize("lock", NAMES)
def test_locks_hold_pins_and_hashes_only(lock: str):
    assert [line for line in text(lock).splitlines() if not LINE.fullmatch(line)] == []


def test_developers_run_the_versions_that_users_run():
    users, developers = pins("cpu"), pins("dev")
    assert {name: developers.get(name) for name in users} == users


def test_the_locks_of_torch_are_apart():
    assert set(pins("torch")) == {"torch"}
    assert "torch" not in pins("dev")
    assert not set(pins("torch-cuda")) & set(pins("dev"))


def test_torch_is_locked_as_two_wheels_of_one_version():
    (pinned,) = (requirement for requirement in direct() if requirement.name == "torch")
    assert str(pinned.specifier) == f"=={pins('torch')['torch']}"
    assert text("torch").count("--hash=sha256:") == 2
