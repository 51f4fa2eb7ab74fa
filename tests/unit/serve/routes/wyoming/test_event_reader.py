"""Events of Wyoming, read within a quota."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.micro_service import MicroService
from tests.fakes.speech_clients import (
    wyoming_server,
)
from whisper_hailo.serve.options import LimitOptions

pytestmark = pytest.mark.slow


def test_event_reader_partial_payloads_count_in_quota() -> None:
    head = b'{"type": "audio-chunk", "payload_length": 4000000}\n'

    async def ask(micro: MicroService) -> None:
        async with wyoming_server(micro) as port:
            clients = [
                await asyncio.open_connection("127.0.0.1", port) for _ in range(2)
            ]
            for _, writer in clients:
                writer.write(head + bytes(3_000_000))
            done, _ = await asyncio.wait(
                [asyncio.ensure_future(reader.readline()) for reader, _ in clients],
                return_when=asyncio.FIRST_COMPLETED,
            )
            assert b"error" in done.pop().result()
            for _, writer in clients:
                writer.close()
        assert micro.service.wyoming_quota.n_bytes == 0

    with MicroService(limits=LimitOptions(max_stored_mib=10)) as micro:
        asyncio.run(ask(micro))
