"""With which options a run's container would be started and why, and what its engine cannot give."""

from __future__ import annotations

from collections.abc import Iterator

from suite.doctor.advice import Advice, advise
from suite.doctor.survey import Survey
from suite.doctor.words import counted


def engine_gives_all(survey: Survey) -> Iterator[Advice]:
    """What is known of the engine before a container is started; a run tries the rest in one that only tries."""
    choice = survey.engines.choice
    for loss in choice.engine.losses:
        name = choice.engine.name
        yield advise(
            "engine-cannot",
            "doubtful" if "cpuset" in loss else "note",
            f"{name} cannot give the container everything: {loss}.",
            f"`{name} info`",
            advice="a rootful engine can" if choice.engine.rootless else "",
        )


def options_explained(survey: Survey) -> Iterator[Advice]:
    """The options, each with its reason."""
    choice = survey.engines.choice
    if choice.starts_container and choice.flags:
        yield advise(
            "run-options",
            "note",
            f"The container would be started with {counted(len(choice.flags), 'option')}.",
            *(f"{flag.text}: {flag.reason}" for flag in choice.flags),
            advice="docs/container.md tells which are left out, and what is lost where an engine refuses one",
        )


CHECKS = (engine_gives_all, options_explained)
