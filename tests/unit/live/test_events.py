"""Events as JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from tests.fakes.caption_events import (
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
from whisper_hailo.live.events import (
    CaptionWord,
    Event,
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
