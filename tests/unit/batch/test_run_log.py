"""How long a run took and how far it came."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.unit.batch.made_up import Clock, Shelf
from whisper_hailo.batch import run_log
from whisper_hailo.batch.records import Outcome
from whisper_hailo.batch.run_log import RunLog, RunRecord

BEGIN = datetime(2026, 3, 1, 12, 30, 15, 123456, UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(run_log, "monotonic", made)
    return made


def log(shelf: Shelf) -> RunLog:
    return RunLog(shelf, "run", _begin=BEGIN, _begin_s=1000.0, _written_s=1000.0)


def outcome(took_s: float = 0.5, audio_s: float = 8.0) -> Outcome:
    return Outcome(0, 0, False, (), took_s, audio_s)


def test_a_run_that_did_nothing_leaves_nothing(clock: Clock) -> None:
    clock.now_s += 100.0
    shelf = Shelf()
    log(shelf).flush()
    assert shelf.files == {}


def test_times_and_tasks_add_up_from_nothing(clock: Clock) -> None:
    shelf = Shelf()
    one = RunLog(shelf, "run", _begin=BEGIN, _begin_s=1000.0, _written_s=1000.0)
    assert one.record == RunRecord("2026-03-01T12:30:15.123+00:00")
    clock.now_s += 2.00049
    one.note(outcome(0.50009, 8.00009))
    one.note(outcome(0.25, 2.0))
    expected = RunRecord("2026-03-01T12:30:15.123+00:00", 2.0, 10.0, 2, 0.75)
    assert one.record == expected
    assert expected.speed == 5.0
    one.flush()
    assert list(shelf.files) == ["runs/run.json"]
    assert shelf.files["runs/run.json"].endswith(b"}\n")
    assert json.loads(shelf.files["runs/run.json"]) == {
        "begin": "2026-03-01T12:30:15.123+00:00", "seconds": 2.0, "audio_s": 10.0, "tasks": 2,
        "worker_s": 0.75,
    }  # fmt: skip


def test_each_run_has_its_own_record(clock: Clock) -> None:
    del clock
    shelf = Shelf()
    for name in ("one", "two"):
        run = RunLog(shelf, name, _begin=BEGIN, _begin_s=1000.0, _written_s=1000.0)
        run.note(outcome())
        run.flush()
    assert list(shelf.files) == ["runs/one.json", "runs/two.json"]


def test_milliseconds_are_all_that_is_told(clock: Clock) -> None:
    one = log(Shelf())
    clock.now_s += 1.2344
    one.note(outcome(0.1234, 0.5674))
    record = one.record
    assert (record.seconds, record.worker_s, record.audio_s) == (1.234, 0.123, 0.567)


def test_no_time_is_no_speed() -> None:
    assert RunRecord("now").speed == 0.0
    assert RunRecord("now", seconds=4.0, audio_s=10.0).speed == 2.5


def test_the_store_hears_of_it_every_five_seconds(clock: Clock) -> None:
    shelf, one = Shelf(), log(Shelf())
    one.store = shelf
    clock.now_s += 4.5
    one.note(outcome())
    assert shelf.written == []
    clock.now_s += 0.5
    one.note(outcome())
    assert len(shelf.written) == 1
    clock.now_s += 4.5
    one.note(outcome())
    assert len(shelf.written) == 1
    clock.now_s += 0.5
    one.note(outcome())
    assert json.loads(shelf.files["runs/run.json"])["tasks"] == 4


def test_a_run_begins_now() -> None:
    before = datetime.now(UTC)
    begin = datetime.fromisoformat(RunLog(Shelf(), "run").record.begin)
    assert begin.tzinfo is not None
    assert abs((begin - before).total_seconds()) < 3600
