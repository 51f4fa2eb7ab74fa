"""The Wyoming server: describes its models, and runs a session for each connection."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, cast

from wyoming.info import AsrModel, AsrProgram, Attribution, Info

from whisper_hailo.core.version import __version__
from whisper_hailo.http.connections import Connection, ConnectionLimiter
from whisper_hailo.serve.audio import AudioDecoders
from whisper_hailo.serve.home_assistant import HomeAssistantNames
from whisper_hailo.serve.options import HomeAssistantOptions
from whisper_hailo.serve.routes.wyoming.event_reader import MAX_LINE_BYTES
from whisper_hailo.serve.routes.wyoming.session import WyomingSession
from whisper_hailo.serve.service import TranscriptionService


class WyomingServer:
    """Answers connections; `finds_end` of commands for all clients, or for those that ask."""

    def __init__(
        self,
        service: TranscriptionService,
        limiter: ConnectionLimiter,
        home: HomeAssistantOptions | None = None,
        *,
        finds_end: bool = False,
    ) -> None:
        self._service = service
        self._names = HomeAssistantNames(home or HomeAssistantOptions())
        self._finds_end = finds_end
        self._decoders = AudioDecoders(service.limits)
        self._limiter = limiter
        self._sessions: set[asyncio.Task[Any]] = set()

    def describe_models(self) -> Info:
        """Return what a client can choose, the default model first."""
        attribution = Attribution("whisper-hailo", "https://github.com/openai/whisper")
        models = [
            AsrModel(
                name=model.name,
                attribution=attribution,
                installed=True,
                description=f"Whisper: {model.name}",
                version=__version__,
                languages=list(model.languages),
            )
            for model in self._service.models
        ]
        program = AsrProgram(
            name="whisper-hailo",
            attribution=attribution,
            installed=True,
            description="Whisper on Hailo NPUs and edge CPUs",
            version=__version__,
            models=models,
            supports_transcript_streaming=True,
            requires_external_vad=not self._finds_end,
        )
        return Info(asr=[program])

    async def serve(self, listener: socket.socket) -> asyncio.Server:
        """Return a server that answers at a socket until it is closed."""
        self._names.refresh()
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            self._make_connection, sock=listener, backlog=self._limiter.backlog
        )

    def _make_connection(self) -> Connection:
        reader = asyncio.StreamReader(MAX_LINE_BYTES)
        connection = Connection(self._limiter, refusal=b"")  # its clients read no HTTP
        connection.inner = asyncio.StreamReaderProtocol(reader, self._run_session)
        return connection

    async def _run_session(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a connection to its end."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._sessions.add(task)
        try:
            session = WyomingSession(
                self._service,
                self._decoders,
                self._names,
                reader,
                writer,
                describe=self.describe_models,
                finds_end=self._finds_end,
            )
            await session.run()
        finally:
            self._sessions.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def close(self) -> None:
        """End all connections, and wait until they have ended."""
        for task in self._sessions:
            task.cancel()
        self._names.close()
        await asyncio.gather(*self._sessions, return_exceptions=True)
