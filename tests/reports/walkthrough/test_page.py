"""The walkthrough's page: as a command's output, and in a bundle's report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from reports import ask as command
from reports.render import trace_summary, walkthrough_bundle
from reports.render.document import render, render_html
from reports.render.walkthrough_document import render_html as page_html
from reports.render.walkthrough_document import shown
from reports.results import results
from suite.bundle import manifest, reader, schema
from tests import samples
from tests.reports.findings.recordings import Recording
from tests.reports.trace.kineto import packed
from tests.reports.walkthrough import planted

CASE = "matmul_add/4096-bf16-hot"
PARAMETERS = {"size": 4096, "batch": None, "dtype": "bfloat16"}
COLD = schema.Pass(name="cold", schedule=schema.ProfilerSchedule(), arms=["eager", "inductor"])
GPU = schema.Device(kind="cuda", name="NVIDIA A100-SXM4-80GB", memory_bytes=85051572224, visible=["0", "1"])


def content(trace: Recording) -> bytes:
    return packed(json.dumps({"schemaVersion": 1, "deviceProperties": [planted.A100], "traceEvents": trace.events}))


def bundle(folder: Path, traces: dict[str, bytes], **changes: object) -> Path:
    path = samples.write(
        folder / "run",
        {CASE: {"eager": [6.5e5, 6.6e5, 6.4e5], "inductor": [6.2e5, 6.1e5, 6.3e5]}},
        changes={"arms": [arm for arm in samples.ARMS if arm.role != "noise"], "device": GPU, **changes},
        case_changes={"parameters": PARAMETERS, "dtype": "bfloat16", "cache": "hot", "passes": [COLD]},
    )
    for place, data in traces.items():
        (path / "cases" / CASE / place).mkdir(parents=True, exist_ok=True)
        (path / "cases" / CASE / place / "trace.json.gz").write_bytes(data)
    manifest.write(path)
    return path


def whole(folder: Path) -> Path:
    return bundle(
        folder,
        {
            "eager": content(planted.eager(gaps=(4.0,))),
            "inductor": content(planted.compiled()),
            "eager/passes/cold": content(planted.eager((2100.0, 1500.0, 691.9))),
        },
    )


def test_a_bundle_of_matmul_add_has_the_page_and_its_report_links_to_it(tmp_path: Path) -> None:
    path = whole(tmp_path)
    render(path)
    page, report = (path / "walkthrough.html").read_text(), (path / "report.html").read_text()
    assert 'href="walkthrough.html"' in report and "Did compile fuse the kernel?" in report
    assert "same GEMM kernel" in page and "32\u00a0MiB" not in report.split("walkthrough.html")[0]
    assert f'href="cases/{CASE}/eager/passes/cold/trace.html"' in page
    check = manifest.check(path)
    assert check.changed == check.missing == check.unlisted == []
    assert (path / "cases" / CASE / "eager" / "passes" / "cold" / "trace.html").is_file()


def test_pages_made_by_another_version_are_no_sign_of_a_changed_bundle(tmp_path: Path) -> None:
    path = whole(tmp_path)
    render(path)
    pages = [path / "walkthrough.html", path / "cases" / CASE / "eager" / "passes" / "cold" / "trace.html"]
    for page in pages:
        page.write_text("another version's")
    assert "not as they were measured" not in render_html(reader.load(path))


def test_rendering_again_gives_the_same_page(tmp_path: Path) -> None:
    path = whole(tmp_path)
    render(path)
    first = (path / "walkthrough.html").read_bytes()
    render(path)
    assert (path / "walkthrough.html").read_bytes() == first


def test_another_workload_or_no_trace_has_no_such_page(tmp_path: Path) -> None:
    path = bundle(tmp_path, {})
    render(path)
    assert not (path / "walkthrough.html").exists()
    assert "The walkthrough's questions" not in (path / "report.html").read_text()


def test_a_question_that_breaks_does_not_cost_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(walkthrough_bundle, "shown", broken)
    html = render_html(reader.load(whole(tmp_path)))
    assert "The questions could not be asked (ZeroDivisionError: division by zero)" in html


def test_a_bundle_s_recordings_know_size_pass_and_rate(tmp_path: Path) -> None:
    loaded = reader.load(whole(tmp_path))
    found = walkthrough_bundle.recordings(loaded, trace_summary.case_traces(loaded), results(loaded))
    assert found is not None
    cold = found.pick("eager", 4096, "cold")
    assert cold is not None and cold.label == f"{CASE}, eager, pass cold" and cold.dtype == "bf16"
    assert cold.outcome("rate").claim == "The longest matrix product whose size is recorded runs at 91.63 TFLOP/s"
    assert found.machine.timed[4096, "inductor"].startswith("650\u00a0µs a call eager, 620\u00a0µs inductor")


def test_conditions_of_timed_blocks_are_counted_with_the_power_limit(tmp_path: Path) -> None:
    loaded = reader.load(whole(tmp_path))
    slowed = [
        schema.Block(
            **{
                **{f: getattr(b, f) for f in b.__struct_fields__},
                "conditions": ["slowed down: power, in 1 of 1 readings"],
            }
        )
        for b in loaded.blocks[:2]
    ]
    # torch's GPU 0 is NVML's GPU 1: another is hidden from it.
    values = {
        "gpu 0 pci_bus_id": "00000000:19:00.0",
        "gpu 0 power_limit_w": 350.0,
        "gpu 1 pci_bus_id": "00000000:d9:00.0",
        "gpu 1 power_limit_w": 700.0,
    }
    facts = {"gpu": {name: schema.Fact(value=value, source="NVML", status="ok") for name, value in values.items()}}
    changed = {f: getattr(loaded, f) for f in loaded.__struct_fields__}
    changed |= {
        "blocks": [*slowed, *loaded.blocks[2:]],
        "run": msgspec.structs.replace(
            loaded.run, device=msgspec.structs.replace(loaded.run.device, bus_id="00000000:d9:00.0")
        ),
        "fingerprint": schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts=facts),
    }
    again = reader.Loaded(**changed)
    assert walkthrough_bundle.machine(again, results(again)).conditions == (
        f"slowed down: power, at a power limit of 700 W, in 2 of this run's {len(loaded.blocks)} timed blocks of matmul_add",
    )


def test_further_profiles_are_listed_and_a_missing_one_is_said(tmp_path: Path) -> None:
    loaded = reader.load(whole(tmp_path))
    rows = trace_summary.passes_by_case(loaded.run, trace_summary.case_traces(loaded))[CASE]
    assert [(row.name, row.arm) for row in rows] == [("cold", "eager"), ("cold", "inductor")]
    assert "compute-bound" in rows[0].told and rows[0].page.endswith("eager/passes/cold/trace.html")
    assert rows[1].told == "not made, or not finished" and not rows[1].page
    assert rows[0].made == "no call before; wait 1, warm-up 1, 3 steps"


def test_names_in_a_trace_stay_text_on_the_page(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>_gemm"
    recordings = planted.taken(planted.save(tmp_path, "4096_bf16_warm_eager", planted.eager(gemm=bad)))
    html = page_html(shown(recordings))
    assert "<script>" not in html and "&lt;script&gt;alert(1)" in html


def test_the_command_writes_both_documents_and_names_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = planted.save(tmp_path, "64_bf16_cold_eager", planted.eager(gaps=(227.757, 5.0)))
    other = planted.save(tmp_path, "profile", planted.eager())
    assert command.run([good, other], tmp_path / "out") == 2
    told = capsys.readouterr()
    assert "227.757 us pass between matmul_add" in told.out
    assert "profile.json: its name does not say what was recorded" in told.err
    assert (tmp_path / "out" / "walkthrough" / "walkthrough.pdf").read_bytes().startswith(b"%PDF")
    assert "227.757\u00a0µs pass" in (tmp_path / "out" / "walkthrough" / "walkthrough.html").read_text()


def test_the_command_of_nothing_usable_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "reports", "walkthrough", str(tmp_path / "64_bf16_cold_eager.json")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith("speedproof: ") and done.stderr.count("\n") == 1
