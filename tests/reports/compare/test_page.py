"""The page: what it says, that it is the same every time, and that a stranger's texts stay texts in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from reports.compare.load import gather
from reports.compare.matrix import Comparison, compare
from reports.compare.parity import Allowed
from reports.render import comparison as told
from reports.render import comparison_chart
from reports.render.comparison_cards import cards
from reports.render.comparison_document import CSV, HTML, PDF, folder_name, render_html, write
from reports.render.comparison_table import table
from suite.bundle import schema
from suite.bundle.errors import BundleError
from suite.bundle.writer import RUN
from tests.reports.compare.bundles import MATMUL, POINTWISE, arms, bundle, fact, gathered

TIMES = {MATMUL: arms(30e3, 20e3), POINTWISE: arms(100e3, 50e3)}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PDFTOTEXT = shutil.which("pdftotext")


def page(tmp_path: Path, allow: Sequence[Allowed] = (), **other: object) -> Comparison:
    base = bundle(tmp_path / "base", TIMES)
    times = {MATMUL: arms(30e3, 20e3, seed=3), POINTWISE: arms(50e3, 20e3)}
    second = bundle(tmp_path / "other", times, **{"unit": "2", "cpu": "Other CPU", **other})  # type: ignore[arg-type]
    return compare(gathered(base, second), None, allow)


def test_the_headline_is_the_plans_last_case_and_speaks_of_this_unit(tmp_path: Path) -> None:
    sentence = told.headline(page(tmp_path))
    assert sentence.startswith("a test of pointwise_chain, torch.compile: B (this unit of Other CPU, 2 cores) is 2.")
    assert sentence.endswith("as fast as A.")


def test_the_headline_is_about_a_case_that_another_run_has_measured(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", TIMES)
    other = bundle(tmp_path / "other", {MATMUL: arms(30e3, 10e3)}, unit="2", cpu="Other CPU")
    assert told.headline(compare(gathered(base, other))).startswith("a test of matmul_add, torch.compile: B (")
    apart = bundle(tmp_path / "apart", {"matmul_add/4096-fp32": arms(30e3, 10e3)}, unit="2")
    only = bundle(tmp_path / "only", {POINTWISE: arms(30e3, 10e3)})
    sentence = told.headline(compare(gathered(only, apart)))
    assert sentence == "2 runs of 1 machine model against A, and nothing can be claimed: 2 without a baseline."


def test_a_baseline_that_shares_nothing_is_told_which_one_would(tmp_path: Path) -> None:
    alone = bundle(tmp_path / "alone", {"mobilebert_qa/b1-s8-fp32": arms(30e3, 10e3)})
    few = bundle(tmp_path / "few", {MATMUL: arms(30e3, 10e3)}, unit="2")
    both = [bundle(tmp_path / name, TIMES, unit=name) for name in ("p", "q")]
    found = compare(gathered(alone, few, *both))
    helps = "No other run has measured what A has. BASELINE=B could compare 3 runs in 1 case."
    assert told.what_would_help(compare(gathered(alone, few, both[0]))).endswith(
        "BASELINE=B could compare 2 runs in 1 case."
    )
    assert told.what_would_help(found) == helps.replace("=B", "=C").replace("1 case", "2 cases")
    assert "BASELINE=C could compare" in render_html(found)
    assert told.what_would_help(compare(found.gathered, "C")) == ""
    (both[0] / "added.txt").write_text("x")
    changed = told.what_would_help(compare(gathered(alone, few, *both)))
    assert changed.endswith("BASELINE=B could compare 2 runs in 1 case.")
    apart = told.what_would_help(compare(gathered(alone, few)))
    assert apart.startswith("No other run has measured what A has, nor have any two") and "CASES" in apart


def test_a_run_without_a_case_is_named_once_and_not_in_every_arms_row(tmp_path: Path) -> None:
    base = bundle(tmp_path / "base", TIMES)
    other = bundle(tmp_path / "other", {MATMUL: arms(30e3, 10e3)}, unit="2")
    found = compare(gathered(base, other))
    assert [(row.case, row.letter) for row in table(found) if row.case == POINTWISE] == [(POINTWISE, "A")] * 2
    assert told.without_case(found) == f"B: {POINTWISE}"
    assert f"does not have the case. B: {POINTWISE}." in render_html(found)
    assert "does not have the case." not in render_html(page(tmp_path / "same"))


def test_what_is_written_beside_a_dot_stays_within_the_picture(tmp_path: Path) -> None:
    """A picture that grows by its texts is drawn smaller on the page than its neighbours."""
    wide = []
    base = bundle(tmp_path / "base", {POINTWISE: arms(100e3, 50e3)}, rates=None)
    for dtype in ("float32", "bfloat16"):
        # The slower of the two, so that its text begins far to the right.
        slower = {POINTWISE: arms(120e3, 60e3)}
        other = bundle(tmp_path / dtype, slower, unit="2", rates=None, case_changes={"dtype": dtype})
        picture = comparison_chart.times(compare(gathered(base, other)).rows)
        match = re.search(r'viewBox="0 0 ([\d.]+) ', picture)
        assert match
        wide.append(float(match[1]))
    assert wide[1] == pytest.approx(wide[0], rel=0.03)


def test_the_page_says_what_may_be_said_of_a_model(tmp_path: Path) -> None:
    text = render_html(page(tmp_path))
    assert "of Test CPU, 2 cores; Other CPU, 2 cores fewer than three units were measured" in text
    paths = [
        bundle(tmp_path / name, TIMES, cpu=f"CPU {name[0]}", unit=name) for name in ("x1", "x2", "x3", "y1", "y2", "y3")
    ]
    text = render_html(compare(gathered(*paths)))
    assert "this unit" not in text.replace("what one unit shows", "")
    assert "CPU y, 2 cores (3 units) against CPU x, 2 cores (3 units)" in text


def test_what_was_allowed_stands_in_the_title(tmp_path: Path) -> None:
    text = render_html(page(tmp_path, ("torch", "threads"), torch={"version": "2.11.0"}))
    assert "<title>Speedproof comparison (torch versions differ, allowed)</title>" in text
    assert '<span class="mark">(torch versions differ, allowed)</span></h1>' in text
    assert "allowed)" not in render_html(page(tmp_path / "same", ("torch",)))


def test_a_refused_row_is_hatched_with_its_reason_and_never_ranked(tmp_path: Path) -> None:
    found = page(tmp_path, case_changes={"dtype": "bfloat16"})
    text = render_html(found)
    assert text.count('<tr class="refused">') == 4
    assert "dtype bfloat16, in the baseline float32" in text
    refused = [row for row in table(found) if row.kind == "refused"]
    assert {(row.by_time, row.by_ratio, row.by_speedup, row.by_share) for row in refused} == {("", "", "", "")}
    assert all(row.time != "–" for row in refused)
    assert "hatch" in text or "pattern" in text  # the chart's ground


def test_runs_that_are_not_publishable_are_marked_with_their_reasons(tmp_path: Path) -> None:
    found = page(tmp_path, publishable=False, reasons=["the preset smoke is never publishable"])
    text = render_html(found)
    assert "<td>B*</td>" in text and "the preset smoke is never publishable" in text
    assert "eager  B*" in text or "eager B*" in text
    assert "<td>A*</td>" in text  # the samples are not publishable either
    whole = [bundle(tmp_path / name, TIMES, unit=name, publishable=True) for name in "pq"]
    assert "*</td>" not in render_html(compare(gathered(*whole)))


def test_a_run_whose_files_were_changed_is_marked_whatever_it_says(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, unit=name, publishable=True) for name in "pq"]
    with (paths[1] / "events.jsonl").open("a") as file:
        file.write(paths[0].joinpath("events.jsonl").read_text().splitlines(keepends=True)[0])
    text = render_html(compare(gathered(*paths)))
    assert "<td>B*</td>" in text and "<td>A</td>" in text
    assert "1 changed (events.jsonl)" in text


def test_left_out_bundles_are_named_on_the_page(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, unit=name) for name in "pqr"]
    (paths[1] / RUN).write_text("{}")
    text = render_html(compare(gathered(*paths, tmp_path / "gone")))
    assert '<b class="no">q</b>: run.json: damaged' in text
    assert '<b class="no">gone</b>: not a bundle (it does not exist)' in text
    assert str(tmp_path) not in text


def test_the_three_files_are_the_same_every_time(tmp_path: Path) -> None:
    found = page(tmp_path)
    paths = write(found, tmp_path / "out")
    assert [path.name for path in paths] == [HTML, PDF, CSV]
    first = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write(found, tmp_path / "out")] == first
    assert first[1].startswith(b"%PDF")


def test_other_runs_baselines_and_allowances_have_folders_of_their_own(tmp_path: Path) -> None:
    members = page(tmp_path).gathered
    names = {folder_name(compare(members, base, allow)) for base in ("A", "B") for allow in ((), ("torch",))}  # type: ignore[arg-type]
    assert len(names) == 4 and all(re.fullmatch(r"comparison-[0-9a-f]{8}", name) for name in names)


def test_nothing_is_written_into_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="sealed by its checksums"):
        write(page(tmp_path), tmp_path / "base" / "sub")


def test_the_command_repeats_the_comparison(tmp_path: Path) -> None:
    found = page(tmp_path, ("torch",), run_id="x; rm -rf")
    assert told.command(found) == "make compare RUNS='base other' ALLOW=torch" and told.where_runs_lie(found) == ""
    again = compare(found.gathered, "B", ("torch",))
    assert told.command(again) == "make compare RUNS='base other' BASELINE=B ALLOW=torch"


def test_the_command_names_folders_as_given_and_says_when_they_have_to_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, name in (("results", "a"), ("kept", "b"), ("far", "c")):
        bundle(tmp_path / place / name, TIMES, unit=name)
    monkeypatch.chdir(tmp_path)
    found = compare(gather(["a", "kept/b", str(tmp_path / "far" / "c")], Path("results")))
    assert told.command(found) == "make compare RUNS='a kept/b c'"
    html = render_html(found)
    assert "With the folders of the runs below OUTPUT; C lay elsewhere." in html and str(tmp_path) not in html


def test_bundles_of_one_id_that_hold_something_else_have_folders_of_their_own(tmp_path: Path) -> None:
    other = bundle(tmp_path / "other", TIMES, unit="2")
    whole = bundle(tmp_path / "whole", TIMES)
    for copy in ("edited", "truncated", "rendered"):
        shutil.copytree(whole, tmp_path / copy)
    text = (whole / "samples.jsonl").read_text()
    (tmp_path / "edited" / "samples.jsonl").write_text(text.replace('"position":1', '"position":0'))
    (tmp_path / "truncated" / "samples.jsonl").write_text("\n".join(text.splitlines()[:-4]) + "\n")
    (tmp_path / "rendered" / "report.html").write_text("rendered")
    names = {
        copy: folder_name(compare(gathered(tmp_path / copy, other)))
        for copy in ("whole", "edited", "truncated", "rendered")
    }
    assert len(set(names.values())) == 3 and names["rendered"] == names["whole"]


def test_runs_of_one_machine_are_named_by_what_they_are_unlike_the_baseline(tmp_path: Path) -> None:
    engine = schema.Engine(name="podman", containerised=True, reason="found")
    base = bundle(tmp_path / "a", TIMES)
    faster = bundle(tmp_path / "b", {POINTWISE: arms(50e3, 20e3)}, engine=engine)
    half = {"pointwise_chain/64x64-bf16": arms(50e3, 20e3)}
    refused = bundle(tmp_path / "c", half, case_changes={"dtype": "bfloat16"})
    found = compare(gathered(base, faster, refused))
    assert re.fullmatch(
        r"a test of pointwise_chain, torch.compile: B \(in podman\) is 2\.\d+× as fast as A; "
        r"C \(bfloat16\) is refused \(dtype bfloat16, in the baseline float32\)\.",
        told.headline(found),
    )
    assert told.machine_line(found).startswith(
        "A (native, float32), B (in podman, float32), C (native, bfloat16): this unit of"
    )
    assert told.without_case(found) == f"B, C: {MATMUL}"
    assert {(row.case, row.letter) for row in table(found)} == {(MATMUL, "A"), *((POINTWISE, x) for x in "ABC")}
    assert told.tally(found) == "2 faster, 2 refused"


def test_a_run_that_is_refused_wherever_it_has_a_row_says_so_in_the_headline(tmp_path: Path) -> None:
    base, other = bundle(tmp_path / "a", TIMES), bundle(tmp_path / "b", TIMES, unit="2")
    half = {"matmul_add/64-bf16": arms(50e3, 20e3)}
    refused = bundle(tmp_path / "c", half, case_changes={"dtype": "bfloat16"})
    sentence = told.headline(compare(gathered(base, other, refused)))
    assert sentence.endswith(
        "; C (bfloat16) is refused in every row that it has (dtype bfloat16, in the baseline float32)."
    )


def test_two_sessions_of_a_unit_that_differ_are_named_as_that(tmp_path: Path) -> None:
    found = compare(gathered(bundle(tmp_path / "a", TIMES), bundle(tmp_path / "b", {POINTWISE: arms(90e3, 45e3)})))
    assert "as fast as A, the same unit with the same settings." in told.headline(found)
    assert any("so far do two of its sessions differ" in row.note for row in table(found))


def test_a_card_tells_rates_in_their_own_unit_and_no_fault_twice(tmp_path: Path) -> None:
    claim = "KMP_BLOCKTIME is set, but another run-time ignores it"
    reasons = [f"{claim} (launch.kmp)", "the preset smoke is never publishable"]
    found = page(tmp_path, rates=(4300.0, 818e3), publishable=False, reasons=reasons)
    finding = schema.Finding(rule="launch.kmp", severity="wrong", claim=claim, evidence=["seen"])
    member, group = found.members[1], found.groups[1]
    assert member.bundle.fingerprint is not None
    others = "Other programs took up to 60 % of the measured CPUs"
    disturbed = schema.Finding(
        rule="telemetry.busy-neighbours", severity="doubtful", claim=f"{others}.", evidence=["seen"]
    )
    fingerprint = msgspec.structs.replace(member.bundle.fingerprint, findings=[finding, disturbed])
    member = replace(member, bundle=msgspec.structs.replace(member.bundle, fingerprint=fingerprint))
    group = replace(group, members=(member,), units=((member,),))
    (card,) = cards(replace(found, members=(found.members[0], member), groups=(found.groups[0], group)), group)
    rates = dict(card.lines)["Best rates"].replace("\u00a0", " ")
    assert rates.startswith("4.30 TB/s (triad") and "818 TFLOP/s" in rates
    assert dict(card.lines)["Conditions"] == others
    (calm,) = cards(found, found.groups[0])
    assert dict(calm.lines)["Conditions"] == "nothing that slows a run down was found"
    assert card.wrong == [claim, "not publishable: the preset smoke is never publishable"]


def test_what_was_allowed_twice_is_one_mark(tmp_path: Path) -> None:
    found = page(tmp_path, ("torch", "threads"), torch={"version": "2.11.0"}, threads=8)
    assert told.mark(found) == "torch versions and thread counts differ, allowed"


def test_a_mean_says_in_how_many_of_its_cases_nothing_is_claimed(tmp_path: Path) -> None:
    noisy = {MATMUL: arms(30e3, 20e3, seed=3), POINTWISE: arms(50e3, 20e3)}
    noisy[MATMUL]["eager#2"] = [time * 1.5 for time in noisy[MATMUL]["eager"]]
    found = compare(gathered(bundle(tmp_path / "a", TIMES), bundle(tmp_path / "b", noisy, unit="2")))
    assert re.fullmatch(r"eager, 2/2 cases: B 1\.4\d+× \(nothing is claimed in 1 of 2\)\.", told.means(found)[0])


def test_a_gpus_time_is_said_to_be_its_own(tmp_path: Path) -> None:
    assert told.clocks(page(tmp_path / "cpu")) == ""
    found = page(tmp_path / "gpu", device=schema.Device(kind="cuda", name="Fast GPU"))
    assert "(B) is taken between two events on the GPU" in told.clocks(found)
    assert "on a processor (A)" in render_html(found)


def test_many_runs_are_counted_in_the_headline(tmp_path: Path) -> None:
    paths = [bundle(tmp_path / name, TIMES, unit=name) for name in "abcde"]
    assert told.headline(compare(gathered(*paths))).startswith("5 runs of 1 machine model against A: 16 equivalent")


SCRIPT = "<script>document.title='owned';alert(1)</script><img src=x onerror=\"document.title='owned'\">"


def hostile(tmp_path: Path) -> Comparison:
    """A stranger's bundle: scripts, formulas, escapes and odd values wherever the format lets a text or any value in."""
    text = f"{SCRIPT}\u0000\u001b[31m\u202e $\\frac{{1}}{{0}}$"
    odd: dict[str, object] = {
        "cpu": text,
        "facts": {
            "memory": {"total_bytes": fact(text)},
            "torch": {"version": fact([text])},
            f"gpu{SCRIPT}": {SCRIPT: fact({SCRIPT: SCRIPT}), "list": fact([{"name": SCRIPT}])},
            "gpu": {"gpu 0 name": fact(SCRIPT)},
            "system": {"product_name": fact({"a": float("1e300")}), "sys_vendor": fact(SCRIPT)},
        },
        "torch": {"version": SCRIPT, SCRIPT: SCRIPT},
        "run_id": SCRIPT,
        "preset": SCRIPT,
        "reasons": [text],
        "engine": schema.Engine(name="docker", containerised=True, reason=text, image=text, losses=[text]),
        "case_changes": {"title": f"=cmd{text}", "dtype": text, "parameters": {SCRIPT: [SCRIPT]}},
    }
    times = {MATMUL: arms(30e3, 20e3), "=cmd/x": arms(1e3, 1e3)}
    refused = bundle(tmp_path / "refused", times, unit="3")
    base, evil = (
        bundle(tmp_path / "base", TIMES, **odd),
        bundle(tmp_path / "evil", TIMES, **{**odd, "unit": "2", "run_id": "=cmd"}),
    )  # type: ignore[arg-type]
    return compare(gathered(base, evil, refused))


def test_a_case_whose_name_is_a_formula_is_refused_by_the_reader_and_named(tmp_path: Path) -> None:
    (left,) = hostile(tmp_path).gathered.left_out
    assert left.own_name == "refused" and "cases[1].name" in left.reason


def test_texts_of_a_bundle_are_escaped_everywhere_in_the_page(tmp_path: Path) -> None:
    html = render_html(hostile(tmp_path))
    assert html.count("<script") == 1 and "<img" not in html and 'onerror="' not in html
    assert "&lt;script&gt;document.title" in html
    assert all(each.isprintable() for each in re.sub(r"[\n\u00a0]", "", html))
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert script is not None and "owned" not in script[1]


@pytest.mark.skipif(PDFTOTEXT is None, reason="pdftotext is not installed")
def test_texts_of_a_bundle_are_texts_in_the_pdf(tmp_path: Path) -> None:
    _, pdf, _ = write(hostile(tmp_path), tmp_path / "out")
    assert PDFTOTEXT is not None
    shown = subprocess.run([PDFTOTEXT, str(pdf), "-"], capture_output=True, text=True, check=True).stdout
    assert "<script>document.title='owned'" in re.sub(r"\s+", "", shown).replace("document.title=", "document.title=")
    assert b"/JavaScript" not in pdf.read_bytes() and b"/JS" not in pdf.read_bytes()


def dump(path: Path) -> str:
    """The page's elements after a browser has loaded it and run what it would run."""
    assert CHROMIUM is not None
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--virtual-time-budget=2000",
    ]  # fmt: skip
    # A browser makes sockets, whose paths may have 107 bytes: too few for some TMPDIRs.
    with tempfile.TemporaryDirectory(dir="/tmp") as profile:
        command = [CHROMIUM, *options, f"--user-data-dir={profile}", "--dump-dom", path.as_uri()]
        short = {**os.environ, "TMPDIR": profile}
        return subprocess.run(command, env=short, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_runs_the_pages_own_script_and_no_other(tmp_path: Path) -> None:
    html = render_html(hostile(tmp_path))
    path = tmp_path / "page.html"
    path.write_text(html)
    shown = dump(path)
    assert "<title>Speedproof comparison</title>" in shown
    assert 'class="filters"' in shown and "4 of" not in shown.split("</style>")[0]
    # The trap works: the same script, in the page as it is, would run where no policy forbids it, and is stopped where one does.
    trapped = html.replace("</body>", f"{SCRIPT}</body>")
    path.write_text(trapped)
    assert "<title>Speedproof comparison</title>" in dump(path)
    path.write_text(re.sub(r"<meta http-equiv=[^>]*>", "", trapped).replace("alert(1)", ""))
    assert "<title>owned</title>" in dump(path)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_table_sorts_with_what_is_never_ranked_below_and_filters(tmp_path: Path) -> None:
    found = page(tmp_path, case_changes={"dtype": "bfloat16"})
    clicks = (
        "var heads=document.querySelectorAll('#cells th button');heads[3].click();"
        "var s=document.querySelector('.filters select');s.value=s.options[2].value;s.dispatchEvent(new Event('change'));"
    )
    html = re.sub(r"<meta http-equiv=[^>]*>", "", render_html(found)).replace(
        "</body>", f"<script>{clicks}</script></body>"
    )
    path = tmp_path / "page.html"
    path.write_text(html)
    shown = dump(path)
    assert ">4 of 8 rows<" in shown
    rows = re.findall(
        r'<tr class="(\w+)"( hidden="")?>\s*<td class="arm">([^<]*)</td>', shown[shown.index('id="cells"') :]
    )
    assert [kind for kind, *_ in rows] == ["baseline"] * 4 + ["refused"] * 4
    assert {case for _, hidden, case in rows if not hidden} == {POINTWISE}
