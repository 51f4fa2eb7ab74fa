"""Announcement of the Wyoming server by zeroconf."""

from __future__ import annotations

import asyncio

import pytest
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.announcement import WYOMING_SERVICE, announce_wyoming

pytest.importorskip("wyoming", reason="the server extra is not installed")


@pytest.mark.slow
def test_announce_wyoming_is_found_while_it_lasts() -> None:
    async def look() -> tuple[AsyncServiceInfo | None, AsyncServiceInfo | None]:
        async with announce_wyoming("kitchen", "127.0.0.1", 10_300):
            answer = await ask()
        return answer, await ask(500)

    async def ask(patience_ms: int = 10_000) -> AsyncServiceInfo | None:
        zeroconf = AsyncZeroconf(interfaces=["127.0.0.1"])
        try:
            return await zeroconf.async_get_service_info(
                WYOMING_SERVICE, f"kitchen.{WYOMING_SERVICE}", patience_ms
            )
        finally:
            await zeroconf.async_close()

    answer, late_answer = asyncio.run(look())
    assert answer is not None
    assert answer.port == 10_300
    assert answer.parsed_addresses() == ["127.0.0.1"]
    assert late_answer is None


def test_announce_wyoming_unknown_host_raises() -> None:
    async def look() -> None:
        async with announce_wyoming("kitchen", "no.such.host.invalid", 10_300):
            pass

    with pytest.raises(OptionError, match="--zeroconf"):
        asyncio.run(look())
