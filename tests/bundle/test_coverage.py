from __future__ import annotations

from suite.bundle.coverage import coverage, gaps, line
from suite.bundle.schema import Fact, FactStatus


def fact(status: FactStatus, value: object = None) -> Fact:
    return Fact(value=value, source="/proc/x", status=status)


FACTS = {
    "cpu": {"model": fact("ok", "x"), "sockets": fact("virtualised", 1), "governor": fact("virtualised")},
    "memory": {"dimms": fact("denied"), "swap": fact("ok", 0), "nodes": fact("absent")},
    "system": {"bios": fact("masked")},
}


def test_the_line_counts_what_the_machine_itself_shows() -> None:
    assert line(FACTS) == "2 of 7 fields; 1 masked by the container, 2 virtualised, 1 denied, 1 absent"


def test_the_numbers_add_up() -> None:
    counted = coverage(FACTS)
    assert counted.read + sum(counted.missing.values()) == counted.total == 7


def test_counts_of_zero_are_left_out() -> None:
    assert line({"cpu": {"model": fact("ok", "x")}}) == "1 of 1 fields"
    assert line({}) == "0 of 0 fields"
    assert line({"cpu": {"model": fact("absent")}}) == "0 of 1 fields; 1 absent"


def test_every_number_leads_to_its_fields() -> None:
    found = {status: [f"{gap.subject}.{gap.name}" for gap in listed] for status, listed in gaps(FACTS).items()}
    assert found == {
        "masked": ["system.bios"],
        "virtualised": ["cpu.sockets", "cpu.governor"],
        "denied": ["memory.dimms"],
        "absent": ["memory.nodes"],
    }
