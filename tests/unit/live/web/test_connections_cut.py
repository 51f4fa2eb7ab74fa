"""Connections that are cut: those who ask for nothing, do not read, or say much for nothing."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from tests.unit.live.web.lines import HERE, PATIENCE_S, Inner, Transport, come
from whisper_hailo.live.web.connections import Door, Line


def test_whoever_asks_for_nothing_in_time_is_cut_and_a_page_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whisper_hailo.live.web.connections.ASK_S", 0.01)
    told: list[str] = []

    async def run() -> None:
        door = Door(told.append)
        (page, looked_at), (slow, transport) = come(door), come(door)
        page.stay(100)
        slow.data_received(b"GET / HTTP/1.1\r\n")
        await asyncio.wait_for(transport.aborted.wait(), PATIENCE_S)
        assert not looked_at.aborted.is_set()

    asyncio.run(run())
    assert told == ["some connections asked for nothing in time and were cut"]


def test_a_spare_connection_of_a_browser_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisper_hailo.live.web.connections.ASK_S", 0.01)
    told: list[str] = []

    async def run() -> None:
        _, transport = come(Door(told.append))
        await asyncio.wait_for(transport.aborted.wait(), PATIENCE_S)

    asyncio.run(run())
    assert told == []


def test_whoever_does_not_read_the_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no later where the end is said twice."""
    told: list[str] = []

    async def run() -> None:
        line, transport = come(Door(told.append))
        line.data_received(b"GET / HTTP/1.1\r\n")
        line.stay(100)
        inner = line.inner
        assert isinstance(inner, Inner)
        for linger_s in (0.01, 10 * PATIENCE_S):
            monkeypatch.setattr("whisper_hailo.live.web.connections.LINGER_S", linger_s)
            inner.transport.close()
        assert transport.closing
        await asyncio.wait_for(transport.aborted.wait(), PATIENCE_S)

    asyncio.run(run())
    assert told == [], "it did ask for something"


def test_of_who_left_nothing_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisper_hailo.live.web.connections.ASK_S", 0.01)
    told: list[str] = []

    async def run() -> None:
        door = Door(told.append)
        left, _ = come(door)
        left.data_received(b"GET / HTTP/1.1\r\n")
        left.connection_lost(None)
        _, later = come(door)
        await asyncio.wait_for(later.aborted.wait(), PATIENCE_S)

    asyncio.run(run())
    assert told == []


def test_what_never_becomes_a_message_ends_the_connection() -> None:
    told: list[str] = []

    async def run() -> None:
        line, transport = come(Door(told.append))
        line.data_received(b"x" * 500)  # a request; HTTP has limits of its own
        line.stay(100)
        for _ in range(50):
            line.data_received(b"x" * 60)
            line.heard()
        assert not transport.aborted.is_set()
        line.data_received(b"x" * 60)
        line.data_received(b"y" * 60)
        assert transport.aborted.is_set()
        assert isinstance(line.inner, Inner)
        assert b"y" not in line.inner.received

    asyncio.run(run())
    assert told == ["some pages sent much that was no message and were cut"]


def test_as_much_may_come_before_a_message_as_is_said_and_no_more() -> None:
    async def run() -> list[bool]:
        line, transport = come(Door(lambda _: None))
        line.stay(100)
        cut = []
        for size in (100, 100, 1):
            line.data_received(b"x" * size)
            cut.append(transport.aborted.is_set())
            if len(cut) == 1:
                line.heard()
        return cut

    assert asyncio.run(run()) == [False, False, True]


def test_messages_are_no_excuse_for_answers_that_are_not_read() -> None:
    async def run() -> None:
        line, transport = come(Door(lambda _: None))
        line.stay(100)
        line.pause_writing()
        line.data_received(b"x" * 60)
        line.heard()
        line.resume_writing()
        line.heard()
        line.pause_writing()
        line.data_received(b"x" * 60)
        line.heard()
        assert not transport.aborted.is_set()
        line.data_received(b"x" * 60)
        assert transport.aborted.is_set()

    asyncio.run(run())


@pytest.mark.parametrize(("how", "cut"), [({}, [True] * 2), ({"unread_only": True}, [False, True])])
def test_at_the_end_all_are_cut_or_those_that_do_not_read(
    how: dict[str, bool], cut: list[bool]
) -> None:
    async def run() -> list[bool]:
        door = Door(print)
        (_, reads), (stuck, waits) = come(door), come(door)
        stuck.pause_writing()
        door.close(**how)
        return [reads.aborted.is_set(), waits.aborted.is_set()]

    assert asyncio.run(run()) == cut


@pytest.mark.parametrize("error", [ConnectionResetError(), ssl.SSLError("no TLS")])
def test_who_does_not_agree_on_a_key_is_cut(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise error

    async def run() -> bool:
        line, transport = (
            Line(Door(print), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)),
            Transport(HERE),
        )
        line.inner = Inner()
        monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", refuse)
        line.connection_made(transport)  # type: ignore[arg-type]
        monkeypatch.setattr(line.inner, "eof_received", lambda: True)
        assert line.eof_received() is None, "nobody speaks on it yet"
        await asyncio.wait_for(transport.aborted.wait(), PATIENCE_S)
        return line.inner.transport is None  # type: ignore[attr-defined]

    assert asyncio.run(run())
