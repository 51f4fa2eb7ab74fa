"""The checker of the guarantees notices each breach of them; events as JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from whisper_hailo.live.events import (
    Away,
    Back,
    CaptionWord,
    Completed,
    Event,
    Lost,
    Marker,
    Partial,
    Started,
    as_json,
)
from whisper_hailo_lab.captions.event_checks import find_violations

A, B, C = CaptionWord(" a", 0.5), CaptionWord(" b"), CaptionWord(" c", 0.123456)
START = Started(segment_id=0, start_s=1.0, heard_s=1.5, at_s=0.1)
FIRST = Partial(
    segment_id=0,
    start_s=1.0,
    end_s=2.0,
    committed=(A,),
    tentative=(B,),
    heard_s=2.0,
    at_s=0.2,
)
SECOND = Partial(
    segment_id=0,
    start_s=1.0,
    end_s=2.5,
    committed=(A, B),
    tentative=(C,),
    heard_s=2.5,
    at_s=0.3,
)
DONE = Completed(
    segment_id=0,
    start_s=1.0,
    end_s=3.0,
    words=(A, B, C),
    reason="silence",
    heard_s=3.0,
    at_s=0.4,
)
GONE = Lost(start_s=3.0, end_s=4.0, heard_s=4.0, at_s=0.5)
NEXT = Started(segment_id=1, start_s=4.0, heard_s=4.5, at_s=0.6)
END = Completed(
    segment_id=1, start_s=4.0, end_s=5.0, words=(), reason="end", heard_s=5.0, at_s=0.7
)
AWAY = Away(start_s=3.5, why="the microphone was unplugged", heard_s=3.5, at_s=0.45)
BACK = Back(start_s=3.5, end_s=9.0, heard_s=9.0, at_s=0.5)
GOOD: tuple[Event, ...] = (START, FIRST, SECOND, DONE, GONE, NEXT, END)


def test_good_stream_breaks_nothing() -> None:
    again = replace(AWAY, start_s=9.0, heard_s=9.0, at_s=0.6)
    assert list(find_violations([START, FIRST, SECOND, DONE, AWAY, BACK, again])) == []
    assert list(find_violations(GOOD)) == []
    assert list(find_violations([])) == []


def test_audio_that_follows_at_once_breaks_nothing() -> None:
    """Every time is the least or the greatest that it may be; what does not change may stay."""
    start = Started(segment_id=0, start_s=0.0, heard_s=0.0, at_s=0.0)
    empty = Partial(
        segment_id=0,
        start_s=0.0,
        end_s=0.0,
        committed=(),
        tentative=(),
        heard_s=0.0,
        at_s=0.0,
    )
    said = replace(empty, end_s=1.0, heard_s=1.0, committed=(A,))
    done = Completed(
        segment_id=0,
        start_s=0.0,
        end_s=1.0,
        words=(A,),
        reason="loss",
        heard_s=1.0,
        at_s=0.0,
    )
    lost = Lost(start_s=1.0, end_s=2.0, heard_s=2.0, at_s=0.0)
    away = Away(start_s=2.0, why="gone", heard_s=2.0, at_s=0.0)
    back = Back(start_s=2.0, end_s=2.0, heard_s=2.0, at_s=0.0)
    marker = Marker(start_s=2.0, label="here", heard_s=2.0, at_s=0.0)
    later = replace(start, segment_id=1, start_s=2.0, heard_s=2.0)
    over = replace(done, segment_id=1, start_s=2.0, end_s=2.0, words=(), heard_s=2.0)
    events = [
        start,
        empty,
        said,
        said,
        done,
        lost,
        away,
        marker,
        back,
        marker,
        later,
        over,
    ]
    assert list(find_violations(events)) == []


def test_mark_is_where_the_stream_is() -> None:
    assert "is not at the position of the stream" in " ".join(
        find_violations([Marker(start_s=1.0, label="here", heard_s=2.0, at_s=0.0)])
    )


@pytest.mark.parametrize(
    ("at", "changed", "told"),
    [
        (1, replace(FIRST, at_s=0.05), "time runs backwards"),
        (1, replace(FIRST, heard_s=1.4, end_s=1.4), "time runs backwards"),
        (0, replace(START, segment_id=1), "segment 1 starts, expected 0"),
        (5, replace(NEXT, segment_id=2), "segment 2 starts, expected 1"),
        (5, replace(NEXT, start_s=3.9), "starts before 4.0 s or after it was heard"),
        (5, replace(NEXT, start_s=4.6), "starts before 4.0 s or after it was heard"),
        (4, replace(GONE, start_s=2.9), "begins before 3.0 s or is not a span"),
        (4, replace(GONE, end_s=3.0), "begins before 3.0 s or is not a span"),
        (4, replace(GONE, end_s=4.1), "begins before 3.0 s or is not a span"),
        (1, replace(FIRST, segment_id=1), "segment 1 has text while it is not active"),
        (1, replace(FIRST, start_s=1.1), "do not fit"),
        (1, replace(FIRST, end_s=0.9), "do not fit"),
        (1, replace(FIRST, end_s=2.1), "do not fit"),
        (2, replace(SECOND, committed=(B,)), "committed 'a' became 'b' in segment 0"),
        (3, replace(DONE, words=(A, C)), "committed 'a b' became 'a c' in segment 0"),
    ],
)
def test_each_breach_is_noticed(at: int, changed: Event, told: str) -> None:
    broken = [*GOOD[:at], changed, *GOOD[at + 1 :]]
    assert told in " ".join(find_violations(broken))


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([START], "segment 0 is never completed"),
        ([START, replace(NEXT, heard_s=4.5)], "segment 1 starts within segment 0"),
        ([START, FIRST, GONE], "audio is lost within segment 0"),
        ([START, AWAY], "the source goes away within segment 0"),
        ([AWAY, NEXT], "comes while the source is away"),
        ([AWAY, AWAY], "comes while the source is away"),
        ([BACK], "comes back from where it did not go"),
        ([AWAY, replace(BACK, start_s=3.4)], "comes back from where it did not go"),
        ([AWAY, replace(BACK, end_s=3.4)], "is not a span of the stream"),
        ([AWAY, replace(BACK, end_s=9.1)], "is not a span of the stream"),
        ([AWAY, BACK, replace(NEXT, heard_s=9.5)], "starts before 9.0 s"),
        ([replace(GONE, at_s=0.1), replace(AWAY, heard_s=4.0)], "begins before 4.0 s"),
        ([replace(AWAY, start_s=3.6)], "or after it was heard"),
        ([FIRST], "segment 0 has text while it is not active"),
        (
            [START, DONE, replace(SECOND, heard_s=3.0, at_s=0.5)],
            "has text while it is not active",
        ),
    ],
)
def test_what_is_missing_or_too_much_is_noticed(events: list[Event], told: str) -> None:
    assert told in " ".join(find_violations(events))


def test_events_as_json() -> None:
    assert as_json(replace(START, start_s=1.00004)) == {
        "event": "started", "segment_id": 0, "start_s": 1.0, "heard_s": 1.5, "at_s": 0.1,
    }  # fmt: skip
    partial = as_json(SECOND)
    assert (partial["event"], partial["text"], partial["committed_text"]) == (
        "partial",
        "a b c",
        "a b",
    )
    assert partial["tentative"] == ({"text": " c", "probability": 0.1235},)
    assert partial["committed"][1] == {"text": " b", "probability": None}
    done = as_json(DONE)
    assert (done["text"], done["reason"], done["end_s"]) == ("a b c", "silence", 3.0)
    assert as_json(replace(DONE, language="de"))["language"] == "de"
    assert as_json(GONE) == {
        "event": "lost", "start_s": 3.0, "end_s": 4.0, "heard_s": 4.0, "at_s": 0.5,
    }  # fmt: skip


def test_absence_says_whether_it_was_wanted() -> None:
    for event in (AWAY, BACK):
        assert as_json(event)["paused"] is False
        assert as_json(replace(event, paused=True))["paused"] is True


def test_unknown_values_have_no_field_and_wall_times_a_zone() -> None:
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
