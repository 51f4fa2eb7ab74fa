"""Events as JSON, and their times in live and in other streams."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from tests.fakes.results import (
    AWAY,
    BACK,
    DONE,
    END,
    FIRST,
    GONE,
    NEXT,
    SECOND,
    START,
    B,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.events import (
    CaptionWord,
    Event,
    StreamClock,
    as_json,
)

GOOD: tuple[Event, ...] = (START, FIRST, SECOND, DONE, GONE, NEXT, END)


def test_as_json_has_the_fields_of_an_event() -> None:
    assert as_json(replace(START, start_s=1.00004)) == {
        "event": "started",
        "segment_id": 0,
        "start_s": 1.0,
        "heard_s": 1.5,
        "at_s": 0.1,
    }
    partial = as_json(SECOND)
    assert partial["event"] == "partial"
    assert partial["text"] == "a b c"
    assert partial["committed_text"] == "a b"
    assert partial["tentative"] == ({"text": " c", "probability": 0.1235},)
    assert partial["committed"][1] == {"text": " b", "probability": None}
    done = as_json(DONE)
    assert done["text"] == "a b c"
    assert done["reason"] == "silence"
    assert done["end_s"] == 3.0
    assert as_json(replace(DONE, language="de"))["language"] == "de"
    assert as_json(GONE) == {
        "event": "lost",
        "start_s": 3.0,
        "end_s": 4.0,
        "heard_s": 4.0,
        "at_s": 0.5,
    }


def test_as_json_of_absence_has_paused() -> None:
    for event in (AWAY, BACK):
        assert as_json(event)["paused"] is False
        assert as_json(replace(event, paused=True))["paused"] is True


def test_as_json_leaves_out_unknown_values() -> None:
    word = CaptionWord(" a", 0.5, start_s=1.00004, end_s=1.5)
    done = as_json(
        replace(DONE, words=(word, B), wall_s=1_700_000_000.1234, language="de")
    )
    assert done["words"] == (
        {"text": " a", "probability": 0.5, "start_s": 1.0, "end_s": 1.5},
        {"text": " b", "probability": None},
    )
    assert done["language"] == "de"
    at = datetime.fromisoformat(done["at"])
    assert at.tzinfo is not None
    assert at.timestamp() == pytest.approx(1_700_000_000.123, abs=1e-6)
    assert "wall_s" not in done
    assert "at" not in as_json(DONE)


class Times:
    """Both clocks: the program's began at 50 s, the wall clock is 1,000,000 s ahead of it."""

    now_s = 50.0

    def clock(self) -> StreamClock:
        return StreamClock(lambda: self.now_s, lambda: 1_000_000.0 + self.now_s)


def test_stream_clock_of_a_file_runs_at_its_own_speed() -> None:
    times = Times()
    clock = times.clock()
    times.now_s = 53.5
    assert clock.moment(2.0, 4.0) == {
        "start_s": 2.0,
        "heard_s": 4.0,
        "at_s": 3.5,
        "wall_s": 1_000_052.0,
    }
    assert clock.since(16_000) is None


def test_stream_clock_of_live_audio_follows_its_capture() -> None:
    """The third second had been captured at 60 s; it is 61.5 s now."""
    times = Times()
    clock = times.clock()
    clock.note_capture(60.0, 3 * SAMPLE_RATE_HZ)
    times.now_s = 61.5
    assert clock.since(3 * SAMPLE_RATE_HZ) == 1.5
    assert clock.since(SAMPLE_RATE_HZ) == 3.5
    assert clock.moment(1.0, 3.0) == {
        "start_s": 1.0,
        "heard_s": 3.0,
        "at_s": 11.5,
        "wall_s": 1_000_058.0,
    }


def test_stream_clock_wall_clock_jump_changes_wall_s_only() -> None:
    times = Times()
    wall_s = [1_000_000.0]
    clock = StreamClock(lambda: times.now_s, lambda: wall_s[0])
    clock.note_capture(50.0, 0)
    wall_s[0] -= 3600.0  # somebody sets it back by an hour
    times.now_s = 52.0
    assert clock.since(SAMPLE_RATE_HZ) == 1.0
    assert clock.moment(1.0, 2.0) == {
        "start_s": 1.0,
        "heard_s": 2.0,
        "at_s": 2.0,
        "wall_s": 996_399.0,
    }
