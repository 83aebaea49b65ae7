"""The Dockerfile, what it copies, the compose file and the locks say the same."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def copied() -> set[str]:
    """Everything that a COPY line takes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", RECIPE, re.MULTILINE)
    return {source for line in lines for source in line.split()[:-1]}


def stages() -> dict[str, str]:
    """Name of each stage -> what it starts from."""
    return {name: start for start, name in re.findall(r"^FROM (\S+) AS (\S+)$", RECIPE, re.MULTILINE)}


def test_everything_that_is_copied_exists_and_passes_the_ignore_file():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    for source in copied():
        assert (ROOT / source).exists(), source
        passes = True
        for rule in rules:
            if fnmatchcase(source, rule.removeprefix("!")) or source.startswith(rule.removeprefix("!") + "/"):
                passes = rule.startswith("!")
        assert passes, f"{source} is copied and ignored"


def test_the_ignore_file_lets_through_nothing_that_is_not_copied():
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert allowed - {"docker"} == copied()


def test_each_target_has_its_lock_and_its_packages_before_the_code():
    for target in ("cpu", "cuda"):
        assert stages()[target] == f"{target}-packages"
        assert stages()[f"{target}-packages"] == "system"
        assert (
            f"COPY docker/requirements-{target}.lock docker/\nRUN IN_IMAGE=yes docker/layer python {target}\n" in RECIPE
        )
        assert f"RUN IN_IMAGE=yes docker/layer sbom {target}\n" in RECIPE
    # Of the two, only the last can be built by accident, and that is the small one.
    assert list(stages())[-1] == "cpu"


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_each_target_carries_all_labels_and_ends_as_an_ordinary_user(target: str):
    text = RECIPE.split(f" AS {target}\n")[1].split("\nFROM ")[0] + RECIPE.split(" AS system\n")[1].split("\nFROM ")[0]
    for label in ("title", "description", "source", "revision", "version", "licenses", "created"):
        assert f"org.opencontainers.image.{label}=" in text
    assert text.split("\nUSER ")[1].split()[0] == "speedproof"
    assert "speedproof.source=" in text
    assert f'org.opencontainers.image.licenses="{PROJECT["license"]}"' in text


def test_no_digest_is_made_up():
    assert not re.search(r"sha256:[0-9a-f]{8}", RECIPE)


def test_the_digest_of_the_source_covers_what_is_copied_and_nothing_else(tmp_path: Path):
    for path in (*copied(), "Dockerfile", ".dockerignore", "docker/image"):
        source, target = ROOT / path, tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            target.mkdir(exist_ok=True)
            (target / "module.py").write_text("x = 1\n")
        else:
            target.write_bytes(source.read_bytes())
    (tmp_path / "docker" / "image").chmod(0o755)

    def digest(*target: str) -> str:
        command = [str(tmp_path / "docker" / "image"), "--digest", *target]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    before = digest(), digest("cuda")
    assert re.fullmatch(r"[0-9a-f]{64}", before[0])
    assert before[0] != before[1]
    for path in ("docker/requirements-dev.lock", "docker/lock", "README.md", "suite/module.pyc"):
        (tmp_path / path).write_text("not in the image\n")
    assert (digest(), digest("cuda")) == before
    with (tmp_path / "docker" / "requirements-cuda.lock").open("a") as lock:
        lock.write("# changed\n")
    assert digest() == before[0]
    assert digest("cuda") != before[1]
    (tmp_path / "suite" / "module.py").write_text("x = 2\n")
    assert digest() != before[0]


def test_compose_runs_both_images_as_the_launcher_does():
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    assert set(services) == {"cpu", "cuda"}
    for name, service in services.items():
        assert service["image"] == f"speedproof:{name}"
        assert service["build"]["target"] == name
        assert set(service["build"]["args"]) <= set(re.findall(r"^ARG (\w+)", RECIPE, re.MULTILINE))
        assert service["network_mode"] == "none"
        assert service["cap_add"] == ["SYS_NICE"]
        assert service["shm_size"] == "1g"
        assert service["read_only"] is True
        # Engines mount a tmpfs without the right to run code unless asked; compiled kernels are loaded from it.
        assert all(",exec," in mount for mount in service["tmpfs"])
        assert service["volumes"] == ["${RESULTS:-../results}:/results"]
    assert services["cuda"]["ulimits"]["memlock"] == -1
    assert services["cuda"]["deploy"]["resources"]["reservations"]["devices"][0]["driver"] == "nvidia"
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in RECIPE
