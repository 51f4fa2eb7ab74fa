"""Messages of captions for browsers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.fakes.page_server import completed, partial
from tests.unit.live.test_events import (
    AWAY,
    BACK,
    DONE,
    FIRST,
    GONE,
    NEXT,
    SECOND,
    START,
)
from whisper_hailo.live.events import Cleared, Lost, Marker, Started
from whisper_hailo.serve.routes.captions.feeds import HISTORY, Broadcast, Client


def all_of(client: Client) -> list[dict[str, Any]]:
    messages = []
    while (message := client.take()) is not None:
        messages.append(message)
    return messages


def kinds(client: Client) -> list[str]:
    return [message["event"] for message in all_of(client)]


def test_client_that_keeps_up_gets_every_event() -> None:
    broadcast = Broadcast()
    calls = []
    client = broadcast.add_client(lambda: calls.append(1))
    assert kinds(client) == ["snapshot"]
    for event in (START, FIRST, DONE, GONE):
        broadcast.put(event)
    assert kinds(client) == ["started", "partial", "completed", "lost"]
    assert len(calls) == 4
    broadcast.put(DONE, {"rtfx": 2.0})
    assert all_of(client)[1] == {"event": "figures", "rtfx": 2.0}


def test_client_newer_partial_replaces_waiting_one() -> None:
    broadcast = Broadcast()
    client = broadcast.add_client(lambda: None)
    all_of(client)
    for event in (START, FIRST, SECOND):
        broadcast.put(event)
    waiting = all_of(client)
    assert [message["event"] for message in waiting] == ["started", "partial"]
    assert waiting[1]["text"] == "a b c"


def test_broadcast_late_client_gets_history() -> None:
    broadcast = Broadcast(browser_microphone=True)
    for event in (START, FIRST, DONE, GONE, NEXT):
        broadcast.put(event, {"rtfx": 1.0} if event is DONE else None)
    (snapshot,) = all_of(broadcast.add_client(lambda: None))
    assert [message["event"] for message in snapshot["completed"]] == [
        "completed",
        "lost",
    ]
    assert snapshot["partial"] is None
    assert snapshot["figures"] == [{"rtfx": 1.0}]
    assert snapshot["browser_microphone"] is True
    assert Broadcast().summary()[0]["browser_microphone"] is False
    broadcast.put(FIRST)
    assert all_of(broadcast.add_client(lambda: None))[0]["partial"]["text"] == "a b"


def test_broadcast_late_client_knows_source_is_away() -> None:
    broadcast = Broadcast()
    broadcast.put(AWAY)
    (snapshot,) = all_of(broadcast.add_client(lambda: None))
    assert snapshot["away"]["why"] == "the microphone was unplugged"
    broadcast.put(Marker(start_s=0.0, label="here", heard_s=0.0, at_s=0.0))
    assert broadcast.summary()[0]["away"] == snapshot["away"], (
        "what else happens changes nothing"
    )
    broadcast.put(BACK)
    (snapshot,) = all_of(broadcast.add_client(lambda: None))
    assert snapshot["away"] is None
    assert [message["event"] for message in snapshot["completed"]] == ["marker", "back"]


def test_broadcast_settings_are_empty_by_default() -> None:
    assert Broadcast().summary()[0]["settings"] == {}
    assert Broadcast(settings={"language": "de"}).summary()[0]["settings"] == {
        "language": "de"
    }


def test_broadcast_empty_segments_are_not_kept() -> None:
    broadcast = Broadcast()
    broadcast.put(replace(DONE, words=()))
    assert broadcast.summary()[0]["completed"] == []


def test_client_with_65_waiting_gets_one_snapshot() -> None:
    """64 messages may wait; the snapshot replaces them."""
    broadcast = Broadcast()
    client = broadcast.add_client(lambda: None)
    all_of(client)
    for _ in range(64):
        broadcast.put(DONE)
    assert len(all_of(client)) == 64
    for _ in range(65):
        broadcast.put(DONE)
    (snapshot,) = all_of(client)
    assert snapshot["event"] == "snapshot"
    assert len(snapshot["completed"]) == 129


def test_broadcast_history_is_bounded() -> None:
    broadcast = Broadcast()
    for _ in range(HISTORY + 5):
        broadcast.put(DONE)
    for n in range(70):
        broadcast.put(START, {"n": n})
    (snapshot,) = broadcast.summary()
    assert len(snapshot["completed"]) == 200
    assert [figure["n"] for figure in snapshot["figures"]] == [*range(10, 70)]


def test_broadcast_end_comes_last() -> None:
    broadcast = Broadcast()
    before = broadcast.add_client(lambda: None)
    broadcast.end()
    after = broadcast.add_client(lambda: None)
    assert kinds(before) == kinds(after) == ["snapshot", "end"]


def test_broadcast_removed_client_gets_no_event() -> None:
    broadcast = Broadcast()
    client = broadcast.add_client(lambda: None)
    other = broadcast.add_client(lambda: None)
    assert broadcast.n_clients == 2
    broadcast.remove_client(client)
    broadcast.remove_client(client)
    broadcast.put(START)
    assert broadcast.n_clients == 1
    assert kinds(client) == ["snapshot"]
    assert kinds(other) == ["snapshot", "started"]


def test_broadcast_summary_says_if_history_was_dropped() -> None:
    broadcast = Broadcast()
    for _ in range(HISTORY):
        broadcast.put(DONE)
    assert broadcast.summary()[0]["more"] is False
    broadcast.put(DONE)
    assert broadcast.summary()[0]["more"] is True
    broadcast.put(DONE, {"rtfx": 1.0})
    broadcast.put(Cleared(start_s=9.0, heard_s=9.0, at_s=9.5))
    cleared = broadcast.summary()[0]
    assert cleared["completed"] == []
    assert not cleared["more"]
    assert cleared["figures"] == [{"rtfx": 1.0}], "nobody asked for these to go"


def test_broadcast_run_id_differs_between_programs() -> None:
    first = Broadcast()
    second = Broadcast()
    assert (
        first.summary()[0]["run"]
        == first.summary()[0]["run"]
        != second.summary()[0]["run"]
    )


def test_client_newest_level_comes_after_captions() -> None:
    broadcast = Broadcast()
    client = broadcast.add_client(lambda: None)
    all_of(client)
    for level_db in (-50.0, -31.25):
        broadcast.put_level(level_db)
        broadcast.put(FIRST)
    messages = all_of(client)
    assert [message["event"] for message in messages] == ["partial", "level"]
    assert messages[1]["level_db"] == -31.2
    assert all_of(client) == []


def test_broadcast_new_client_gets_newest_history() -> None:
    broadcast = Broadcast()
    for index in range(HISTORY + 5):
        broadcast.put(completed(index), {"rtfx": float(index)})
    broadcast.put(partial(999, " now"))
    (snapshot,) = all_of(broadcast.add_client(lambda: None))
    assert [event["segment_id"] for event in snapshot["completed"]] == list(
        range(5, HISTORY + 5)
    )
    assert snapshot["partial"]["text"] == "now"
    assert [point["rtfx"] for point in snapshot["figures"]] == list(
        range(HISTORY - 55, HISTORY + 5)
    )


def test_client_newest_partial_replaces_waiting_ones() -> None:
    broadcast = Broadcast()
    client = broadcast.add_client(lambda: None)
    all_of(client)
    broadcast.put(Started(segment_id=0, start_s=0, heard_s=0, at_s=0))
    for text in (" a", " a b", " a b c"):
        broadcast.put(partial(0, text))
    broadcast.put(completed(0), {"rtfx": 2.0})
    assert [message["event"] for message in all_of(client)] == [
        "started",
        "partial",
        "completed",
        "figures",
    ]


def test_client_slow_loses_and_repeats_nothing() -> None:
    broadcast = Broadcast()
    slow = broadcast.add_client(lambda: None)
    seen = {}
    for index in range(150):
        broadcast.put(partial(index, " x"))
        broadcast.put(completed(index), {"rtfx": 1.0})
        if index % 40 == 0:
            seen.update({m["segment_id"]: m["text"] for m in segments(all_of(slow))})
    waiting = all_of(slow)
    assert len(waiting) <= 65
    seen.update({m["segment_id"]: m["text"] for m in segments(waiting)})
    assert seen == {index: f"said{index}" for index in range(150)}


def test_client_slow_gets_snapshot_then_end() -> None:
    broadcast = Broadcast()
    slow = broadcast.add_client(lambda: None)
    for index in range(63):  # with the snapshot that was there first, all that may wait
        broadcast.put(completed(index))
    broadcast.end()
    snapshot, end = all_of(slow)
    assert snapshot["event"] == "snapshot"
    assert end["event"] == "end"
    assert [event["segment_id"] for event in snapshot["completed"]] == list(range(63))


def test_broadcast_new_client_gets_losses() -> None:
    broadcast = Broadcast()
    for event in (
        completed(0),
        Lost(start_s=1.0, end_s=5.0, heard_s=5.0, at_s=1.0),
        completed(5),
    ):
        broadcast.put(event)
    (snapshot,) = all_of(broadcast.add_client(lambda: None))
    assert [event["event"] for event in snapshot["completed"]] == [
        "completed",
        "lost",
        "completed",
    ]


def segments(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    snapshots = [m["completed"] for m in messages if m["event"] == "snapshot"]
    return [event for group in snapshots for event in group] + [
        message for message in messages if message["event"] == "completed"
    ]


def test_broadcast_removed_client_gets_no_end() -> None:
    broadcast = Broadcast()
    client = broadcast.add_client(lambda: None)
    broadcast.remove_client(client)
    all_of(client)
    broadcast.put(completed(0))
    broadcast.end()
    assert all_of(client) == []
    assert [m["event"] for m in all_of(broadcast.add_client(lambda: None))] == [
        "snapshot",
        "end",
    ]
