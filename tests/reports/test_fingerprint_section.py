from __future__ import annotations

from pathlib import Path

import msgspec

from reports.render.document import render_html
from suite.bundle import manifest, reader, schema
from suite.bundle.coverage import line
from suite.bundle.writer import FINGERPRINT, Bundle
from tests import samples

TIMES = {"matmul_add/64-fp32": {"eager": [1e6] * 3, "eager#2": [1e6] * 3, "inductor": [5e5] * 3}}


def section(tmp_path: Path, facts: dict[str, dict[str, schema.Fact]]) -> str:
    path = samples.write(tmp_path / "run", TIMES)
    Bundle(path).document(FINGERPRINT, schema.Fingerprint(schema_version=schema.SCHEMA_VERSION, facts=facts))
    manifest.write(path)
    html = render_html(reader.load(path))
    start = html.index('<section id="fingerprint">')
    return html[start : html.index("</section>", start)]


def golden(name: str) -> dict[str, dict[str, schema.Fact]]:
    path = Path(__file__).parents[1] / "fingerprint" / "golden" / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, schema.Fact]])


def test_the_coverage_stands_at_the_head_with_what_is_missing(tmp_path: Path) -> None:
    facts = golden("virtual-machine")
    text = section(tmp_path, facts)
    assert f"<b>{line(facts)}</b>" in text
    assert text.index(line(facts)) < text.index("What is missing, by reason") < text.index("<h3>CPU</h3>")
    assert "Denied to this user (5)" in text


def test_long_values_are_folded_on_the_screen_and_pointed_to_on_paper(tmp_path: Path) -> None:
    text = section(tmp_path, golden("two-sockets-snc"))
    flags = text[text.index("<th>flags</th>") :]
    assert "<details" in flags[:120]
    assert "in <code>fingerprint.json</code></span>" in flags


def test_what_a_machine_calls_itself_is_escaped(tmp_path: Path) -> None:
    text = section(tmp_path, {"cpu": {"model": schema.Fact(value="<b>x", source="<i>", status="ok", note="<u>")}})
    assert "&lt;b&gt;x" in text and "&lt;i&gt;" in text and "&lt;u&gt;" in text
    assert "What is missing" not in text
