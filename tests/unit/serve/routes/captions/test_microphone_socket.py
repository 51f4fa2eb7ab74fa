"""A browser's microphone over real sockets: one at a time, at most in real time."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.fakes.page_server import (
    PATIENCE_S,
    connect,
    serve,
    told,
)
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.sources.source import AudioQueue, Pace


def test_microphone_start_and_end_are_sent_to_pages(
    served: tuple[Any, BrowserSource],
) -> None:
    view, _ = served
    with connect(view, "events") as page:
        assert told(page, "snapshot")["recording"] is False
        with connect(view, "audio?recording=one") as speaker:
            speaker.recv()
            assert json.loads(page.recv()) == {"event": "recording", "recording": True}
            with connect(view, "events") as late:
                assert told(late, "snapshot")["recording"] is True
        assert json.loads(page.recv()) == {"event": "recording", "recording": False}


def test_microphone_second_browser_is_refused(
    served: tuple[Any, BrowserSource],
) -> None:
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    view, browser = served
    with connect(view, "audio") as microphone:
        microphone.send(np.array([0, 16384, -32768], "<i2").tobytes() + b"\x01")
        blocks = (block.audio for block in browser.blocks() if block.audio.size)
        np.testing.assert_allclose(next(blocks), [0.0, 0.5, -1.0])
        with pytest.raises(InvalidStatus), connect(view, "audio"):
            pass
        microphone.send(bytes(1 << 16))
        assert next(blocks).size == 1 << 15
        microphone.send(bytes((1 << 16) + 1))
        assert microphone.recv() == "new"
        with pytest.raises(ConnectionClosed, match="1009"):
            microphone.recv()
    browser.close()
    assert list(blocks) == []


def test_microphone_reconnect_says_if_it_continues(
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
    assert [told(f"audio?recording={name}") for name in endless] == [
        "new",
        "new",
        "again",
    ]


def test_browser_source_closed_yields_what_was_pushed() -> None:
    source = BrowserSource().open()
    assert source.pace == Pace.PULL
    assert source.endless
    assert source.name == "a browser's microphone"
    assert source.push(np.array([16384], "<i2").tobytes()) == 0.0
    source.close()
    (first,) = source.blocks()
    assert first.audio.tolist() == [0.5]
    assert first.captured_s is not None


def test_microphone_of_six_at_once_one_is_accepted(
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


def test_microphone_silent_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from websockets.exceptions import ConnectionClosed

    monkeypatch.setattr(
        "whisper_hailo.serve.routes.captions.microphone_socket.QUIET_TIMEOUT_S", 0.01
    )
    with serve(browser=BrowserSource()) as view:
        with connect(view, "audio") as silent:
            assert silent.recv() == "new"
            with pytest.raises(ConnectionClosed, match="1013"):
                silent.recv(timeout=60)
        with connect(view, "audio"):
            pass  # it is let in


def test_microphone_flood_is_slowed_to_real_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from websockets.exceptions import ConnectionClosed

    monkeypatch.setattr(
        "whisper_hailo.live.sources.network.AudioQueue",
        partial(AudioQueue, limit_s=3.0),
    )
    waits: list[float] = []
    wait = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await wait(seconds if seconds < 0.1 else 0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    browser = BrowserSource()
    with serve(browser=browser) as view, connect(view, "audio") as microphone:
        for _ in range(4):
            microphone.send(np.ones(32_000, "<i2").tobytes())
        microphone.send("that is all")
        assert microphone.recv() == "new"
        with pytest.raises(ConnectionClosed, match="1003"):
            microphone.recv()
        assert [seconds for seconds in waits if 0.1 < seconds < 10] == [2.0, 2.0, 2.0]
    block = next(browser.blocks())
    assert block.audio.size == 32_000
    assert block.n_lost == 96_000
