from __future__ import annotations

import io
import re

import msgspec
import pytest

from suite.bundle.schema import Source
from suite.doctor import render
from suite.doctor.diagnosis import Diagnosis, diagnose
from suite.launch.command import Launch, Requested
from suite.launch.engine import Choice
from suite.launch.topology import Placement
from tests.doctor.surveys import effective, engines, launch, machine, native, survey, with_facts

TROUBLED = survey(
    packages={"torch": None},
    engines=native(),
    source=Source(version="0"),
    topology=machine(quota=0.5, allowed=(1,)),
    placement=Placement((1,), (0,), "the allowed CPU"),
    facts=with_facts(cpu={"hypervisor": "KVM"}),
    launch=launch(
        environment={
            "MALLOC_CONF": ",".join(f"option_number_{n}:true" for n in range(30)),
            "LD_PRELOAD": "/x/" + "y" * 300,
        }
    ),
)


class Terminal(io.StringIO):
    """A text stream that says it is a terminal, of some encoding."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Latin(io.TextIOWrapper):
    """A pipe of a terminal without the marks' characters."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="latin-1")


def text(diagnosis: Diagnosis, width: int = 100) -> list[str]:
    return ["".join(span for span, _ in line) for line in render.lines(diagnosis, width)]


@pytest.mark.parametrize("width", [40, 80, 100, 250])
def test_no_line_is_wider_than_asked_nor_than_a_hundred_columns(width: int):
    lines = text(diagnose(TROUBLED), width)
    assert max(len(line) for line in lines if "/" not in line) <= min(width, 100)
    assert max(map(len, text(diagnose(survey()), width))) <= min(width, 100)


def test_no_path_is_broken_but_a_list_of_paths_between_two_of_them():
    first, second = "/x/" + "y=,:" * 20, "/z/" + "long/" * 20
    assert render._wrap(f"before LD_PRELOAD={first}:{second} after", 30) == [
        "before LD_PRELOAD=",
        f"{first}:",
        second,
        "after",
    ]


def test_long_variables_are_broken_at_commas():
    lines = text(diagnose(TROUBLED), 80)
    inner = [line for line in lines if "option_number" in line]
    assert len(inner) > 5
    assert all(line.rstrip().endswith((",", "true")) for line in inner)


def test_the_head_says_whether_a_run_is_possible_and_publishable():
    assert render.verdict(diagnose(survey())) == "A run is possible here; nothing seen forbids to publish it."
    unpublishable = diagnose(survey(engines=native()))
    assert render.verdict(unpublishable) == (
        "A run is possible here, with 1 doubtful; as things stand it could not be published."
    )
    assert render.verdict(diagnose(TROUBLED)) == "No run is possible here: 1 thing must be mended first."


def test_the_machine_line_names_what_limits_a_run():
    line = render.machine_line(diagnose(TROUBLED).machine)
    assert "AMD EPYC 9654 (virtual machine); 4 CPUs, of which 1 may be used, 1 socket, quota 0.5 CPUs;" in line
    assert line.endswith("Python 3.11.7, no torch.")


def test_a_machine_that_tells_nothing_still_has_a_line():
    bare = diagnose(survey(facts={}))
    assert render.machine_line(bare.machine).startswith("a processor without a name; 4 CPUs; ")
    assert text(bare)


def rows(**changes: object) -> dict[str, str]:
    return dict(render.launch_rows(diagnose(survey(**changes)).launch))


def test_what_a_run_would_do_is_shown():
    shown = rows()
    assert shown["command"] == "numactl -C 0-3 -m 0 python -m suite.worker"
    assert shown["placement"] == "CPUs 0-3, memory of node 0: physical cores of socket 0"
    assert (shown["threads"], shown["OpenMP"]) == ("4", "/opt/lib/libiomp5.so")


def test_nothing_is_claimed_that_is_not_asked_for():
    shown = rows(launch=Launch("untuned", [], {}, []))
    assert shown["placement"].startswith("not pinned")
    assert shown["threads"] == "as many as the OpenMP run-time chooses"
    assert (shown["OpenMP"], shown["allocator"]) == ("torch's own libgomp", "the C library's malloc")


def test_memory_that_numactl_could_not_bind_is_not_called_bound():
    shown = rows(launch=launch(prefix=["numactl", "-C", "0-3"]))
    assert shown["placement"] == "CPUs 0-3, memory not bound: physical cores of socket 0"


def test_what_is_exported_and_what_answers_are_shown():
    asked = launch(requested=[Requested("MALLOC_CONF", "foo:1", "user")])
    answering = msgspec.structs.replace(effective(), mapped_libraries={"openmp_called": ["libgomp.so.1"]})
    shown = rows(launch=asked, effective=answering)
    assert (shown["exported"], shown["OpenMP"]) == ("MALLOC_CONF=foo:1", "libgomp.so.1")
    assert shown["allocator"] == "/usr/lib/libjemalloc.so.2"


def test_where_a_run_would_go_is_said_for_each_engine():
    assert rows()["where"] == "in this container (docker, speedproof:cpu)"
    assert rows(engines=native())["where"].startswith("natively: docker is not installed")
    outside = engines(choice=Choice(engines().choice.engine, starts_container=True))
    assert rows(engines=outside)["where"].startswith("in docker 27.1, speedproof:cpu")
    assert "after building the image" in rows(engines=native(answering=("podman",)))["where"]
    assert "unless podman answers" in rows(engines=native(slow=("podman",)))["where"]


def test_a_pipe_gets_plain_text_with_the_marks():
    out = io.StringIO()
    render.show(diagnose(TROUBLED), out)
    assert "✗ The package torch is not installed: nothing can be measured." in out.getvalue()
    assert "\x1b[" not in out.getvalue()


def test_a_terminal_gets_colour_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    coloured, plain = Terminal(), Terminal()
    render.show(diagnose(TROUBLED), coloured)
    assert "\x1b[1;31m" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    render.show(diagnose(TROUBLED), plain)
    assert "\x1b[31m" not in plain.getvalue()
    assert "\x1b[1;31m" not in plain.getvalue()
    assert max(map(len, re.sub(r"\x1b\[\d+(;\d+)*m", "", plain.getvalue()).splitlines())) <= 80


def test_brackets_in_a_reason_are_text_and_no_markup(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    render.show(diagnose(survey(failures={"gpu": "KeyError: [red]x[/red]"})), out)
    assert "[red]x[/red]" in out.getvalue()


def test_a_stream_without_the_marks_gets_others():
    out = Latin()
    render.show(diagnose(TROUBLED), out)
    out.flush()
    shown = out.buffer.getvalue().decode("latin-1")  # type: ignore[attr-defined]
    assert "x The package torch is not installed" in shown
    assert "-> `make setup`" in shown


def test_the_document_has_stable_keys_and_can_be_read_back():
    document = msgspec.json.decode(msgspec.json.encode(diagnose(TROUBLED)))
    assert list(document) == [
        "format_version",
        "at",
        "possible",
        "publishable",
        "machine",
        "launch",
        "settings",
        "findings",
        "counts",
        "coverage",
        "durations_s",
    ]
    assert (document["possible"], document["publishable"]) == (False, False)
    first = document["findings"][0]
    assert list(first) == [
        "rule",
        "severity",
        "claim",
        "evidence",
        "advice",
        "family",
        "stops_run",
        "unpublishable",
    ]
    assert first["rule"] == "doctor.no-torch"
    assert sum(document["counts"].values()) == len(document["findings"])
    assert document["coverage"]["line"].startswith(
        f"{document['coverage']['read']} of {document['coverage']['fields']}"
    )
