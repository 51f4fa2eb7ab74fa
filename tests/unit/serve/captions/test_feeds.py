"""Feeds of captions for browsers and players."""

from __future__ import annotations

import gc
import re
import urllib.error
import urllib.request
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.live.test_events import AWAY, BACK, DONE, FIRST, GONE, NEXT, SECOND, START
from tests.unit.serve.captions.serving import PATIENCE_S, completed, needs_web, partial
from whisper_hailo.live.events import (
    Away,
    Back,
    CaptionWord,
    Cleared,
    Completed,
    Lost,
    Marker,
    Started,
)
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.serve.routes.captions.feeds import (
    HISTORY,
    N_PIECES,
    PIECE_S,
    Broadcast,
    Client,
    MediaSegments,
)
from whisper_hailo.text.subtitles import Cue, Layout


def all_of(client: Client) -> list[dict[str, Any]]:
    messages = []
    while (message := client.take()) is not None:
        messages.append(message)
    return messages


def kinds(client: Client) -> list[str]:
    return [message["event"] for message in all_of(client)]


def test_a_browser_that_keeps_up_gets_every_event() -> None:
    broadcast, calls = Broadcast(), []
    client = broadcast.join(lambda: calls.append(1))
    assert kinds(client) == ["snapshot"]
    for event in (START, FIRST, DONE, GONE):
        broadcast.put(event)
    assert kinds(client) == ["started", "partial", "completed", "lost"]
    assert len(calls) == 4
    broadcast.put(DONE, {"rtfx": 2.0})
    assert all_of(client)[1] == {"event": "figures", "rtfx": 2.0}


def test_a_newer_partial_takes_the_place_of_the_one_that_waits() -> None:
    broadcast = Broadcast()
    client = broadcast.join(lambda: None)
    all_of(client)
    for event in (START, FIRST, SECOND):
        broadcast.put(event)
    waiting = all_of(client)
    assert [message["event"] for message in waiting] == ["started", "partial"]
    assert waiting[1]["text"] == "a b c"


def test_a_browser_that_comes_late_sees_what_was_said() -> None:
    broadcast = Broadcast(browser_microphone=True)
    for event in (START, FIRST, DONE, GONE, NEXT):
        broadcast.put(event, {"rtfx": 1.0} if event is DONE else None)
    (snapshot,) = all_of(broadcast.join(lambda: None))
    assert [message["event"] for message in snapshot["completed"]] == ["completed", "lost"]
    assert snapshot["partial"] is None
    assert snapshot["figures"] == [{"rtfx": 1.0}]
    assert snapshot["browser_microphone"] is True
    assert Broadcast().summary()[0]["browser_microphone"] is False
    broadcast.put(FIRST)
    assert all_of(broadcast.join(lambda: None))[0]["partial"]["text"] == "a b"


def test_late_browser_sees_that_and_where_the_source_is_away() -> None:
    broadcast = Broadcast()
    broadcast.put(AWAY)
    (snapshot,) = all_of(broadcast.join(lambda: None))
    assert snapshot["away"]["why"] == "the microphone was unplugged"
    broadcast.put(Marker(0.0, "here", 0.0, 0.0))
    assert broadcast.summary()[0]["away"] == snapshot["away"], "what else happens changes nothing"
    broadcast.put(BACK)
    (snapshot,) = all_of(broadcast.join(lambda: None))
    assert snapshot["away"] is None
    assert [message["event"] for message in snapshot["completed"]] == ["marker", "back"]


def test_where_nothing_can_be_changed_there_are_no_settings() -> None:
    assert Broadcast().summary()[0]["settings"] == {}
    assert Broadcast(settings={"language": "de"}).summary()[0]["settings"] == {"language": "de"}


def test_segments_without_words_are_no_history() -> None:
    broadcast = Broadcast()
    broadcast.put(replace(DONE, words=()))
    assert broadcast.summary()[0]["completed"] == []


def test_a_browser_that_is_far_behind_gets_a_snapshot_instead() -> None:
    """64 messages may wait; the snapshot replaces them."""
    broadcast = Broadcast()
    client = broadcast.join(lambda: None)
    all_of(client)
    for _ in range(64):
        broadcast.put(DONE)
    assert len(all_of(client)) == 64
    for _ in range(65):
        broadcast.put(DONE)
    (snapshot,) = all_of(client)
    assert (snapshot["event"], len(snapshot["completed"])) == ("snapshot", 129)


def test_history_is_as_long_as_it_is_said_to_be() -> None:
    broadcast = Broadcast()
    for _ in range(HISTORY + 5):
        broadcast.put(DONE)
    for n in range(70):
        broadcast.put(START, {"n": n})
    (snapshot,) = broadcast.summary()
    assert len(snapshot["completed"]) == 200
    assert [figure["n"] for figure in snapshot["figures"]] == [*range(10, 70)]


def test_the_end_comes_last_for_everybody() -> None:
    broadcast = Broadcast()
    before = broadcast.join(lambda: None)
    broadcast.end()
    after = broadcast.join(lambda: None)
    assert kinds(before) == kinds(after) == ["snapshot", "end"]


def test_whoever_left_is_told_nothing_more() -> None:
    broadcast = Broadcast()
    client, other = broadcast.join(lambda: None), broadcast.join(lambda: None)
    assert broadcast.n_clients == 2
    broadcast.leave(client)
    broadcast.leave(client)
    broadcast.put(START)
    assert (broadcast.n_clients, kinds(client), kinds(other)) == (
        1,
        ["snapshot"],
        ["snapshot", "started"],
    )


def test_browser_knows_whether_what_it_gets_is_all_that_was_said() -> None:
    broadcast = Broadcast()
    for _ in range(HISTORY):
        broadcast.put(DONE)
    assert broadcast.summary()[0]["more"] is False
    broadcast.put(DONE)
    assert broadcast.summary()[0]["more"] is True
    broadcast.put(DONE, {"rtfx": 1.0})
    broadcast.put(Cleared(9.0, 9.0, 9.5))
    cleared = broadcast.summary()[0]
    assert (cleared["completed"], cleared["more"]) == ([], False)
    assert cleared["figures"] == [{"rtfx": 1.0}], "nobody asked for these to go"


def test_a_page_knows_whether_the_program_was_started_anew() -> None:
    one, other = Broadcast(), Broadcast()
    assert one.summary()[0]["run"] == one.summary()[0]["run"] != other.summary()[0]["run"]


def test_of_levels_the_newest_comes_and_behind_what_was_said() -> None:
    broadcast = Broadcast()
    client = broadcast.join(lambda: None)
    all_of(client)
    for level_db in (-50.0, -31.25):
        broadcast.put_level(level_db)
        broadcast.put(FIRST)
    told = all_of(client)
    assert [message["event"] for message in told] == ["partial", "level"]
    assert told[1]["level_db"] == -31.2
    assert all_of(client) == []


def test_a_new_client_sees_what_was_and_what_is() -> None:
    broadcast = Broadcast()
    for index in range(HISTORY + 5):
        broadcast.put(completed(index), {"rtfx": float(index)})
    broadcast.put(partial(999, " now"))
    (snapshot,) = all_of(broadcast.join(lambda: None))
    assert [event["segment_id"] for event in snapshot["completed"]] == list(range(5, HISTORY + 5))
    assert snapshot["partial"]["text"] == "now"
    assert [point["rtfx"] for point in snapshot["figures"]] == list(
        range(HISTORY - 55, HISTORY + 5)
    )


def test_newer_partials_take_the_place_of_those_that_wait() -> None:
    broadcast = Broadcast()
    client = broadcast.join(lambda: None)
    all_of(client)
    broadcast.put(Started(0, 0, 0, 0))
    for text in (" a", " a b", " a b c"):
        broadcast.put(partial(0, text))
    broadcast.put(completed(0), {"rtfx": 2.0})
    assert [message["event"] for message in all_of(client)] == [
        "started",
        "partial",
        "completed",
        "figures",
    ]


def test_a_slow_client_loses_and_doubles_nothing() -> None:
    broadcast = Broadcast()
    slow, seen = broadcast.join(lambda: None), {}
    for index in range(150):
        broadcast.put(partial(index, " x"))
        broadcast.put(completed(index), {"rtfx": 1.0})
        if index % 40 == 0:
            seen.update({m["segment_id"]: m["text"] for m in segments(all_of(slow))})
    waiting = all_of(slow)
    assert len(waiting) <= 65
    seen.update({m["segment_id"]: m["text"] for m in segments(waiting)})
    assert seen == {index: f"said{index}" for index in range(150)}


def test_a_slow_client_is_told_of_the_end() -> None:
    broadcast = Broadcast()
    slow = broadcast.join(lambda: None)
    for index in range(63):  # with the snapshot that was there first, all that may wait
        broadcast.put(completed(index))
    broadcast.end()
    snapshot, end = all_of(slow)
    assert (snapshot["event"], end["event"]) == ("snapshot", "end")
    assert [event["segment_id"] for event in snapshot["completed"]] == list(range(63))


def test_a_new_client_sees_where_audio_was_lost() -> None:
    broadcast = Broadcast()
    for event in (completed(0), Lost(1.0, 5.0, 5.0, 1.0), completed(5)):
        broadcast.put(event)
    (snapshot,) = all_of(broadcast.join(lambda: None))
    assert [event["event"] for event in snapshot["completed"]] == ["completed", "lost", "completed"]


def segments(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    snapshots = [m["completed"] for m in messages if m["event"] == "snapshot"]
    return [event for group in snapshots for event in group] + [
        message for message in messages if message["event"] == "completed"
    ]


def test_clients_that_left_are_told_nothing() -> None:
    broadcast = Broadcast()
    client = broadcast.join(lambda: None)
    broadcast.leave(client)
    all_of(client)
    broadcast.put(completed(0))
    broadcast.end()
    assert all_of(client) == []
    assert [m["event"] for m in all_of(broadcast.join(lambda: None))] == ["snapshot", "end"]


def started(index: int, start_s: float) -> Started:
    return Started(index, start_s, start_s + 0.2, start_s, 1_000_000 + start_s)


def spoken(index: int, start_s: float, end_s: float, text: str, **fields: Any) -> Completed:
    words = tuple(CaptionWord(f" {word}") for word in text.split())
    fields = {"wall_s": 1_000_000 + start_s, **fields}
    return Completed(index, start_s, end_s, words, "silence", 0, end_s + 0.1, end_s, **fields)


def names(pieces: MediaSegments) -> list[int]:
    return [int(number) for number in re.findall(r"captions/(\d+).vtt", pieces.playlist())]


def cues(pieces: MediaSegments, number: int) -> list[tuple[str, str]]:
    """Times and text of each cue."""
    piece = pieces.piece(number)
    assert piece is not None
    return re.findall("(.* --> .*)\n(.*)", piece)


def shown(pieces: MediaSegments, number: int) -> list[str]:
    return [text for _, text in cues(pieces, number)]


def times(pieces: MediaSegments, number: int) -> list[tuple[float, float]]:
    """In seconds of the first minute."""
    found = (re.findall(r":(\d\d\.\d+)", line) for line, _ in cues(pieces, number))
    return [(float(start_s), float(end_s)) for start_s, end_s in found]


def n_cues_in_memory() -> int:
    return sum(type(thing) is Cue for thing in gc.get_objects())


def test_a_piece_is_there_when_nothing_can_change_in_it() -> None:
    pieces = MediaSegments()
    pieces.come_to(4.9)
    assert names(pieces) == []
    pieces.come_to(5.0)
    assert names(pieces) == [0]
    pieces.put(started(0, 7.0))
    pieces.come_to(30.0)
    assert names(pieces) == [0], "what is said in the next one is not known yet"
    pieces.put(spoken(0, 7.0, 13.0, "said"))
    pieces.come_to(17.1)
    assert names(pieces) == [0, 1, 2, 3]
    assert [shown(pieces, number) for number in range(4)] == [[], ["said"], ["said"], ["said"]]


def test_piece_never_changes_and_what_comes_too_late_is_in_next() -> None:
    pieces = MediaSegments()
    pieces.come_to(9.0)
    before = pieces.piece(1)
    pieces.put(spoken(0, 6.0, 7.5, "late"))
    pieces.come_to(13.0)
    assert pieces.piece(1) == before
    assert shown(pieces, 2) == ["late"]
    pieces.put(spoken(1, 6.0, 15.0, "long"))
    pieces.put(spoken(2, 6.0, 13.2, "long"))
    pieces.come_to(17.0)
    assert times(pieces, 2) == [(8.0, 9.0)]
    assert times(pieces, 3) == [(12.0, 15.0), (12.0, 13.2)]
    pieces.put(spoken(3, 16.0, 16.5, "just in time"))
    pieces.come_to(21.0)
    assert times(pieces, 4) == [(16.0, 16.5)]


def test_whatever_is_told_says_how_far_the_stream_has_come() -> None:
    pieces = MediaSegments()
    pieces.put(started(0, 9.0))
    assert names(pieces) == [0, 1]


@pytest.mark.parametrize(("heard_s", "n_pieces"), [(8.0, 2), (8.5, 3)])
def test_the_end_of_a_stream_is_where_it_was_heard_to(heard_s: float, n_pieces: int) -> None:
    pieces = MediaSegments()
    pieces.come_to(heard_s)
    pieces.end()
    assert names(pieces) == list(range(n_pieces))


def test_a_playlist_says_what_rfc_8216_wants_of_it() -> None:
    pieces = MediaSegments()
    pieces.put(spoken(0, 0.25, 1.0, "said", wall_s=1_000_000.75))
    pieces.come_to(9.0)
    assert pieces.playlist("?token=x").splitlines() == [
        "#EXTM3U",
        "#EXT-X-VERSION:3",
        "#EXT-X-TARGETDURATION:4",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PROGRAM-DATE-TIME:1970-01-12T13:46:40.500+00:00",
        "#EXTINF:4.000,",
        "captions/0.vtt?token=x",
        "#EXTINF:4.000,",
        "captions/1.vtt?token=x",
    ]


def test_where_nothing_came_there_is_no_piece() -> None:
    pieces = MediaSegments()
    pieces.put(started(0, 0.0))
    assert (names(pieces), pieces.piece(0), pieces.piece(1)) == ([], None, None)
    assert "DATE-TIME" not in pieces.playlist()
    nothing = MediaSegments()
    nothing.end()
    assert (names(nothing), "#EXT-X-MEDIA-SEQUENCE:0\n" in nothing.playlist()) == ([], True)


def test_what_ends_where_a_piece_begins_is_not_in_it() -> None:
    pieces = MediaSegments()
    for index, (start_s, end_s) in enumerate([(0.0, 4.0), (4.0, 4.5), (8.0, 12.0)]):
        pieces.put(spoken(index, start_s, end_s, f"said{index}"))
    pieces.end()
    assert [shown(pieces, number) for number in range(3)] == [["said0"], ["said1"], ["said2"]]
    assert (PIECE_S, N_PIECES * PIECE_S) == (4.0, 180.0)


def test_memory_is_bounded_and_old_pieces_go() -> None:
    pieces, n_before = MediaSegments(), n_cues_in_memory()
    for index in range(1000):
        pieces.put(started(index, 3.0 * index))
        pieces.put(spoken(index, 3.0 * index, 3.0 * index + 2.0, f"said{index}"))
    last = int((3.0 * 999 + 2.1 - 1) // PIECE_S) - 1
    assert names(pieces) == list(range(last - N_PIECES + 1, last + 1))
    assert f"#EXT-X-MEDIA-SEQUENCE:{last - N_PIECES + 1}\n" in pieces.playlist()
    assert pieces.piece(last - N_PIECES) is None
    assert pieces.piece(last + 1) is None
    assert n_cues_in_memory() - n_before < 10
    pieces.come_to(1e6)
    assert len(names(pieces)) == N_PIECES
    assert names(pieces)[-1] == int((1e6 - 1) // PIECE_S) - 1


def test_an_absence_leaves_times_in_step() -> None:
    pieces = MediaSegments()
    pieces.put(Away(3.0, "unplugged", 3.0, 3.0, 1_000_003.0))
    pieces.put(Back(3.0, 603.0, 603.0, 603.0, 1_000_003.0))
    pieces.put(spoken(0, 610.0, 612.0, "again"))
    pieces.end()
    assert shown(pieces, 152) == ["again"]
    first = names(pieces)[0]
    began = 1_000_000 + first * PIECE_S
    assert f"#EXT-X-PROGRAM-DATE-TIME:{np.datetime64(int(began), 's')}" in pieces.playlist()


def test_the_last_piece_is_there_when_the_stream_is_over() -> None:
    pieces = MediaSegments()
    pieces.put(spoken(0, 0.5, 1.5, "all"))
    assert names(pieces) == []
    pieces.end()
    assert names(pieces) == [0]
    assert pieces.playlist().endswith("#EXT-X-ENDLIST\n")


def test_a_translation_and_speakers_are_shown() -> None:
    pieces = MediaSegments()
    pieces.put(spoken(0, 0.5, 1.5, "Guten Tag", translation="Good day", speaker=1))
    pieces.end()
    piece = pieces.piece(0)
    assert piece is not None
    assert piece.startswith("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n\n")
    assert re.findall("--> .*\n(.*)", piece) == [
        "<v Speaker 2>Guten Tag",
        "<v Speaker 2>Good day",
    ]


def test_a_players_own_parser_reads_all_captions() -> None:
    av = pytest.importorskip("av", reason="the media extra is not installed")
    needs_web()
    from whisper_hailo.serve.routes.captions.view import PageAddress, WebView

    said = {index: f"sentence number {index}" for index in range(12)}
    with WebView(CaptionStatistics, PageAddress(port=0)) as view:
        for index, text in said.items():
            view.put(started(index, 5.0 * index + 1))
            view.put(spoken(index, 5.0 * index + 1, 5.0 * index + 3, text))
        view.come_to(81.0)
        address = f"{view.address}captions.m3u8"
        assert "#EXTM3U" in got(address)
        assert "captions/0.vtt\n" in got(address)
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:  # noqa: S310
            assert response.headers.get_content_type() == "application/vnd.apple.mpegurl"
            assert response.headers["Cache-Control"] == "no-cache"
        with urllib.request.urlopen(f"{view.address}captions/0.vtt", timeout=PATIENCE_S) as piece:  # noqa: S310
            assert piece.headers.get_content_type() == "text/vtt"
            assert piece.headers["X-Content-Type-Options"] == "nosniff"
        heard: dict[float, str] = {}
        view.pieces.end()  # a player that reads to the end needs one
        with av.open(
            f"{view.address}captions.m3u8", options={"allowed_extensions": "ALL"}
        ) as media:
            (stream,) = media.streams.subtitles
            assert stream.codec_context.name == "webvtt"
            for packet in media.demux(stream):
                if packet.size:
                    heard[float(packet.pts * packet.time_base)] = bytes(packet).decode()
    assert list(heard.values()) == list(said.values())
    assert list(heard) == [5.0 * index + 1 for index in said]


def test_players_need_the_token_for_playlist_and_segments() -> None:
    needs_web()
    from whisper_hailo.serve.routes.captions.view import PageAddress, WebView

    with WebView(CaptionStatistics, PageAddress(port=0, token="sesame-open")) as view:  # noqa: S106
        view.come_to(9.0)
        for path, status in (
            ("captions.m3u8", "403"),
            ("captions/0.vtt", "404"),
            ("captions/0.vtt?token=guessed1", "404"),
        ):
            with pytest.raises(urllib.error.HTTPError, match=status) as refused:
                got(view.address + path)
            refused.value.close()
        playlist = got(f"{view.address}captions.m3u8?token=sesame-open")
        (_, second) = re.findall("captions/.*", playlist)
        assert got(view.address + second).startswith("WEBVTT")
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            got(f"{view.address}captions/2.vtt?token=sesame-open")
        refused.value.close()


def got(address: str) -> str:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:  # noqa: S310
        text: str = response.read().decode()
    return text


@pytest.mark.parametrize("of_page", [False, True])
def test_cues_are_as_wide_as_asked_for(of_page: bool) -> None:
    from whisper_hailo.serve.routes.captions.view import PageAddress, WebView

    layout = Layout(max_line_width=10, max_line_count=1)
    view = WebView(CaptionStatistics, PageAddress(port=0), layout=layout)
    pieces = view.pieces if of_page else MediaSegments(layout)
    pieces.put(spoken(0, 0.5, 3.5, "one two three four five"))
    pieces.end()
    assert all(len(text) <= 10 for text in shown(pieces, 0))
    assert " ".join(shown(pieces, 0)) == "one two three four five"
