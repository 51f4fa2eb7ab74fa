"""The checker of the guarantees of caption events reports each violation."""

from __future__ import annotations

from dataclasses import replace

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
    A,
    B,
    C,
)
from whisper_hailo.live.events import (
    Away,
    Back,
    Completed,
    Event,
    Lost,
    Marker,
    Partial,
    Started,
)
from whisper_hailo_lab.captions.event_checks import find_violations

GOOD: tuple[Event, ...] = (START, FIRST, SECOND, DONE, GONE, NEXT, END)


def test_find_violations_of_valid_streams_is_empty() -> None:
    again = replace(AWAY, start_s=9.0, heard_s=9.0, at_s=0.6)
    assert list(find_violations([START, FIRST, SECOND, DONE, AWAY, BACK, again])) == []
    assert list(find_violations(GOOD)) == []
    assert list(find_violations([])) == []


def test_find_violations_accepts_equal_times() -> None:
    """Every time is the least or the greatest allowed; equal partials are allowed."""
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
    partial = replace(empty, end_s=1.0, heard_s=1.0, committed=(A,))
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
        partial,
        partial,
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


def test_find_violations_reports_marker_elsewhere() -> None:
    marker = Marker(start_s=1.0, label="here", heard_s=2.0, at_s=0.0)
    assert list(find_violations([marker]))


@pytest.mark.parametrize(
    ("index", "changed", "n_violations"),
    [
        (1, replace(FIRST, at_s=0.05), 1),
        (1, replace(FIRST, heard_s=1.4, end_s=1.4), 1),
        (0, replace(START, segment_id=1), 7),
        (5, replace(NEXT, segment_id=2), 3),
        (5, replace(NEXT, start_s=3.9), 2),
        (5, replace(NEXT, start_s=4.6), 2),
        (4, replace(GONE, start_s=2.9), 1),
        (4, replace(GONE, end_s=3.0), 1),
        (4, replace(GONE, end_s=4.1), 2),
        (1, replace(FIRST, segment_id=1), 1),
        (1, replace(FIRST, start_s=1.1), 1),
        (1, replace(FIRST, end_s=0.9), 1),
        (1, replace(FIRST, end_s=2.1), 1),
        (2, replace(SECOND, committed=(B,)), 2),
        (3, replace(DONE, words=(A, C)), 1),
    ],
)
def test_find_violations_reports_a_changed_event(
    index: int, changed: Event, n_violations: int
) -> None:
    events = list(GOOD)
    events[index] = changed
    assert len(list(find_violations(events))) == n_violations


@pytest.mark.parametrize(
    ("events", "n_violations"),
    [
        ([START], 1),
        ([START, replace(NEXT, heard_s=4.5)], 2),
        ([START, FIRST, GONE], 2),
        ([START, AWAY], 2),
        ([AWAY, NEXT], 3),
        ([AWAY, AWAY], 1),
        ([BACK], 1),
        ([AWAY, replace(BACK, start_s=3.4)], 1),
        ([AWAY, replace(BACK, end_s=3.4)], 1),
        ([AWAY, replace(BACK, end_s=9.1)], 1),
        ([AWAY, BACK, replace(NEXT, heard_s=9.5)], 3),
        ([replace(GONE, at_s=0.1), replace(AWAY, heard_s=4.0)], 1),
        ([replace(AWAY, start_s=3.6)], 1),
        ([FIRST], 1),
        ([START, DONE, replace(SECOND, heard_s=3.0, at_s=0.5)], 1),
    ],
)
def test_find_violations_reports_missing_or_extra_events(
    events: list[Event], n_violations: int
) -> None:
    assert len(list(find_violations(events))) == n_violations
