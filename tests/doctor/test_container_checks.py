"""What the doctor says of the container that a run would be in."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as changed

from suite.doctor.checks.container import engine_gives_all, options_explained
from suite.launch.engine import Choice
from suite.launch.engine_facts import EngineFacts
from suite.launch.run_flags import User, run_flags
from tests.doctor.surveys import engines, native, survey

FLAGS = run_flags(EngineFacts("docker", "27"), User(1000, 1000)).flags
CHOICE = Choice(engines().choice.engine, starts_container=True, flags=FLAGS)


def test_every_option_is_shown_with_its_reason():
    (advice,) = options_explained(survey(engines=engines(choice=CHOICE)))
    assert advice.severity == "note"
    assert advice.claim == f"The container would be started with {len(FLAGS)} options."
    assert advice.evidence[2].startswith("--network=none: nothing can be downloaded")


def test_nothing_is_said_inside_the_container_or_of_a_native_run():
    assert list(options_explained(survey())) == []
    assert list(options_explained(survey(engines=native()))) == []


def test_what_the_engine_cannot_give_is_said():
    engine = changed(
        CHOICE.engine, rootless=True, losses=["rootless: no priority", "--cpuset-cpus=0 is left out (x): y"]
    )
    found = list(engine_gives_all(survey(engines=engines(choice=replace(CHOICE, engine=engine)))))
    assert [advice.severity for advice in found] == ["note", "doubtful"]
    assert found[0].claim == "docker cannot give the container everything: rootless: no priority."
    assert found[0].advice == "a rootful engine can"
