"""Every kind of broken input is made, and asks for what the program has."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click
import pytest

from tests.fuzz.target import NAMES, OK, REFUSED, Target, draw, judge, load
from tests.fuzz.targets import names, options
from tests.shared import made_once
from whisper_hailo.cli.app import PROGRAM_GROUP

N_CASES = 60
COMMANDS = {*PROGRAM_GROUP.list_commands(click.Context(PROGRAM_GROUP))}


@pytest.fixture(scope="session")
def prepared(shared: Path) -> Path:
    """The good inputs of all targets but the page, which prepares a server instead."""

    def prepare(base: Path) -> None:
        base.mkdir()
        for name in NAMES:
            if name != "page":
                load(name).prepare(base)

    return made_once(shared / "fuzz", prepare)


def target(name: str, prepared: Path) -> Target:
    """One that is ready to make inputs."""
    one = load(name)
    if name != "page":
        one.prepare(prepared)
    return one


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_many_and_come_again(name: str, prepared: Path) -> None:
    one, other = target(name, prepared), target(name, prepared)
    made = [one.make(draw(name, 1, number), prepared) for number in range(N_CASES)]
    again = [other.make(draw(name, 1, number), prepared) for number in range(N_CASES)]
    assert made == again
    assert len(set(made)) > N_CASES // 2


def test_every_command_is_asked_for_options_that_it_has() -> None:
    fuzzed = options.Fuzzed()
    assert {*fuzzed.options, *options.LEFT_OUT} == COMMANDS
    spelled = {spelling for found in fuzzed.options.values() for spelling, _ in found}
    assert {
        "--model",
        "--beam-size",
        "--no-share",
        "--vad-threshold",
        "-otxt",
    } <= spelled
    assert spelled.isdisjoint({*options.NEVER, "-t"})
    asked = (
        json.loads(fuzzed.make(draw("options", 2, n), Path())[1]) for n in range(400)
    )
    assert COMMANDS - {*options.LEFT_OUT} <= {word for words in asked for word in words}


def test_commands_that_get_odd_names_are_there() -> None:
    assert firsts(names.COMMANDS) <= COMMANDS
    assert {*names.NO_SOUND} <= firsts(names.COMMANDS)


def firsts(lines: Iterable[tuple[str, ...]]) -> set[str]:
    """The commands of some lines."""
    return {words[0] for words in lines}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "page"])
def test_inputs_are_handed_to_the_program(
    name: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = target(name, prepared)
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        result = judge(one, folder, prepared, one.make(draw(name, 4, number), prepared))
        assert result.outcome in {OK, REFUSED}, result.said
