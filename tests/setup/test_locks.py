"""The locks agree with pyproject.toml and with each other; all of it is checked on the files, without the network."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = ("cpu", "cuda", "dev")
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


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("groups", [(), ("dev",)])
def test_every_direct_dependency_is_locked_within_its_range(target: str, groups: tuple[str, ...]):
    locked = pins(target) | (pins("dev") if groups else {})
    for requirement in direct(*groups):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is missing from the {target} lock: run docker/lock"
        assert version in requirement.specifier, f"{requirement.name} {version} is outside {requirement.specifier}"


@pytest.mark.parametrize("lock", NAMES)
def test_every_package_is_one_file_with_one_hash(lock: str):
    found = list(ENTRY.finditer(text(lock)))
    assert found
    assert [entry[1] for entry in found if entry[3].count("--hash=sha256:") != 1] == []


@pytest.mark.parametrize("lock", NAMES)
def test_every_file_is_a_wheel_for_python_3_11_on_x86_64(lock: str):
    for entry in ENTRY.finditer(text(lock)):
        (file,) = re.findall(r"^    # (\S+\.whl)$", entry[3], re.MULTILINE)
        name, version, _, tags = parse_wheel_filename(file)
        assert (canonicalize_name(name), version.public) == (entry[1], entry[2]), file
        assert any(tag.platform == "any" or tag.platform.endswith("x86_64") for tag in tags), file
        assert any(tag.interpreter in {"cp311", "py3", "py311"} or tag.abi == "abi3" for tag in tags), file


@pytest.mark.parametrize("lock", NAMES)
def test_locks_hold_pins_and_hashes_only(lock: str):
    assert [line for line in text(lock).splitlines() if not LINE.fullmatch(line)] == []


def test_the_targets_differ_by_the_build_of_torch_and_its_cuda_libraries_alone():
    cpu, cuda = pins("cpu"), pins("cuda")
    assert {name: cuda.get(name) for name in cpu} == cpu
    only_cuda = cuda.keys() - cpu.keys()
    assert "triton" in only_cuda
    assert {name for name in only_cuda if not name.startswith(("nvidia-", "cuda-", "triton"))} == set()
    assert not any(name.startswith("nvidia-c") for name in cpu)
    files = {name: {entry[1]: entry[3] for entry in ENTRY.finditer(text(name))} for name in ("cpu", "cuda")}
    assert {name for name in cpu if files["cpu"][name] != files["cuda"][name]} == {"torch"}
    assert "+cpu-" in files["cpu"]["torch"]
    assert "+cpu-" not in files["cuda"]["torch"]


def test_developers_have_the_versions_that_users_have():
    assert pins("dev").keys() & pins("cuda").keys() == set()


def test_torch_is_pinned_exactly():
    (pinned,) = (requirement for requirement in direct() if requirement.name == "torch")
    assert str(pinned.specifier) == f"=={pins('cpu')['torch']}" == f"=={pins('cuda')['torch']}"
