"""Targets of the fuzzer make reproducible inputs for commands and options that exist."""

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
def inputs_folder(shared: Path) -> Path:
    """Good inputs of all targets but the page, which prepares a server instead."""

    def prepare(base: Path) -> None:
        base.mkdir()
        for name in NAMES:
            if name != "page":
                load(name).prepare(base)

    return made_once(shared / "fuzz", prepare)


def prepare_target(name: str, inputs_folder: Path) -> Target:
    """Return a target that is ready to make inputs."""
    fuzz_target = load(name)
    if name != "page":
        fuzz_target.prepare(inputs_folder)
    return fuzz_target


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_target_inputs_are_many_and_reproducible(
    name: str, inputs_folder: Path
) -> None:
    fuzz_target = prepare_target(name, inputs_folder)
    second_target = prepare_target(name, inputs_folder)
    made = [
        fuzz_target.make(draw(name, 1, number), inputs_folder)
        for number in range(N_CASES)
    ]
    repeated = [
        second_target.make(draw(name, 1, number), inputs_folder)
        for number in range(N_CASES)
    ]
    assert made == repeated
    assert len(set(made)) > N_CASES // 2


def test_fuzzed_options_cover_all_commands() -> None:
    fuzzed = options.Fuzzed()
    assert {*fuzzed.options, *options.LEFT_OUT} == COMMANDS
    spelled = {
        spelling for entries in fuzzed.options.values() for spelling, _ in entries
    }
    assert {
        "--model",
        "--beam-size",
        "--no-share",
        "--vad-threshold",
        "-otxt",
    } <= spelled
    assert spelled.isdisjoint({*options.NEVER, "-t"})
    lines = (
        json.loads(fuzzed.make(draw("options", 2, n), Path())[1]) for n in range(400)
    )
    assert COMMANDS - {*options.LEFT_OUT} <= {word for words in lines for word in words}


def test_fuzzed_names_are_of_existing_commands() -> None:
    assert first_words(names.COMMANDS) <= COMMANDS
    assert {*names.NO_SOUND} <= first_words(names.COMMANDS)


def first_words(lines: Iterable[tuple[str, ...]]) -> set[str]:
    """Return the first words of command lines."""
    return {words[0] for words in lines}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "page"])
def test_target_inputs_are_run_by_the_program(
    name: str, inputs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuzz_target = prepare_target(name, inputs_folder)
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        result = judge(
            fuzz_target,
            folder,
            inputs_folder,
            fuzz_target.make(draw(name, 4, number), inputs_folder),
        )
        assert result.outcome in {OK, REFUSED}, result.said
