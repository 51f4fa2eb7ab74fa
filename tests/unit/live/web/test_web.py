"""The page's server over real sockets: snapshots, reconnects, slow readers, foreign pages."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.events import CaptionWord, Completed, Lost, Partial, Started
from whisper_hailo.live.sources.browser import BrowserSource
from whisper_hailo.live.sources.source import Pace
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.web.broadcast import HISTORY, Broadcast
from whisper_hailo.live.web.framing import frame_ancestors

PATIENCE_S = 300
"""For a machine that does much else; no wait is that long."""


def completed(index: int, text: str = "said") -> Completed:
    words = (CaptionWord(f" {text}{index}", 0.5),)
    return Completed(index, index, index + 1.0, words, "silence", 0, index + 1.0, 0.0)


def partial(index: int, text: str) -> Partial:
    return Partial(index, index, index + 0.5, (), (CaptionWord(text),), 0, index + 0.5, 0.0)


def taken(client: Any) -> list[dict[str, Any]]:
    return list(iter(client.take, None))


def test_a_new_client_sees_what_was_and_what_is() -> None:
    broadcast = Broadcast()
    for index in range(HISTORY + 5):
        broadcast.put(completed(index), {"rtfx": float(index)})
    broadcast.put(partial(999, " now"))
    (snapshot,) = taken(broadcast.join(lambda: None))
    assert [event["segment_id"] for event in snapshot["completed"]] == list(range(5, HISTORY + 5))
    assert snapshot["partial"]["text"] == "now"
    assert [point["rtfx"] for point in snapshot["figures"]] == list(
        range(HISTORY - 55, HISTORY + 5)
    )


def test_newer_partials_take_the_place_of_those_that_wait() -> None:
    broadcast = Broadcast()
    client = broadcast.join(lambda: None)
    taken(client)
    broadcast.put(Started(0, 0, 0, 0))
    for text in (" a", " a b", " a b c"):
        broadcast.put(partial(0, text))
    broadcast.put(completed(0), {"rtfx": 2.0})
    assert [message["event"] for message in taken(client)] == [
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
            seen.update({m["segment_id"]: m["text"] for m in segments(taken(slow))})
    waiting = taken(slow)
    assert len(waiting) <= 65
    seen.update({m["segment_id"]: m["text"] for m in segments(waiting)})
    assert seen == {index: f"said{index}" for index in range(150)}


def test_a_slow_client_is_told_of_the_end() -> None:
    broadcast = Broadcast()
    slow = broadcast.join(lambda: None)
    for index in range(63):  # with the snapshot that was there first, all that may wait
        broadcast.put(completed(index))
    broadcast.end()
    snapshot, end = taken(slow)
    assert (snapshot["event"], end["event"]) == ("snapshot", "end")
    assert [event["segment_id"] for event in snapshot["completed"]] == list(range(63))


def test_a_new_client_sees_where_audio_was_lost() -> None:
    broadcast = Broadcast()
    for event in (completed(0), Lost(1.0, 5.0, 5.0, 1.0), completed(5)):
        broadcast.put(event)
    (snapshot,) = taken(broadcast.join(lambda: None))
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
    taken(client)
    broadcast.put(completed(0))
    broadcast.end()
    assert taken(client) == []
    assert [m["event"] for m in taken(broadcast.join(lambda: None))] == ["snapshot", "end"]


def needs_web() -> None:
    for module in ("starlette", "uvicorn", "websockets"):
        pytest.importorskip(module, reason="the web extra is not installed")


@pytest.fixture
def served() -> Iterator[tuple[Any, BrowserSource]]:
    needs_web()
    from whisper_hailo.live.web.view import Place, WebView

    browser = BrowserSource()
    with WebView(CaptionStatistics, Place.of(port=0), browser=browser) as view:
        yield view, browser


def connect(view: Any, path: str, **options: Any) -> Any:
    from websockets.sync.client import connect as websocket

    address = view.address.replace("http", "ws") + path
    return websocket(address, open_timeout=PATIENCE_S, **options)


def told(page: Any, event: str) -> dict[str, Any]:
    """The next message of a kind."""
    messages: Iterator[dict[str, Any]] = map(json.loads, page)
    return next(message for message in messages if message["event"] == event)


def test_the_page_and_its_parts_are_served(served: tuple[Any, BrowserSource]) -> None:
    view, _ = served
    for name, inside, kind in (
        ("", b'role="log"', "text/html"),
        ("page.js", b"import", "text/javascript"),
        ("connection.js", b"WebSocket", "text/javascript"),
        ("page.css", b"--ground", "text/css"),
        ("recorder.js", b"registerProcessor", "text/javascript"),
    ):
        with urllib.request.urlopen(view.address + name, timeout=PATIENCE_S) as response:  # noqa: S310
            assert inside in response.read()
            assert response.headers.get_content_type() == kind
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert policy.endswith("frame-ancestors 'none'")


def test_only_a_page_over_a_picture_takes_the_style_of_who_opens_it(
    served: tuple[Any, BrowserSource],
) -> None:
    view, _ = served
    for query, has_theirs in (("", False), ("?overlay=0", False), ("?overlay=1", True)):
        with urllib.request.urlopen(view.address + query, timeout=PATIENCE_S) as response:  # noqa: S310
            policy = response.headers["Content-Security-Policy"]
        assert ("style-src 'self' 'unsafe-inline';" in policy) == has_theirs
        assert ("require-trusted-types-for" in policy) != has_theirs
        assert "script-src 'self';" in policy
        assert policy.endswith("; frame-ancestors 'none'")


@pytest.mark.parametrize(
    ("host", "own", "here", "others"),
    [
        ("127.0.0.1", "10.0.0.7", "http://127.0.0.1:8765/", ""),
        ("0.0.0.0", "10.0.0.7", "http://127.0.0.1:8765/", "http://10.0.0.7:8765/"),  # noqa: S104
        ("0.0.0.0", None, "http://127.0.0.1:8765/", ""),  # noqa: S104
        ("::", "fd00::7", "http://[::1]:8765/", "http://[fd00::7]:8765/"),
        ("10.0.0.9", "10.0.0.7", "http://10.0.0.9:8765/", ""),
    ],
)
def test_addresses_are_such_that_can_be_opened(
    monkeypatch: pytest.MonkeyPatch, host: str, own: str | None, here: str, others: str
) -> None:
    from whisper_hailo.live.web.view import Place, WebView

    monkeypatch.setattr("whisper_hailo.live.web.view.own_address", lambda _: own)
    view = WebView(CaptionStatistics, Place.of(host))
    assert view.address == here
    assert view.address_for_others == others


def test_pages_that_are_named_may_show_the_page_in_theirs() -> None:
    needs_web()
    from whisper_hailo.live.web.view import Place, WebView

    origins = ("http://homeassistant.local:8123", "https://Wall.example/")
    with (
        WebView(CaptionStatistics, Place.of(port=0, framed_by=origins)) as view,
        urllib.request.urlopen(view.address, timeout=PATIENCE_S) as response,  # noqa: S310
    ):
        policy = response.headers["Content-Security-Policy"]
    named = "http://homeassistant.local:8123 https://wall.example"
    assert policy.endswith(f"; frame-ancestors {named}")


@pytest.mark.parametrize(
    "given",
    [
        *("", "*", "homeassistant.local", "file:///x", "http://", "http://a b", "https://a;b"),
        *("ftp://wall.example", "://wall.example"),
    ],
)
def test_what_is_no_origin_frames_nothing(given: str) -> None:
    with pytest.raises(OptionError, match=r"--web-frame is .*, expected the origin of a page"):
        frame_ancestors([given])


def test_pages_see_how_loud_it_is(served: tuple[Any, BrowserSource]) -> None:
    view, _ = served
    with connect(view, "events") as page:
        told(page, "snapshot")
        for _ in range(2):
            view.hear(np.full(1000, 0.1, np.float32))  # together enough for one reading
        assert json.loads(page.recv()) == {"event": "level", "level_db": -20.0}
        view.hear(np.zeros(2000, np.float32))
        assert json.loads(page.recv()) == {"event": "level", "level_db": -90.0}


def test_pages_know_whether_a_browser_is_heard(served: tuple[Any, BrowserSource]) -> None:
    view, _ = served
    with connect(view, "events") as page:
        assert told(page, "snapshot")["recording"] is False
        with connect(view, "audio?recording=one") as speaker:
            speaker.recv()
            assert json.loads(page.recv()) == {"event": "recording", "recording": True}
            with connect(view, "events") as late:
                assert told(late, "snapshot")["recording"] is True
        assert json.loads(page.recv()) == {"event": "recording", "recording": False}


def test_a_page_that_is_told_nothing_knows_that_it_is_connected(
    served: tuple[Any, BrowserSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.web.watching._STILL_S", 0.01)
    with connect(served[0], "events") as page:
        told(page, "snapshot")
        assert json.loads(page.recv()) == {"event": "still"}


def test_events_reach_every_page_and_again_after_a_reconnect(
    served: tuple[Any, BrowserSource],
) -> None:
    view, _ = served
    with connect(view, "events") as first:
        assert [json.loads(first.recv())["event"] for _ in range(2)] == ["hello", "snapshot"]
        view.put(partial(0, " so"))
        view.put(completed(0))
        kinds = [json.loads(first.recv())["event"] for _ in range(3)]
        assert kinds == ["partial", "completed", "figures"]
    view.put(completed(1))
    with connect(view, "events") as again:
        _, snapshot = (json.loads(again.recv()) for _ in range(2))
    assert [event["text"] for event in snapshot["completed"]] == ["said0", "said1"]
    assert snapshot["browser_microphone"]


def test_pages_see_how_fast_and_how_late_captions_are() -> None:
    from whisper_hailo.live.web.view import Place, WebView

    statistics = CaptionStatistics(n_segment_samples=32_000, compute_s=0.5, behind_s=1.26)
    view = WebView(lambda: statistics, Place.of())
    assert view._figures() == {"final_latency_s": None, "rtfx": 4.0, "behind_s": 1.3}
    for seconds in (9.0, 0.123456):
        statistics.final_latency_s.add(seconds)
    assert view._figures()["final_latency_s"] == 0.1235


def test_where_nothing_can_be_heard_or_paused_that_is_the_answer() -> None:
    needs_web()
    from websockets.exceptions import InvalidStatus

    from whisper_hailo.live.web.view import Place, WebView

    with WebView(CaptionStatistics, Place.of(port=0)) as view:
        with pytest.raises(InvalidStatus, match="403"), connect(view, "audio"):
            pass
        token = view.address_to_control.partition("?")[2]
        with connect(view, f"events?{token}") as page:
            page.send(json.dumps({"type": "control", "id": 1, "action": "pause"}))
            refused = told(page, "answer")
    assert refused["error"] == "nothing is heard that could be paused"


def test_what_comes_while_no_page_is_served_goes_nowhere() -> None:
    from whisper_hailo.live.web.view import Place, WebView

    view = WebView(CaptionStatistics, Place.of(port=0))
    view.put(completed(0))
    view.come_to(9.0)
    view.hear(np.full(4000, 0.5, np.float32))
    view.close()
    assert view._broadcast.summary()[0]["completed"] == []


def test_a_page_is_told_of_the_end_before_its_socket_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs_web()
    from websockets.exceptions import ConnectionClosed

    from whisper_hailo.live.web.view import Place, WebView

    monkeypatch.setattr("whisper_hailo.live.web.view._END_LOOKS", 10 * PATIENCE_S)
    monkeypatch.setattr("whisper_hailo.live.web.view._CLOSED_S", PATIENCE_S)
    view = WebView(CaptionStatistics, Place.of(port=0)).open()
    with connect(view, "events") as page:
        assert [json.loads(page.recv())["event"] for _ in range(2)] == ["hello", "snapshot"]
        view.put(completed(0))
        view.close()
        view.close()
        kinds = [json.loads(page.recv())["event"] for _ in range(3)]
        assert kinds == ["completed", "figures", "end"]
        assert view._pieces.playlist().endswith("#EXT-X-ENDLIST\n"), "players, too"
        with pytest.raises(ConnectionClosed, match="1000"):
            page.recv()
    assert not any(thread.name == "caption-web" for thread in threading.enumerate())


def test_a_browser_may_be_the_microphone_one_at_a_time(
    served: tuple[Any, BrowserSource],
) -> None:
    from websockets.exceptions import InvalidStatus

    view, browser = served
    with connect(view, "audio") as microphone:
        microphone.send(np.array([0, 16384, -32768], "<i2").tobytes() + b"\x01")
        blocks = (block.audio for block in browser.blocks() if block.audio.size)
        np.testing.assert_allclose(next(blocks), [0.0, 0.5, -1.0])
        with pytest.raises(InvalidStatus), connect(view, "audio"):
            pass
    browser.close()
    assert list(blocks) == []


def test_a_browser_is_heard_however_much_it_says(
    served: tuple[Any, BrowserSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound holds for what is no message."""
    monkeypatch.setattr("whisper_hailo.live.web.pages._SPEAKER_BYTES", 4096)
    view, browser = served
    with connect(view, "audio") as microphone:
        heard = (block.audio.size for block in browser.blocks() if block.audio.size)
        for _ in range(10):
            microphone.send(bytes(1000))
            assert next(heard) == 500


def test_a_page_may_send_what_it_kept_only_where_no_other_was_heard_since(
    served: tuple[Any, BrowserSource],
) -> None:
    view, _ = served

    def told(path: str) -> str:
        with connect(view, path) as microphone:
            answer: str = microphone.recv()
        return answer

    come = ["one", "one", "other", "one", "one"]
    answers = [told(f"audio?recording={name}") for name in come]
    assert answers == ["new", "again", "new", "new", "again"]
    assert [told("audio"), told("audio")] == ["new", "new"]
    endless = ["n" * 63, "n" * 64, "n" * 65]  # no more than 64 letters are kept
    assert [told(f"audio?recording={name}") for name in endless] == ["new", "new", "again"]


def test_a_browser_is_heard_as_long_as_somebody_wants() -> None:
    source = BrowserSource().open()
    assert (source.pace, source.endless, source.name) == (
        Pace.ASKED, True, "a browser's microphone",
    )  # fmt: skip
    assert source.push(np.array([16384], "<i2").tobytes()) == 0.0
    source.close()
    (first,) = source.blocks()
    assert (first.audio.tolist(), first.captured_s is not None) == ([0.5], True)


def test_of_browsers_that_come_at_once_one_is_the_microphone(
    served: tuple[Any, BrowserSource],
) -> None:
    from websockets.exceptions import InvalidStatus

    view, _ = served
    together, decided = (threading.Barrier(6, timeout=PATIENCE_S) for _ in range(2))
    outcomes: list[str] = []

    def come() -> None:
        together.wait()
        try:
            with connect(view, "audio"):
                outcomes.append("taken")
                decided.wait()
        except InvalidStatus:
            outcomes.append("refused")
            decided.wait()

    pages = [threading.Thread(target=come) for _ in range(6)]
    for page in pages:
        page.start()
    for page in pages:
        page.join()
    assert sorted(outcomes) == [*(["refused"] * 5), "taken"]


def test_foreign_pages_and_foreign_names_are_refused(served: tuple[Any, BrowserSource]) -> None:
    from websockets.exceptions import InvalidStatus

    view, _ = served
    with pytest.raises(InvalidStatus), connect(view, "events", origin="http://evil.example"):
        pass
    request = urllib.request.Request(view.address, headers={"Host": "evil.example"})  # noqa: S310
    with pytest.raises(urllib.error.HTTPError, match="421") as refused:
        urllib.request.urlopen(request, timeout=PATIENCE_S)  # noqa: S310
    refused.value.close()


def test_an_address_in_use_is_told(served: tuple[Any, BrowserSource]) -> None:
    from whisper_hailo.live.web.view import Place, WebView

    view, _ = served
    port = int(view.address.rsplit(":", 1)[1].strip("/"))
    with (
        pytest.raises(OptionError, match="give another --web-port"),
        WebView(CaptionStatistics, Place.of(port=port)),
    ):
        pass
