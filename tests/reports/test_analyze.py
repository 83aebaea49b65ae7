"""The `analyze` command: every trace is told, whatever is wrong with another file."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reports.analyze import Request, Voice, run
from reports.render.page_folder import clean, page_folders
from tests.reports.trace.kineto import Recording, save, two_steps

TABLE = """\
-----------------  ------------  ------------  ------------
             Name      Self CPU     CPU total    # of Calls
-----------------  ------------  ------------  ------------
     aten::linear      31.000us     100.000us             2
      aten::addmm      60.000us      70.000us             2
-----------------  ------------  ------------  ------------
Self CPU time total: 218.000us
"""


def trace(folder: Path, name: str = "trace.json", recording: Recording | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return save(folder, json.dumps((recording or two_steps()).document()), name)


def told(capfd: pytest.CaptureFixture[str], *traces: Path, **options: Any) -> tuple[int, Any, str]:
    """The exit status, the JSON on standard output, and standard error."""
    status = run(Request(traces, json=True, **options))
    out, err = capfd.readouterr()
    return status, json.loads(out), err


def named(*paths: str) -> list[str]:
    return page_folders([Path("/top") / path for path in paths])


def test_pages_of_one_name_stand_in_folders_of_their_own() -> None:
    assert named("a/one.json", "b/two.json.gz") == ["one", "two"]
    assert named("rank0/step.json", "rank1/step.json.gz") == ["rank0-step", "rank1-step"]
    assert named("a/step.json", "a/STEP.json.gz") == ["a-step", "top-a-STEP"]
    assert named("x/a/t.json", "y/a/t.json", "y/a/t.json.gz", "a-t.json") == ["a-t", "y-a-t", "a-t-2", "top-a-t"]
    assert named("m/caf\u00e9.json", "n/cafe\u0301.json") == ["m-caf\u00e9", "n-cafe\u0301"]


def test_a_name_that_says_nothing_is_told_by_its_folder() -> None:
    assert named("eager/trace.json.gz", "run/profile.json", "seven/7.json") == [
        "eager-trace",
        "run-profile",
        "seven-7",
    ]


@pytest.mark.parametrize("name", ["...json", "..json", ".json", "..", "\u202e.json.gz", "\x1b.json"])
def test_a_page_never_leaves_its_folder(name: str) -> None:
    (folder,) = named(f"a/{name}")
    assert folder.strip(".") == folder == clean(folder) and "/" not in folder


def test_a_folders_name_cannot_steer_the_terminal_and_fits_a_file_system() -> None:
    assert named("a/x\x1b[31m\ny\u202ez\u2028.json") == ["x [31m yz"]
    assert named("a/bad\udcff.json") == ["bad\ufffd"]
    (long,) = named("a/" + "\u00e9" * 126 + ".json")
    assert len(long.encode()) == 200


def test_a_second_trace_of_one_name_does_not_take_the_firsts_page(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    for folder in ("eager", "inductor", "eager"):
        assert run(Request((trace(tmp_path / folder, "step.json"),), output=pages)) == 0
    assert sorted(page.parent.name for page in pages.rglob("trace.html")) == ["inductor-step", "step"]
    assert "inductor/step.json" in (pages / "inductor-step" / "trace.html").read_text()


def test_a_name_that_is_no_text_is_told_and_drawn(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(Request((trace(tmp_path, "bad\udcff\x1b]0;x\x07.json"),), output=tmp_path / "pages")) == 0
    out, err = capfd.readouterr()
    assert out.count("bad\ufffd ]0;x/trace.") == 4 and not err and "\x1b" not in out and "\x07" not in out


def test_a_path_in_an_error_cannot_steer_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(Request((tmp_path / "no\x1b[31m\nsuch",))) == 2
    assert "no [31m such: there is no such file" in capfd.readouterr().err


def test_a_page_is_whole_or_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reports.render import trace_document

    one = trace(tmp_path, "one.json")
    run(Request((one,), output=tmp_path / "pages"))
    before = {path: path.read_bytes() for path in (tmp_path / "pages").rglob("*.*")}

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trace_document, "_copy", stopped)
    trace(tmp_path, "one.json", Recording(devices=[]))
    with pytest.raises(KeyboardInterrupt):
        run(Request((one,), output=tmp_path / "pages"))
    assert {path: path.read_bytes() for path in (tmp_path / "pages").rglob("*.*")} == before


def test_a_full_disk_is_said_without_talk_of_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    run(Request((trace(tmp_path, "one.json"),), output=tmp_path / "file"))
    err = capfd.readouterr().err
    assert "cannot be written" in err and "OUTPUT" in err and "run." not in err


class Broken:
    encoding = "utf-8"

    def __init__(self, error: OSError) -> None:
        self.error = error

    def write(self, _: str) -> None:
        raise self.error

    def fileno(self) -> int:
        raise OSError


def test_a_pipe_that_nobody_reads_is_left_quietly_and_a_full_disk_is_said(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, status in ((BrokenPipeError(), 0), (OSError(28, "No space left on device"), 2)):
        voice = Voice()
        monkeypatch.setattr("sys.stdout", Broken(error))
        voice.say("x")
        voice.say("y")
        monkeypatch.undo()
        assert voice.status == status
        err = capfd.readouterr().err
        assert err.count("standard output cannot be written (No space left on device)") == (status == 2)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert run(Request((tmp_path / "pipe",), table=tmp_path / "pipe", against=tmp_path / "pipe")) == 2
    err = capfd.readouterr().err
    assert err.count("is no regular file") == 5 and "Traceback" not in err


def test_a_missing_table_is_said_again_at_the_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(Request((trace(tmp_path), tmp_path / "gone"), table=tmp_path / "no-table.txt")) == 2
    err = capfd.readouterr().err.splitlines()
    assert ["no-table.txt" in line for line in err] == [True, False, True]


def test_two_ranks_get_a_page_each(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    traces = [trace(tmp_path / rank) for rank in ("rank0", "rank1")]
    assert run(Request(tuple(traces), output=tmp_path / "pages")) == 0
    assert sorted(page.parent.name for page in (tmp_path / "pages").rglob("trace.html")) == [
        "rank0-trace",
        "rank1-trace",
    ]


def test_a_page_that_cannot_be_written_is_said_and_the_next_trace_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    status = run(Request((trace(tmp_path, "one.json"), trace(tmp_path, "two.json")), output=tmp_path / "file"))
    out, err = capfd.readouterr()
    assert status == 2
    assert out.count("Bound by") == 2
    assert err.count("speedproof: ") == 2 and "Traceback" not in err


def test_an_unreadable_table_or_eager_trace_does_not_stop_the_analysis(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for option in ("table", "against"):
        status, document, err = told(capfd, trace(tmp_path), **{option: tmp_path / "missing"})
        assert (status, document["status"], document["table"]) == (2, "ok", None)
        assert err.startswith("speedproof: ") and "missing" in err and err.count("\n") == 1


def test_the_reconciled_table_is_in_json_and_in_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "table.txt").write_text(TABLE)
    _, document, _ = told(capfd, trace(tmp_path), table=tmp_path / "table.txt")
    table = document["table"]
    assert (table["rows"], table["matched"], table["unexplained"]) == (2, 1, 1)
    assert {(one["row"], one["column"], one["table"]) for one in table["differences"]} == {
        ("aten::linear", "self CPU", 31.0)
    }
    assert table["totals"][0]["table_us"] == 218.0
    run(Request((trace(tmp_path),), table=tmp_path / "table.txt"))
    out = " ".join(capfd.readouterr().out.replace("\u00a0", " ").split())
    assert "Table 1 of 2 rows of the table agree with the trace" in out


def test_json_names_kernels_groups_and_counterfactuals(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recording = Recording()
    for number, length in enumerate((300.0, 100.0, 100.0, 300.0)):
        recording.launch("k", 500.25 * number, 500.25 * number + 20, 500.25 * number + 20 + length)
        recording.events[-1]["args"]["grid"] = [4, 1, 1]
    _, document, _ = told(capfd, trace(tmp_path, recording=recording))
    (kernel,) = document["kernels"]
    assert kernel["groups"] == [{"median_us": 100.0, "count": 2}, {"median_us": 300.0, "count": 2}]
    assert (kernel["spread"], kernel["first_ratio"]) == (0.5, 3.0)
    assert kernel["resources"][0]["grid"] == [4, 1, 1]
    (device,) = document["devices"]
    launching = sum(device["idle"][cause] for cause in ("dispatch", "launch_latency", "optimizer", "cold_start"))
    assert device["free_launches"] == pytest.approx(device["window_us"] / (device["window_us"] - launching))
    assert device["idle"]["host_bound"] == pytest.approx(device["idle"]["dispatch"] + device["idle"]["host_unrecorded"])
    assert device["twice_as_fast_kernels"] == pytest.approx(device["window_us"] / (device["window_us"] - 400))
    assert {rule["severity"] for rule in document["rules"]} == {"problem", "hint", "explanation"}
    assert document["withheld"] == []


def never_timed() -> Recording:
    recording = two_steps()
    recording.launch("late", 280.25, 0, 0)
    return recording


def early() -> Recording:
    recording = two_steps()
    recording.launch("early", 300.25, 200.25, 205.25)
    return recording


def test_json_is_silent_on_what_the_health_takes_away(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recording = never_timed()
    for event in recording.events[:-1]:
        event["ts"] += 5e6
    _, document, _ = told(capfd, trace(tmp_path, recording=recording))
    (device,) = document["devices"]
    assert document["withheld"] == ["idle"]
    gone = ("idle_of_window", "idle_of_span", "regime", "free_launches", "twice_as_fast_kernels", "idle")
    assert [device[name] for name in gone] == [None] * 6
    assert device["busy_us"] == 70.0 and device["launch_delay_median_us"] == 30.0
    assert [step["idle"] for step in document["steps"]] == [None, None]


def test_json_gives_no_delay_and_no_cause_where_the_clocks_disagree(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, document, _ = told(capfd, trace(tmp_path, recording=early()))
    (device,) = document["devices"]
    assert document["withheld"] == ["cause", "delay", "idle", "window"], (
        "a difference of 100 us stretches a recording of 240 us"
    )
    assert device["launch_delay_median_us"] is None and device["idle"] is None
    assert device["idle_of_window"] is None and device["busy_us"] == 75.0


@pytest.mark.parametrize(
    ("recording", "rows"),
    [
        (
            never_timed,
            ("idle of window", "idle of span", "regime", "time that counts", "free launches", "twice as fast kernels"),
        ),
        (
            early,
            (
                "window",
                "idle of window",
                "idle of span",
                "regime",
                "time that counts",
                "free launches",
                "twice as fast kernels",
                "exposed communication",
            ),
        ),
    ],
)
def test_the_tables_say_withheld(tmp_path: Path, recording: Any, rows: tuple[str, ...]) -> None:
    from reports.render.trace_tables import devices, idle, steps
    from reports.trace.analyse import analyse

    made = recording()
    for event in made.events[:-1] if recording is never_timed else ():
        event["ts"] += 5e6
    analysis = analyse(trace(tmp_path, recording=made))
    shown = {row[0].text: row[1].text for row in devices(analysis).rows}
    assert {name for name, text in shown.items() if text == "withheld"} == set(rows)
    assert not idle(analysis).rows
    idle_column = [name for name, _ in steps(analysis).columns].index("GPU idle")
    assert all(row[idle_column].text == "withheld" for row in steps(analysis).rows)


def test_a_sweep_takes_the_busiest_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = []
    for size, length in ((64, 10.0), (4096, 900.0)):
        recording = Recording()
        recording.devices = [dict(recording.devices[0], id=number) for number in (0, 1)]
        recording.note("matmul_add", 0.25, 1000.25)
        recording.op("aten::matmul", 0.25, 960.25)
        recording.launch("gemm", 1.25, 20.25, 21.25, device=0)
        recording.launch("gemm", 8.25, 40.25, 40.25 + length, device=1)
        traces.append(trace(tmp_path, f"{size}_bf16_cold_eager.json", recording))
    assert run(Request(tuple(traces))) == 0
    assert "over the sizes: 64 overhead-bound, 4096 compute-bound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (("WALKTHROUGH=yes", "JSON=yes"), "leave one of the two away"),
        (("JSON=maybe",), "JSON=maybe: say yes or no"),
        (("WALKTHROUGH=maybe",), "WALKTHROUGH=maybe: say yes or no"),
    ],
)
def test_make_refuses_what_it_would_have_to_guess(variables: tuple[str, ...], told: str) -> None:
    root = Path(__file__).parents[2]
    command = ["make", "-s", "-o", "setup", "analyze", "TRACE=none.json", *variables]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and told in done.stderr and not done.stdout


def test_a_table_of_another_recording_is_called_that(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = TABLE.replace("aten::linear", "aten::other1").replace(" aten::addmm", "aten::other2")
    third = next(line for line in rows.splitlines() if "aten::other1" in line)
    (tmp_path / "table.txt").write_text(rows.replace(third, f"{third}\n{third.replace('other1', 'other3')}"))
    assert run(Request((trace(tmp_path),), table=tmp_path / "table.txt")) == 2
    said = capfd.readouterr()
    assert "this table is of another recording: 0 of its 3 rows fit the trace" in " ".join(
        said.out.replace("\xa0", " ").split()
    ).replace("This", "this")
    assert "this table is of another recording" in said.err
