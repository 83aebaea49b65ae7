from __future__ import annotations

import pytest

from suite.bundle.schema import Finding
from suite.fingerprint.facts import Facts, absent, ok
from suite.fingerprint.files import OWN_FOLDER
from suite.fingerprint.redact import names_to_hide, redact, redact_struct, redact_text


def shown(value: object, *names: str) -> object:
    facts: Facts = {"x": ok(value, "source")}
    return redact({"subject": facts}, names)["subject"]["x"].value


def test_names_are_taken_out_wherever_they_stand() -> None:
    value = {"a": ["on lab-7.example.org", {"b": "lab-7"}], "c": 3}
    assert shown(value, "lab-7.example.org", "lab-7") == {"a": ["on <removed>", {"b": "<removed>"}], "c": 3}


def test_only_whole_names_are_taken_out() -> None:
    assert shown("ada adage /home/ada x-ada", "ada") == "<removed> adage /home/<removed> x-ada"


@pytest.mark.parametrize("text", ["4c4c4544-0051-3510-8051-b4c04f564432", "aa:bb:cc:dd:ee:ff", "AA-BB-CC-DD-EE-FF"])
def test_identifiers_are_taken_out(text: str) -> None:
    assert shown(f"disk {text} x") == "disk <removed> x"


@pytest.mark.parametrize("text", ["12.8.4.1", "2.13.0+cpu", "0000ff00", "sha256:" + "ab" * 32, "10:20:30"])
def test_versions_and_hashes_stay(text: str) -> None:
    assert shown(text) == text


def test_notes_and_sources_are_read_too() -> None:
    fact = redact({"s": {"x": absent("which lab-7", "lab-7 said no")}}, ["lab-7"])["s"]["x"]
    assert (fact.source, fact.note) == ("which <removed>", "<removed> said no")


def test_words_that_every_machine_has_are_no_names() -> None:
    environ = {"USER": "root", "LOGNAME": "ada", "SUDO_USER": "adalovelace"}
    assert names_to_hide(environ, "debian") == ["adalovelace"]
    assert names_to_hide({}, "node-17.cluster.example") == ["node-17", "node-17.cluster.example"]


def test_a_programs_text_is_kept_without_names_homes_and_the_suites_own_folder() -> None:
    text = f"{OWN_FOLDER}/.venv/lib/x.py:3: warning on quokka-17 at /home/ada/y, -I/home/ada/include"
    kept = "<speedproof>/.venv/lib/x.py:3: warning on <removed> at ~/y, -I~/include"
    assert redact_text(text, ["quokka-17"]) == kept


def test_every_text_of_a_struct_is_redacted_and_nothing_else_changes() -> None:
    finding = Finding(rule="launch.x", severity="note", claim="on quokka-17", evidence=["/home/ada/x", "GPU"])
    assert redact_struct(finding, ["quokka-17"]) == Finding(
        rule="launch.x", severity="note", claim="on <removed>", evidence=["~/x", "GPU"]
    )
