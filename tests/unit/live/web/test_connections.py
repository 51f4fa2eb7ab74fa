"""Places at the door: who makes room, who is sent away, and what passes through."""

from __future__ import annotations

import asyncio
import resource
import ssl
from typing import Any

import pytest

from tests.unit.live.web.lines import HERE, Inner, Transport, come
from whisper_hailo.live.web.connections import (
    _DESCRIPTORS_EACH,
    MOST,
    Door,
    Line,
    _most_connections,
)


def test_what_comes_with_the_last_word_of_a_handshake_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> tuple[bytes, bytes]:
        line, secured = (
            Line(Door(lambda _: None), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)),
            Transport(HERE),
        )
        line.inner = inner = Inner()

        async def shake(*_: Any, **__: Any) -> Transport:
            line.data_received(b"GE")
            line.data_received(b"T /")
            assert inner.received == b"", "nobody speaks on it yet"
            return secured

        monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", shake)
        line.connection_made(Transport(HERE))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        line.data_received(b" HTTP/1.1")
        inner.transport.write(b"200")
        return inner.received, secured.written

    assert asyncio.run(run()) == (b"GET / HTTP/1.1", b"200")


def test_whoever_has_not_asked_yet_makes_room_the_oldest_first() -> None:
    told: list[str] = []

    async def run() -> None:
        door = Door(told.append, most=3)
        page, first, second = (come(door) for _ in range(3))
        page[0].stay(100)
        third = come(door)
        assert [seat[1].aborted.is_set() for seat in (page, first, second, third)] == [0, 1, 0, 0]
        come(door)
        assert [seat[1].aborted.is_set() for seat in (page, first, second, third)] == [0, 1, 1, 0]

    asyncio.run(run())
    assert set(told) == {"all places are taken; those who have not asked for anything make room"}


def test_newcomers_are_sent_away_where_all_places_are_those_of_pages() -> None:
    told: list[str] = []

    async def run() -> None:
        door = Door(told.append, most=2)
        pages = [come(door) for _ in range(2)]
        for line, _ in pages:
            line.stay(100)
        late, transport = come(door)
        assert transport.written.startswith(b"HTTP/1.1 503 ")
        head, body = transport.written.split(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert transport.closing
        late.data_received(b"GET / HTTP/1.1\r\n")
        late.connection_lost(None)
        pages[0][0].connection_lost(None)
        _, transport = come(door)
        assert transport.written == b""

    asyncio.run(run())
    assert told == ["all places are taken by open pages; others are sent away"]


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("192.168.1.7", "192.168.1.7", "192.168.1.8"),
        ("192.168.1.7", "192.168.1.7", "192.168.1.6"),
        ("192.168.1.7", "::ffff:192.168.1.7", "::ffff:192.168.1.8"),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:2", "2001:db8:0:1::1"),
        ("fe80::1%eth0", "fe80::2%eth1", "fe80:0:0:1::1"),
    ],
)
def test_nobody_has_more_than_half_of_all_places(one: str, same: str, other: str) -> None:
    async def run() -> None:
        door = Door(lambda _: None, most=4)
        for _ in range(2):
            line, transport = come(door, one)
            line.stay(100)
            assert not transport.closing
        assert come(door, same)[1].closing
        assert not come(door, other)[1].closing

    asyncio.run(run())


def test_who_has_half_of_all_places_makes_room_among_his_own() -> None:
    async def run() -> None:
        door = Door(lambda _: None, most=4)
        (_, other), (_, first), (_, second) = (
            come(door, f"192.168.1.{number}") for number in (8, 7, 7)
        )
        _, third = come(door, "192.168.1.7")
        cut = [seat.aborted.is_set() for seat in (other, first, second, third)]
        assert cut == [False, True, False, False]

    asyncio.run(run())


def test_who_wants_a_key_first_is_sent_away_without_a_word() -> None:
    async def run() -> None:
        door = Door(lambda _: None, most=1)
        come(door)[0].stay(100)
        _, transport = come(door, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        assert (transport.closing, transport.written) == (True, b"")

    asyncio.run(run())


def test_who_speaks_on_a_connection_is_told_what_becomes_of_it() -> None:
    async def run() -> list[object]:
        line, _ = come(Door(print))
        gone = ConnectionResetError()
        line.pause_writing()
        line.resume_writing()
        line.connection_lost(gone)
        assert isinstance(line.inner, Inner)
        told = line.inner.told
        assert told[2] is gone
        return told

    assert asyncio.run(run())[:2] == ["wait", "go on"]


def test_one_place_is_one_for_all() -> None:
    async def run() -> None:
        door = Door(lambda _: None, most=1)
        come(door, "192.168.1.7")[0].stay(100)
        assert come(door, "192.168.1.8")[1].closing

    asyncio.run(run())


def test_of_two_places_nobody_has_both() -> None:
    async def run() -> list[bool]:
        door, closing = Door(lambda _: None, most=2), []
        for number in (7, 7, 8):
            line, transport = come(door, f"192.168.1.{number}")
            line.stay(100)
            closing.append(transport.closing)
        return closing

    assert asyncio.run(run()) == [False, True, False]


@pytest.mark.parametrize("peer", [HERE, "127.0.0.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_have_all_for_a_proxy_stands_for_many(peer: str) -> None:
    async def run() -> None:
        door = Door(lambda _: None, most=4)
        lines = [come(door, peer) for _ in range(4)]
        for line, transport in lines:
            line.stay(100)
            assert not transport.closing

    asyncio.run(run())


def test_there_are_fewer_places_where_descriptors_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"soft": 128}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (given["soft"], 9999))
    assert Door(print).at_once == 8
    given["soft"] = 1_000_000
    assert Door(print).at_once == MOST // 4
    given["soft"] = resource.RLIM_INFINITY
    assert Door(print).at_once == MOST // 4
    given["soft"] = 3
    assert Door(print).at_once == 1


def test_the_protocol_may_hand_its_connection_over() -> None:
    async def run() -> None:
        line, _ = come(Door(print))
        http, websocket = line.inner, Inner()
        assert isinstance(http, Inner)
        http.transport.set_protocol(websocket)
        line.data_received(b"frame")
        assert (http.received, websocket.received) == (b"", b"frame")

    asyncio.run(run())


def test_who_speaks_on_a_connection_is_told_that_the_other_side_says_no_more() -> None:
    class Open(Inner):
        def eof_received(self) -> bool:
            return True

    async def run() -> None:
        line, _ = come(Door(print))
        assert line.eof_received() is None
        line.inner = Open()
        assert line.eof_received() is True

    asyncio.run(run())


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [(1, 1), (_DESCRIPTORS_EACH, 1), (3 * _DESCRIPTORS_EACH, 3), (10**9, MOST),
     (resource.RLIM_INFINITY, MOST)],
)  # fmt: skip
def test_connections_leave_the_program_its_files(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert _most_connections() == connections
