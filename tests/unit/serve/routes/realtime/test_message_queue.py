"""Messages of a realtime client that wait: their order, and the room they take."""

from __future__ import annotations

import asyncio

import pytest

from whisper_hailo.serve.errors import BusyError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.routes.realtime.message_queue import PIECE_BYTES, MessageQueue
from whisper_hailo.serve.routes.realtime.protocol import ClientMessage, MessageKind


def make_sound(n_bytes: int, value: int = 0) -> ClientMessage:
    sound = bytearray([value]) * n_bytes
    return ClientMessage(MessageKind.APPEND, n_bytes=n_bytes, sound=sound)


def test_message_queue_joins_sound_up_to_the_next_message() -> None:
    async def queue_up() -> list[ClientMessage]:
        queue = MessageQueue(Quota())
        kinds = (MessageKind.COMMIT, MessageKind.CLEAR)
        for message in (
            make_sound(2, 1),
            make_sound(3, 2),
            *map(ClientMessage, kinds),
            make_sound(1),
        ):
            await queue.put(message)
        return [await queue.get() for _ in range(4)]

    first, *others = asyncio.run(queue_up())
    assert first.sound == b"\1\1\2\2\2"
    assert first.n_bytes == 5
    assert [message.kind for message in others] == [
        MessageKind.COMMIT,
        MessageKind.CLEAR,
        MessageKind.APPEND,
    ]


def test_message_queue_starts_a_piece_after_a_full_one() -> None:
    async def queue_up() -> list[int]:
        queue = MessageQueue(Quota())
        for n_bytes in (PIECE_BYTES - 1, 2, 3):
            await queue.put(make_sound(n_bytes))
        return [len((await queue.get()).sound) for _ in range(2)]

    assert asyncio.run(queue_up()) == [PIECE_BYTES + 1, 3]


def test_message_queue_without_room_has_an_error_in_place() -> None:
    async def queue_up() -> list[ClientMessage]:
        queue = MessageQueue(Quota(LimitOptions(max_stored_mib=1)))
        large = make_sound(2 << 20)
        large.event_id = "large"
        for message in (make_sound(8), large, make_sound(8)):
            await queue.put(message)
        return [await queue.get() for _ in range(3)]

    before, invalid, after = asyncio.run(queue_up())
    assert before.kind is after.kind is MessageKind.APPEND
    assert invalid.kind is MessageKind.INVALID
    assert invalid.event_id == "large"
    assert isinstance(invalid.error, BusyError)


def test_message_queue_frees_room_of_processed_messages() -> None:
    async def fill_and_free() -> None:
        quota = Quota()
        queue = MessageQueue(quota)
        await queue.put(make_sound(4 << 20))
        assert queue.is_full
        message = await queue.get()
        assert queue.is_full
        waiting = asyncio.ensure_future(queue.wait_for_room(60.0))
        await asyncio.sleep(0)
        await queue.free(message)
        await asyncio.wait_for(waiting, 10.0)
        assert not queue.is_full
        assert quota.n_bytes == 0

    asyncio.run(fill_and_free())


def test_message_queue_wait_for_room_ends_at_the_timeout() -> None:
    async def wait() -> bool:
        queue = MessageQueue(Quota())
        await queue.put(make_sound(4 << 20))
        await queue.wait_for_room(0.01)
        return queue.is_full

    assert asyncio.run(wait())


def test_message_queue_close_gives_back_all_room() -> None:
    async def fill_and_close() -> int:
        quota = Quota()
        queue = MessageQueue(quota)
        await queue.put(make_sound(8))
        assert quota.n_bytes == 8
        queue.close()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 0.01)
        return quota.n_bytes

    assert asyncio.run(fill_and_close()) == 0
