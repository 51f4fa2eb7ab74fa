"""First commands of users of other Whisper programs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.first_hour import FIRST_HOUR
from tests.unit.cli.commands.test_transcribe_options import Listener
from whisper_hailo.cli.app import run
from whisper_hailo.cli.transcribe_options import ModelOptions

COMMANDS = tuple(program for program in FIRST_HOUR if program != "faster-whisper")
TYPED = [
    (typed, result) for program in COMMANDS for _, typed, result in FIRST_HOUR[program]
]
TALKS = ("talk.flac", "talk.ogg")


def test_first_hour_has_twenty_tasks_per_program() -> None:
    assert [len(tasks) for tasks in FIRST_HOUR.values()] == [20] * 4


@pytest.mark.parametrize(("typed", "result"), TYPED)
def test_first_hour_command_gives_expected_result(
    typed: str, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: Listener(asked=[]))
    monkeypatch.chdir(tmp_path)
    for name in TALKS:
        (tmp_path / name).write_text("some sound")
    code = run(["transcribe", "--model", "micro", *shlex.split(typed)])
    output = capsys.readouterr()
    assert code == 0, output.err
    if result.startswith("writes "):
        place = tmp_path / "out" if (tmp_path / "out").exists() else tmp_path
        written = sorted({path.name for path in place.iterdir()} - set(TALKS))
        assert ", ".join(written) == result.removeprefix("writes ")
    else:
        assert output.out
