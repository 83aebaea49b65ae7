from __future__ import annotations

import pytest

from reports.render import facts
from suite.bundle.schema import Fact, FactStatus


def fact(value: object, status: FactStatus = "ok", note: str = "") -> Fact:
    return Fact(value=value, source="/proc/x", status=status, note=note)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("model", "AMD EPYC", "AMD EPYC"),
        ("total_bytes", 24 << 30, "24.0\u00a0GiB"),
        ("node_total_bytes", {"0": 1 << 30, "1": 2 << 30}, "0: 1.00\u00a0GiB; 1: 2.00\u00a0GiB"),
        ("maximum_mhz", {"3800": "0-3", "2400": "4"}, "3800 MHz (CPUs 0-3); 2400 MHz (CPUs 4)"),
        ("governor", {"performance": "0-3"}, "performance (CPUs 0-3)"),
        ("numa_cpus", {"0": "0-3"}, "0: 0-3"),
        ("allowed_cpus", [0, 1, 2, 3, 8], "0-3, 8"),
        ("isolated", [], "none"),
        ("boost", False, "no"),
        ("steal_share_since_boot", 0.0123, "1.2\u00a0%"),
        ("memory_speed_mt_s", [4800], "4800 MT/s"),
        ("cpu_throttling", {"periods": 3, "throttled_ns": 2_000_000}, "periods: 3; throttled: 2.00\u00a0ms"),
        ("limits", {"stack": [8388608, "unlimited"]}, "stack: 8388608, unlimited"),
        ("huge_page_pools_by_node", {"0": {}}, "0: none"),
        (
            "caches",
            [{"name": "L1 data", "size_bytes": 32768, "shared_by_cpus": 2, "instances": 1}],
            "L1 data: size 32.0\u00a0KiB, shared by CPUs 2, instances 1",
        ),
        ("packages", {"a": {"version": "1", "record_sha256": "0123456789abcdef"}}, "a 1 (0123456789ab)"),
        ("packages", {"a": {"version": "1", "no_record": "denied"}}, "a 1 (no record: denied)"),
        ("environment", {"OMP_NUM_THREADS": "2"}, "OMP_NUM_THREADS: 2"),
    ],
)
def test_a_value_is_written_in_the_unit_of_its_name(name: str, value: object, text: str) -> None:
    assert facts.fact_text(name, fact(value)) == text


def test_a_missing_value_is_written_by_its_status() -> None:
    assert facts.fact_text("x", fact(None, "denied", "only root")) == "(denied: only root)"
    assert facts.fact_text("x", fact(None, "absent")) == "(absent)"


@pytest.mark.parametrize(
    ("name", "words"),
    [("base_mhz", "base clock"), ("dimm_slots", "DIMM slots"), ("numa_cpus", "NUMA CPUs"), ("total_bytes", "total")],
)
def test_a_fields_name_is_in_words(name: str, words: str) -> None:
    assert facts.field_name(name) == words


def test_long_values_are_folded() -> None:
    row = facts.row("packages", fact({f"package-{n}": {"version": "1", "record_sha256": "ab" * 32} for n in range(50)}))
    assert row.text == "50 entries"
    assert row.entries[0] == "package-0 1 (abababababab)"


def test_a_long_text_and_what_readers_look_for_is_not_folded() -> None:
    assert facts.row("command_line", fact("x " * 200)).entries == ()
    row = facts.row("instruction_sets", fact({"AVX": ["avx"] * 50, "AMX": ["amx"] * 50}))
    assert row.entries == ()
    assert row.text.count("\n") == 1


def test_only_fields_with_a_value_are_in_the_table() -> None:
    found = {"cpu": {"model": fact("x"), "boost": fact(None, "absent")}, "gpu": {"count": fact(None, "absent")}}
    (section,) = facts.sections(found)
    assert (section.title, [row.name for row in section.rows]) == ("CPU", ["model"])


def test_what_is_missing_is_listed_by_reason_and_marked_where_it_has_a_value() -> None:
    found = {
        "cpu": {
            "sockets": fact(1, "virtualised"),
            "boost": fact(None, "virtualised"),
            "nohz_full": fact(None, "absent"),
        }
    }
    virtualised, absent = facts.missing(found)
    assert (virtualised.count, virtualised.fields) == (2, [("CPU", ["sockets*", "boost"])])
    assert absent.fields == [("CPU", ["nohz full"])]
