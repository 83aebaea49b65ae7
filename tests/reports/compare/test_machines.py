"""Groups of one machine model, and the units in them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from reports.compare.machines import UNKNOWN, Group, groups, model
from suite.bundle import schema
from tests.reports.compare.bundles import POINTWISE, arms, bundle, fact, gathered

TIMES = {POINTWISE: arms(100e3, 50e3, processes=2)}


def grouped(*paths: Path) -> list[tuple[str, int]]:
    """(letters, number of units) by group."""
    return [("".join(one.letter for one in group.members), len(group.units)) for group in of(*paths)]


def of(*paths: Path) -> tuple[Group, ...]:
    return groups(gathered(*paths).members)


def test_bundles_of_one_model_form_a_group_and_units_are_told_apart(tmp_path: Path) -> None:
    found = grouped(
        bundle(tmp_path / "a", TIMES, cpu="X", unit="1"),
        bundle(tmp_path / "b", TIMES, cpu="Y", unit="2"),
        bundle(tmp_path / "c", TIMES, cpu="X", unit="1"),
        bundle(tmp_path / "d", TIMES, cpu="X", unit="3"),
    )
    assert found == [("ACD", 2), ("B", 1)]


def test_fewer_than_three_units_are_this_unit(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, cpu="X", unit=name) for name in "abc"]
    assert of(*paths[:2])[0].subject == "this unit of X, 2 cores"
    (three,) = of(*paths)
    assert three.is_product and three.subject == "X, 2 cores"


def test_units_that_hide_their_identity_make_no_product(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, unit=None) for name in "abc"]
    assert grouped(*paths) == [("ABC", 1)]
    assert grouped(*paths, bundle(tmp_path / "d", TIMES, unit="1"), bundle(tmp_path / "e", TIMES, unit="2")) == [
        ("ABCDE", 2)
    ]


def test_an_identity_that_equal_machines_share_tells_no_units_apart(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, facts={"identity": {"machine_id": fact(name, "masked")}}) for name in "abc"]
    assert grouped(*paths) == [("ABC", 1)]


def on_gpu(folder: Path, salted: dict[int, str], *, measured: int = 0, unit: str | None = "one host") -> Path:
    """A run on one of a host's GPUs, which are named by their salted identities."""
    facts = {f"gpu {number} uuid_salted": fact(value or None) for number, value in salted.items()}
    facts |= {f"gpu {number} pci_bus_id": fact(f"00000000:0{number}:00.0") for number in salted}
    device = schema.Device(kind="cuda", name="Fast GPU", index=measured, bus_id=f"00000000:0{measured}:00.0")
    return bundle(folder, TIMES, unit=unit, facts={"gpu": facts}, device=device)


def test_gpus_are_units_by_their_own_identity(tmp_path: Path) -> None:
    both = {0: "aa", 1: "bb"}
    paths = [on_gpu(tmp_path / name, both, measured=number) for name, number in (("a", 0), ("b", 1), ("c", 0))]
    assert grouped(*paths) == [("ABC", 2)]
    elsewhere = on_gpu(tmp_path / "d", both, measured=1, unit="another host")
    assert grouped(*paths, elsewhere) == [("ABCD", 2)]


def test_gpus_without_an_identity_are_told_apart_by_their_places_in_a_known_machine(tmp_path: Path) -> None:
    paths = [on_gpu(tmp_path / f"m{number}", {0: "", 1: ""}, measured=number) for number in (0, 1)]
    assert grouped(*paths) == [("AB", 2)]
    assert grouped(*paths, on_gpu(tmp_path / "c", {0: ""}, unit="another host")) == [("ABC", 3)]
    assert grouped(*paths, on_gpu(tmp_path / "d", {0: ""}, unit=None)) == [("ABC", 2)]
    assert grouped(*(on_gpu(tmp_path / name, {0: "", 1: ""}, unit=None) for name in "ef")) == [("AB", 1)]


def test_a_gpu_that_tells_its_identity_in_one_run_only_is_one_unit_by_its_place(tmp_path: Path) -> None:
    paths = [on_gpu(tmp_path / "a", {0: "aa", 1: "bb"}), on_gpu(tmp_path / "b", {0: ""}), on_gpu(tmp_path / "c", {})]
    assert grouped(*paths) == [("ABC", 1)]
    assert grouped(*paths, on_gpu(tmp_path / "d", {1: ""}, measured=1)) == [("ABCD", 2)]


def test_a_gpu_that_tells_neither_identity_nor_place_is_counted_as_its_machine(tmp_path: Path) -> None:
    device = schema.Device(kind="cuda", name="Fast GPU")
    paths = [bundle(tmp_path / name, TIMES, unit="one host", device=device) for name in "ab"]
    assert grouped(*paths) == [("AB", 1)]
    assert grouped(*paths, bundle(tmp_path / "c", TIMES, unit="another", device=device)) == [("ABC", 2)]


def identities(**values: str | None) -> dict[str, dict[str, schema.Fact]]:
    told = {name: fact(value, "ok" if value else "denied") for name, value in values.items()}
    return {"identity": told}


def test_a_machine_is_one_unit_by_any_identity_that_two_runs_share(tmp_path: Path) -> None:
    told = {
        "root": identities(machine_id="p", id_by_product_uuid="p", id_by_machine_id="m"),
        "user": identities(machine_id="m", id_by_product_uuid=None, id_by_machine_id="m", boot="b"),
        "container": identities(machine_id=None, boot="b"),
        "other": identities(machine_id="q", id_by_product_uuid="q", boot="c"),
    }
    found = grouped(*(bundle(tmp_path / name, TIMES, unit=None, facts=facts) for name, facts in told.items()))
    assert found == [("ABCD", 2)]


def test_another_boot_is_no_other_machine(tmp_path: Path) -> None:
    told = [identities(machine_id=None, boot=name) for name in ("b", "c", "d")]
    assert grouped(*(bundle(tmp_path / str(n), TIMES, unit=None, facts=f) for n, f in enumerate(told))) == [("ABC", 1)]


def test_a_gpu_at_another_place_than_the_one_measured_lends_no_identity(tmp_path: Path) -> None:
    here = on_gpu(tmp_path / "a", {0: "aa"}, unit="1")
    lost = bundle(
        tmp_path / "b",
        TIMES,
        unit="2",
        facts={"gpu": {"gpu 0 uuid_salted": fact("aa"), "gpu 1 uuid_salted": fact("cc")}},
        device=schema.Device(kind="cuda", name="Fast GPU", bus_id="00000000:07:00.0"),
    )
    assert grouped(here, lost) == [("AB", 2)]


def test_gpus_and_products_are_part_of_the_model(tmp_path: Path) -> None:
    gpu = {"gpu": {"gpu 0 name": fact("Fast GPU"), "gpu 1 name": fact("Fast GPU"), "gpu 0 uuid": fact("u")}}
    vendor = {"system": {"sys_vendor": fact("Maker"), "product_name": fact("One")}}
    other = {"system": {"sys_vendor": fact("Maker"), "product_name": fact("Two")}}
    found = of(
        bundle(tmp_path / "a", TIMES, facts=gpu),
        bundle(tmp_path / "b", TIMES, facts=vendor),
        bundle(tmp_path / "c", TIMES, facts=other),
    )
    assert [group.model.name for group in found] == [
        "2 x Fast GPU on Test CPU, 2 cores",
        "Test CPU, 2 cores",
        "Test CPU, 2 cores",
    ]
    assert [group.model.product for group in found] == [None, "Maker One", "Maker Two"]


def test_a_container_that_hides_the_product_joins_the_only_one_it_can_be(tmp_path: Path) -> None:
    vendor = {"system": {"sys_vendor": fact("Maker"), "product_name": fact("One")}}
    hidden = {"system": {"sys_vendor": fact(None, "masked"), "product_name": fact(None, "masked")}}
    paths = [bundle(tmp_path / "a", TIMES, facts=hidden), bundle(tmp_path / "b", TIMES, facts=vendor)]
    (found,) = of(*paths)
    assert found.model.product == "Maker One"


def test_machines_that_do_not_say_what_they_are_are_not_taken_for_one_model(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, cpu=None, unit=name) for name in "ab"]
    assert grouped(*paths) == [("A", 1), ("B", 1)]
    assert of(*paths)[0].subject == f"this unit of {UNKNOWN}"


def test_what_a_run_measured_on_names_its_model(tmp_path: Path) -> None:
    (member,) = gathered(bundle(tmp_path / "a", TIMES)).members
    for device, name in (
        (SimpleNamespace(kind="cpu", name="", partition=""), "Test CPU, 2 cores"),
        (SimpleNamespace(kind="cuda", name="Fast GPU", partition="1g.10gb"), "Fast GPU 1g.10gb on Test CPU, 2 cores"),
    ):
        run = SimpleNamespace(device=device)
        seen = SimpleNamespace(bundle=SimpleNamespace(run=run, fingerprint=member.bundle.fingerprint))
        assert model(seen).name == name  # type: ignore[arg-type]
