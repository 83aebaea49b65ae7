"""What a unit shows against itself in another session: which runs are such a pair, and whom it may judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.compare.matrix import compare
from suite.bundle import schema
from suite.statistics.verdict import NoiseFloor
from tests.reports.compare.bundles import POINTWISE, arms, bundle, fact, gathered

MASKED = {"identity": {"machine_id": fact("the same in every container", "masked")}}
CONTAINER = schema.Engine(name="docker", containerised=True, reason="asked for", image_digest="sha256:1")


def run(folder: Path, eager_ns: float = 100e3, seed: int = 0, **changes: object) -> Path:
    return bundle(folder, {POINTWISE: arms(eager_ns, 50e3, seed=seed)}, **changes)  # type: ignore[arg-type]


def judged(*paths: Path) -> list[tuple[str | None, NoiseFloor | None]]:
    """Word and noise floor of every run but the baseline, in the row of eager."""
    cells = compare(gathered(*paths)).rows[0].cells
    return [(cell.verdict.word if cell.verdict else None, cell.floor) for cell in cells[1:]]


def words(*paths: Path) -> list[str | None]:
    return [word for word, _ in judged(*paths)]


def on_gpu(folder: Path, eager_ns: float, number: int, salted: str | None = None, **changes: object) -> Path:
    """A run on GPU `number` of a host, whose driver tells its salted identity or not."""
    place = f"00000000:0{number}:00.0"
    told = {"gpu 0 pci_bus_id": fact(place), "gpu 0 uuid_salted": fact(salted)} if salted else {}
    device = schema.Device(kind="cuda", name="Fast GPU", index=number, bus_id=place)
    return run(folder, eager_ns, number, facts={"gpu": told}, device=device, **changes)


def boot(name: str) -> dict[str, dict[str, schema.Fact]]:
    return {"identity": {**MASKED["identity"], "boot": fact(name)}}


def test_two_runs_that_name_no_machine_are_judged(tmp_path: Path) -> None:
    assert words(run(tmp_path / "a", unit=None), run(tmp_path / "b", 200e3, 5, unit=None)) == ["slower"]


@pytest.mark.parametrize("nameless", ["a", "b"])
def test_a_run_that_names_no_machine_is_judged_against_one_that_does(tmp_path: Path, nameless: str) -> None:
    units = {name: None if name == nameless else "unit 1" for name in "ab"}
    paths = [run(tmp_path / "a", unit=units["a"]), run(tmp_path / "b", 200e3, 5, unit=units["b"])]
    assert words(*paths) == ["slower"]


def test_two_equal_servers_that_are_measured_in_containers_are_judged(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, time, facts=MASKED, engine=CONTAINER) for name, time in (("a", 100e3), ("b", 130e3))]
    assert words(*paths) == ["slower"]
    # The floor of a third run takes nothing from the two either, as nobody knows that they are one unit.
    (_, (_, floor)) = judged(*paths, run(tmp_path / "c", 103e3, 3, unit="2", engine=CONTAINER))
    assert floor is not None and floor.delta == 0.01


def test_a_container_is_judged_against_the_same_machine_without_one(tmp_path: Path) -> None:
    native, container = run(tmp_path / "a", facts=boot("x")), run(tmp_path / "b", 130e3, 5, facts=boot("x"))
    contained = run(tmp_path / "c", 130e3, 5, facts=boot("x"), engine=CONTAINER)
    assert words(native, container) == ["slower"]
    assert words(native, contained) == ["slower"]


def test_two_gpus_of_one_host_are_judged(tmp_path: Path) -> None:
    named = [on_gpu(tmp_path / f"named{n}", 100e3 * (1 + n), n, f"gpu {n}") for n in (0, 1)]
    assert words(*named) == ["slower"]
    placed = [on_gpu(tmp_path / f"placed{n}", 100e3 * (1 + n), n) for n in (0, 1)]
    assert words(*placed) == ["slower"]


def test_a_pair_of_sessions_never_judges_its_own_two(tmp_path: Path) -> None:
    first, again = run(tmp_path / "a"), run(tmp_path / "b", 92e3, 9)
    ((word, floor),) = judged(first, again)
    assert word == "faster" and floor is not None and floor.delta == 0.01


def test_a_third_run_of_the_unit_is_what_sessions_are_known_by(tmp_path: Path) -> None:
    first, again, third = run(tmp_path / "a"), run(tmp_path / "b", 99e3, 9), run(tmp_path / "c", 92e3, 7)
    ((_, floor), (_, of_third)) = judged(first, again, third)
    assert floor is not None and floor.delta == pytest.approx(100 / 92 - 1, abs=0.01)
    assert "C against A" in floor.source
    assert of_third is not None and of_third.delta == pytest.approx(0.01, abs=0.005)


def floor_of_another(tmp_path: Path, *pair: Path) -> float:
    """The noise floor of a machine that is no part of the pair, whose first run is the baseline."""
    other = run(tmp_path / "other", 95e3, 7, unit="other", cpu="Other CPU")
    (_, (_, floor)) = judged(*pair, other)
    assert floor is not None
    return floor.delta


def test_sessions_of_one_known_unit_widen_the_floor_of_others(tmp_path: Path) -> None:
    assert floor_of_another(tmp_path, run(tmp_path / "a"), run(tmp_path / "b", 92e3, 9)) > 0.07


def test_one_boot_is_one_machine_where_a_container_hides_all_else(tmp_path: Path) -> None:
    pair = [run(tmp_path / n, t, facts=boot("x"), engine=CONTAINER) for n, t in (("a", 100e3), ("b", 92e3))]
    assert floor_of_another(tmp_path, *pair) > 0.07


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": None},
        {"unit": "2"},
        {"engine": CONTAINER},
        {"launch": schema.LaunchRequest(settings="untuned")},
        {"facts": {"cpu": {"governor": fact("powersave")}}},
    ],
)
def test_what_is_not_known_to_be_the_same_is_no_second_session(tmp_path: Path, changes: dict[str, object]) -> None:
    first = run(tmp_path / "a", facts={"cpu": {"governor": fact("performance")}})
    assert floor_of_another(tmp_path, first, run(tmp_path / "b", 92e3, 9, **changes)) == 0.01


def test_another_image_is_no_second_session(tmp_path: Path) -> None:
    other = schema.Engine(name="docker", containerised=True, reason="asked for", image_digest="sha256:2")
    first = run(tmp_path / "a", facts=boot("x"), engine=CONTAINER)
    assert floor_of_another(tmp_path, first, run(tmp_path / "b", 92e3, 9, facts=boot("x"), engine=other)) == 0.01


def test_gpus_are_sessions_of_themselves_alone(tmp_path: Path) -> None:
    def floor(name: str, *pair: tuple[int, str | None]) -> float:
        folder = tmp_path / name
        paths = [on_gpu(folder / f"{k}", 100e3 - 8e3 * k, n, salted) for k, (n, salted) in enumerate(pair)]
        return floor_of_another(folder, *paths)

    assert floor("same", (0, "aa"), (0, "aa")) > 0.07
    assert floor("place", (0, None), (0, None)) > 0.07
    assert floor("two", (0, "aa"), (1, "bb")) == 0.01
    assert floor("places", (0, None), (1, None)) == 0.01
