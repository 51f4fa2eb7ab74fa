"""An interrupted measurement goes on, and only on what it was about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whisper_hailo_lab.runs.run_file import StepJournal, key_of


def _never() -> Any:
    raise AssertionError("worked out again")


def test_a_finished_step_is_known_to_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "build" / "journal.json"
    assert StepJournal(path, "key").step("one", lambda: {"x": (1, 2)}) == {"x": [1, 2]}
    with pytest.raises(KeyboardInterrupt):
        StepJournal(path, "key").step("two", _interrupted)
    later = StepJournal(path, "key")
    assert later.step("one", _never) == {"x": [1, 2]}
    assert later.step("two", lambda: 2) == 2
    last = StepJournal(path, "key")
    assert (last.step("one", _never), last.step("two", _never)) == ({"x": [1, 2]}, 2)


def _interrupted() -> int:
    raise KeyboardInterrupt


def test_another_key_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    StepJournal(path, "old").step("one", lambda: 1)
    assert StepJournal(path, "new").step("one", lambda: 2) == 2
    path.write_text("{")  # cut short
    assert StepJournal(path, "new").step("one", lambda: 3) == 3


def test_a_key_follows_contents_and_values(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_text("a")
    before = key_of([one], 1)
    assert key_of([one], 1) == before
    assert key_of([one], 2) != before
    one.write_text("b")
    assert key_of([one], 1) != before
