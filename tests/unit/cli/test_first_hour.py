"""What users of other programs type first does what `docs/measurements/first-hour.md` says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.unit.cli.commands.test_transcribe_options import Listener
from whisper_hailo.cli.app import run
from whisper_hailo.cli.model import ModelOptions

PAGE = Path(__file__).parents[3] / "docs" / "measurements" / "first-hour.md"
ROW = re.compile(r"^\| \d+\. [^|]+ \| `([^`]+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = ROW.findall(TEXT)
TALKS = ("talk.flac", "talk.ogg")


def test_the_first_table_counts_what_the_others_say() -> None:
    programs = re.findall(r"^## ([^\n]+)\n\n\| task(.*?)(?=^## )", TEXT, re.M | re.S)
    assert len(programs) == 4
    for program, parts in programs:
        now = [line.split(" | ")[-1] for line in parts.splitlines() if re.match(r"\| \d+\.", line)]
        done = sum(not cell.startswith("refused") for cell in now)
        row = rf"^\| {re.escape(program)} \| \d+ of 20 \| {done} of 20 \| {20 - done} \|$"
        assert len(now) == 20
        assert re.search(row, TEXT, re.M), program


def test_there_are_twenty_for_each_command() -> None:
    assert len(ROWS) == 60


@pytest.mark.parametrize(("typed", "now"), ROWS)
def test_what_they_type(
    typed: str, now: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: Listener(asked=[]))
    monkeypatch.chdir(tmp_path)
    for name in TALKS:
        (tmp_path / name).write_text("some sound")
    code = run(["transcribe", "--model", "micro", *shlex.split(typed)])
    told = capsys.readouterr()
    if now.startswith("refused: "):
        assert code == 2
        assert now.removeprefix("refused: ") in told.err
        return
    assert code == 0, told.err
    if now.startswith("writes "):
        place = tmp_path / "out" if (tmp_path / "out").exists() else tmp_path
        written = sorted({path.name for path in place.iterdir()} - set(TALKS))
        assert ", ".join(written) == now.removeprefix("writes ")
    else:
        assert told.out
