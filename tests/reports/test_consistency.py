"""A report does not contradict itself: odd bundles are rendered, and their sentences are held against their numbers."""

from __future__ import annotations

import html as entities
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, cached_property

import pytest

from reports import seal
from reports.render import charts
from reports.render.document import render_html
from reports.results import ArmResult, CaseResult, results
from reports.state import regimes, series
from suite.bundle import manifest, readings
from suite.bundle.reader import Loaded
from tests.reports.odd_bundles import LAST, ODD

WORDS = ("faster", "slower", "equivalent", "inconclusive")
CLAIMS = WORDS[:3]


class Shown:
    """A bundle and what its report says, in pieces: text without tags, and the pictures apart."""

    def __init__(self, bundle: Loaded) -> None:
        self.bundle = bundle
        check = seal.checked(bundle)
        self.results = results(bundle, seal.barred(bundle.run, check))
        self.html = render_html(bundle)

    @staticmethod
    def plain(html: str) -> str:
        """The words of a piece of the page."""
        html = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", html, flags=re.S)
        return " ".join(entities.unescape(re.sub(r"<[^>]+>", " ", html)).replace("\u00a0", " ").split())

    @cached_property
    def text(self) -> str:
        return self.plain(self.html)

    @property
    def headline(self) -> str:
        return self.plain(re.findall(r"<h1>(.*?)</h1>", self.html, re.S)[0])

    def section(self, name: str) -> str:
        """The HTML of a section by its id."""
        return re.findall(rf'<section[^>]*id="{re.escape(name.replace("/", "-"))}">.*?</section>', self.html, re.S)[0]

    def told(self, title: str) -> str:
        """A line of the first screen by its title; empty where there is none."""
        found = re.findall(rf"<dt>{title}</dt><dd>(.*?)</dd>", self.html, re.S)
        return self.plain(found[0]) if found else ""

    @property
    def comparisons(self) -> list[tuple[CaseResult, ArmResult, str, str]]:
        """Every comparison with its verdict's word and what the table of results says in its row."""
        rows = re.findall(
            r'<tr>\s*(<td class="arm">.*?)</tr>(?:\s*<tr class="why">(.*?)</tr>)?', self.section("results"), re.S
        )
        told = [self.plain(" ".join(row)) for row in rows if ">baseline</td>" not in row[0]]
        pairs = self.results.comparisons
        assert len(told) == len(pairs)
        return [
            (case, arm, (arm.verdict.word if arm.verdict else None) or "", row)
            for (case, arm), row in zip(pairs, told, strict=True)
        ]

    @property
    def headline_word(self) -> str:
        head = self.results.headline
        return (head.arm.verdict.word or "") if head and head.arm.verdict else ""

    @property
    def captions(self) -> Iterator[tuple[CaseResult, str, str]]:
        """Cases with the picture of their distributions and its caption."""
        for case in self.results.cases:
            figure = re.findall(
                r"<figure>(<svg.*?</svg>)\s*<figcaption>(.*?)</figcaption>", self.section(case.case.name), re.S
            )
            assert bool(figure) == bool(case.baseline.blocks)
            if figure:
                yield case, figure[0][0], self.plain(figure[0][1])


@pytest.fixture(scope="module")
def shown_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shown]:
    """A bundle and its report by name; each is rendered once."""
    return cache(lambda name: Shown(ODD[name](tmp_path_factory.mktemp("odd") / "run")))


@pytest.fixture(params=ODD)
def shown(shown_of: Callable[[str], Shown], request: pytest.FixtureRequest) -> Shown:
    return shown_of(request.param)


def test_there_are_many_oddities_and_each_is_odd(shown_of: Callable[[str], Shown]) -> None:
    assert len(ODD) >= 25
    usual = shown_of("nothing odd")
    assert usual.headline_word == "faster"
    alike = {name for name in ODD if name != "nothing odd" and shown_of(name).text == usual.text}
    # Rendered files and a good profile are no news: the report has to be the same but for what they add.
    assert alike <= {"files that are rendered"}


def test_the_headline_agrees_with_the_count(shown: Shown) -> None:
    words = Counter(word for *_, word, _ in shown.comparisons)
    tally = shown.told("All of this run")
    for word in WORDS:
        assert (f"{words[word]} {word}" in tally) == (words[word] > 0)
    elsewhere = sum(words[word] for word in CLAIMS) - (shown.headline_word in CLAIMS)
    if shown.headline_word == "inconclusive":
        assert "no claim" in shown.headline
        assert bool(re.search(rf"\b{elsewhere} (is|are) settled", shown.headline)) == (elsewhere > 0)
        assert ("comparison of this run either" in shown.headline) == (elsewhere == 0)
    elif shown.headline_word:
        assert "no claim" not in shown.headline.lower()
    if shown.results.barred:
        assert not any(words[word] for word in WORDS) and "no claim" in shown.headline


def test_the_table_shows_the_verdicts_that_are_counted_and_drawn(shown: Shown) -> None:
    badges = re.findall(r'<span class="verdict ([a-z-]+)">', shown.section("results"))
    assert Counter(badges) == Counter(
        (word or "no-verdict") for _, arm, word, _ in shown.comparisons if arm.verdict is not None
    )
    picture = re.findall(r"<figure>(<svg.*?</svg>)\s*</figure>", shown.section("verdict"), re.S)[0]
    for word in WORDS:
        drawn = f"fill: {charts.VERDICT_COLOURS[word]}" in picture
        assert drawn == (word in {found for *_, found, _ in shown.comparisons})


def test_every_condition_that_failed_is_named_with_its_threshold(shown: Shown) -> None:
    for case, arm, word, row in shown.comparisons:
        if word != "inconclusive" or "still changing" in row:
            continue
        assert arm.ratio and arm.ratio.interval and arm.adjusted_p is not None
        upper = 1 + case.noise_floor.delta
        outside = arm.ratio.interval.low > upper or arm.ratio.interval.high < 1 / upper
        inside = arm.ratio.interval.low >= 1 / upper and arm.ratio.interval.high <= upper
        assert ("reaches across" in row) == (not outside and not inside)
        assert ("not below 0.01" in row) == (arm.adjusted_p >= 0.01 and not inside)
        assert ("above 5 %, too wide" in row) == (case.noise_floor.delta > 0.05 and not outside)
    assert "Only a bar" not in shown.text


def test_a_bar_outside_the_band_without_a_claim_says_why(shown: Shown) -> None:
    for case, arm, word, row in shown.comparisons:
        if not arm.ratio or not arm.ratio.interval or word in ("faster", "slower"):
            continue
        upper = 1 + case.noise_floor.delta
        if arm.ratio.interval.low > upper or arm.ratio.interval.high < 1 / upper:
            assert re.search("not below 0.01|still changing|accuracy check failed|not as they were|no checksums", row)


def test_compiling_is_said_to_pay_or_never_to_by_a_verdict_alone(shown: Shown) -> None:
    for case, arm, word, _ in shown.comparisons:
        if arm.compilation.cold_ns is None or arm.ratio is None:
            continue
        details = shown.plain(re.findall(r"Behind the verdict.*?</table>", shown.section(case.case.name), re.S)[0])
        assert bool(re.search(r"(?<!after )(?<!before )[\d,.]+ calls \(", details)) == (word == "faster")
        assert ("never: " in details) == (word == "slower")
        assert ("unknown, no verdict" in details) == (word == "inconclusive" and arm.ratio.interval.high > 1)  # type: ignore[union-attr]


def test_equal_code_that_differs_is_said_and_nothing_else_is(shown: Shown) -> None:
    for case in shown.results.cases:
        again = case.noise.ratio if case.noise else None
        excludes = bool(again and again.interval and not again.interval.contains(1.0))
        assert ("excludes 1:" in shown.plain(shown.section(case.case.name))) == excludes
    head = shown.results.headline
    if head and head.case.noise_floor.doubt:
        assert "excludes 1:" in shown.told("Noise floor")
    assumed = [case for case in shown.results.cases if case.noise is None or case.noise.ratio is None]
    assert shown.plain(shown.section("results")).count("(assumed)") == len(assumed)
    assert ("Eager runs twice" in shown.text) == any(arm.role == "noise" for arm in shown.bundle.run.arms)


def test_a_caption_counts_the_dots_that_are_drawn(shown: Shown) -> None:
    for case, picture, caption in shown.captions:
        collections = re.findall(r'<g id="PathCollection_\d+">(.*?)</g>\s*</g>', picture, re.S)
        drawn = [len(re.findall("<use ", collection)) for collection in collections]
        assert len(drawn) == len([arm for arm in case.arms if arm.blocks])
        for arm, dots in zip([arm for arm in case.arms if arm.blocks], drawn, strict=True):
            if "every iteration is a dot" in caption:
                assert dots == arm.iterations
            else:
                assert f"{dots:,} of {arm.iterations:,} of {arm.arm.label}" in caption
        calls = {block.calls_per_iteration for arm in case.arms for block in arm.blocks}
        assert ("but for those beyond the edge" in caption) == ("lie beyond the edge" in picture)
        assert ("mean of" in caption) == (max(calls) > 1)
        assert max(calls) == 1 or f"{max(calls)} calls" in caption


def test_shades_are_named_where_there_are_any(shown: Shown) -> None:
    for _, picture, caption in shown.captions:
        assert ("shaded" in caption) == (charts.SHADE in picture)
    if shown.bundle.states:
        figure, caption = re.findall(
            r"<figure>(<svg.*?</svg>)\s*<figcaption>(Two fixed workloads.*?)</figcaption>", shown.html, re.S
        )[0]
        assert ("Shaded" in caption) == (charts.SHADE in figure)


def test_the_state_is_called_steady_by_every_reading(shown: Shown) -> None:
    if not shown.bundle.states:
        assert "steady to within" not in shown.text and "reference was not read" in shown.text
        return
    values = series(shown.bundle.states, "memory bandwidth")
    by_process: dict[tuple[str, int], list[float]] = {}
    for state, value in zip(shown.bundle.states, values, strict=True):
        by_process.setdefault((state.case, state.process), []).append(value)
    medians = [statistics.median(own) for own in by_process.values()]
    within = any(abs(value / statistics.median(own) - 1) >= 0.1 for own in by_process.values() for value in own)
    between = max(medians) / min(medians) >= 1.1
    (sentence,) = re.findall(r"Memory bandwidth: .*?\.(?= [A-Z]|$)", shown.text)
    if len(medians) > 1:
        assert ("steady to within 10 %" in sentence) == (not within and not between)
        assert ("unsteady within processes" in sentence) == within
        assert ("different from process to process" in sentence) == between
    assert f"in {len(values)} readings" in sentence
    stretches = regimes(shown.bundle)
    assert ("No lasting stretch" in shown.text) == (not stretches and len(values) >= 10)
    assert shown.text.count("measured blocks lie in this stretch") == len(stretches)
    assert "stood at one level" not in shown.text


def test_a_rate_above_the_machines_own_is_explained(shown: Shown) -> None:
    for case in shown.results.cases:
        own = [state for state in shown.bundle.states if state.case == case.case.name]
        moved = case.case.minimum_bytes
        if not own or not moved:
            continue
        reached = statistics.median(series(own, "memory bandwidth"))
        above = any(
            moved / arm.typical_ns * 1e9 > reached for arm in case.arms if arm.typical_ns and arm is not case.noise
        )
        assert ("That is more than" in shown.plain(shown.section(case.case.name))) == above


def test_the_files_are_counted_as_they_lie(shown: Shown) -> None:
    check = seal.checked(shown.bundle)
    present = [name for name in manifest.files(shown.bundle.path) if name not in seal.RENDERED]
    whole = not check.changed and not check.missing and bool(check.matching)
    assert (f"All {len(present)} files that the run wrote match" in shown.text) == whole
    assert ("files are not as they were measured" in shown.text) == bool(check.changed)


def test_accuracy_says_how_near(shown: Shown) -> None:
    found = shown.bundle.accuracies.get((LAST, "inductor"))
    told = shown.told("Accuracy")
    if found is None:
        assert told == "not checked"
        return
    assert ("passed" in told) == found.passed and ("failed" in told) == (not found.passed)
    assert "compute the same" not in shown.text and "-1" not in told
    if found.passed:
        assert f"tolerated {found.tolerance:g}" in told
        assert ("bit for bit; " in told) == found.outputs[0].identical
        assert found.outputs[0].identical or f"{found.outputs[0].max_absolute_error:.2g}" in told


def test_profiles_unlike_the_timed_calls_carry_a_warning(shown: Shown) -> None:
    for case in shown.results.cases:
        text = shown.plain(shown.section(case.case.name))
        steps = {
            arm.arm.label: sum(row.self_cpu_ns for row in profile.cycles[-1].rows) / profile.cycles[-1].active_steps
            for arm in (case.baseline, *case.candidates)
            if (profile := shown.bundle.profiles.get((case.case.name, arm.arm.name)))
        }
        typical = {arm.arm.label: arm.typical_ns for arm in case.arms if arm.typical_ns}
        far = [label for label in steps if abs(math.log(steps[label] / typical[label])) > math.log(1.25)]
        assert ("the calls took another time" in text) == bool(far)
        for label in far:
            assert re.search(rf"{label} [\d,.]+ \S+ a step against", text)
        if steps:
            profiled, timed = steps["eager"] / steps["inductor"], typical["eager"] / typical["inductor"]
            assert ("change their order" in text) == ((profiled - 1) * (timed - 1) < 0)


def test_a_disturbed_profile_is_not_read_without_a_warning(shown: Shown) -> None:
    for case in shown.results.cases:
        shares = [
            span.neighbours or 0.0
            for span in readings.spans(shown.bundle.telemetry, shown.bundle.events)
            if (span.role, span.case) == ("profile", case.case.name)
        ]
        text = shown.plain(shown.section(case.case.name))
        assert ("while the machine was disturbed" in text) == (max(shares, default=0.0) > readings.NEIGHBOUR_SHARE)


def test_publishable_agrees_with_its_reasons(shown: Shown) -> None:
    may = shown.bundle.run.publishable and not seal.broken(seal.checked(shown.bundle))
    assert ("every run rule is met" in shown.told("Publishable")) == may
    assert ("Why this run is not publishable" in shown.text) == (not may)
    assert all(reason in shown.told("Publishable") for reason in shown.bundle.run.reasons)


def test_no_number_is_missing_in_a_sentence(shown: Shown) -> None:
    for wrong in ("None", "nan", " inf ", "–×", "({}", "of 0 of"):
        assert wrong not in shown.headline
        assert wrong not in shown.plain(shown.section("verdict"))
