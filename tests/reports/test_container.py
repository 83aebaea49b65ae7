"""Where a run ran, as the report says it."""

from __future__ import annotations

from pathlib import Path

from reports.render.container import rows, where
from reports.render.document import render_html
from suite.bundle import reader
from suite.bundle.schema import Engine
from tests import samples

CASE = "matmul_add/64-fp32"
ENGINE = Engine(
    name="podman",
    containerised=True,
    reason="podman answers",
    version="4.3.1",
    rootless=True,
    runtime="crun 1.8",
    image="speedproof:cpu",
    image_digest="sha256:" + "a" * 64,
    sbom_sha256="b" * 64,
    flags=["--rm", "--network=none"],
    mounts=["<results>:/results", "<cache>:/cache"],
    losses=["--pids-limit=-1 is refused: few <threads>"],
)


def test_a_container_is_named_with_its_image_digest_and_software():
    text = where(ENGINE)
    assert text.startswith("podman 4.3.1 (rootless, crun 1.8), image speedproof:cpu (sha256:aaaa")
    assert "sbom.cdx.json (sha256:bbbb" in text
    assert "not all that was asked for" in text


def test_a_native_run_says_why():
    assert (
        where(Engine(name="native", containerised=False, reason="asked for"))
        == "not in a container that the suite started: asked for"
    )


def test_an_older_bundle_has_less_to_say():
    old = Engine(name="docker", containerised=True, reason="docker answers", version="27")
    assert where(old) == "docker 27, image unnamed"
    assert dict(rows(old))["Software"] == ["not listed (no SBOM)"]
    assert "Folders" not in dict(rows(old))


def test_the_report_shows_options_folders_and_losses(tmp_path: Path):
    times = {CASE: {"eager": [2.0] * 3, "eager#2": [2.0] * 3, "inductor": [1.0] * 3}}
    html = render_html(reader.load(samples.write(tmp_path / "run", times, changes={"engine": ENGINE})))
    assert "<h3>The container</h3>" in html
    assert "--rm --network=none" in html
    assert "&lt;results&gt;:/results\n&lt;cache&gt;:/cache" in html
    assert "few &lt;threads&gt;" in html
    native = render_html(reader.load(samples.write(tmp_path / "native", times)))
    assert "<h3>The container</h3>" not in native
