"""What users of other programs type first does what `docs/measurements/first-hour.md` says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.unit.cli.test_transcribe_options import Listener
from whisper_hailo.cli.app import run
from whisper_hailo.cli.model import ModelOptions

PAGE = Path(__file__).parents[3] / "docs" / "measurements" / "first-hour.md"
ROW = re.compile(r"^\| \d+\. [^|]+ \| `([^`]+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))


def test_there_are_twenty_for_each_command() -> None:
    assert len(ROWS) == 60


@pytest.mark.parametrize(("typed", "now"), ROWS)
def test_what_they_type(
    typed: str, now: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: Listener(asked=[]))
    monkeypatch.chdir(tmp_path)
    for name in ("talk.flac", "talk.ogg"):
        (tmp_path / name).write_text("some sound")
    code = run(["transcribe", "--model", "micro", *shlex.split(typed)])
    told = capsys.readouterr()
    if now.startswith("refused: "):
        assert code == 2
        assert now.removeprefix("refused: ") in told.err
        return
    assert code == 0, told.err
    if now.startswith("writes "):
        written = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert ", ".join(written) == now.removeprefix("writes ")
    else:
        assert told.out
