"""Names that people say to Home Assistant, read over its WebSocket API.

They are those of the entities that are exposed to voice assistants, of areas and of floors, with
their aliases. Nothing in Home Assistant is changed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.decoding.hotwords import split_hotwords
from whisper_hailo.serve.options import HomeAssistantOptions
from whisper_hailo.serve.request import Choices, join_hotwords

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

logger = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0

_FRESH_S: Final = 30.0
"""Names are read again at the start of a command if they are older. That takes less time than the
command, so new names are known in the command that has them first."""

_MESSAGE_BYTES: Final = 64 << 20
"""Of all states of a home, about a kilobyte each."""

BONUS: Final = 3.0
"""Logit bonus of a name's later tokens, more than that of other hotwords: what people say to a home
often has a name in it (measured in docs/home-assistant.md)."""

_SEPARATOR: Final = ", "


class HomeAssistantError(WhisperHailoError):
    """Home Assistant refused a command or the token."""


class HomeAssistantNames:
    """The names of a home, refreshed when commands begin.

    What cannot be read leaves the names as they were: a command is never refused for it.

    Args:
        options: where Home Assistant is, and the token; without an address there are no names.
    """

    def __init__(self, options: HomeAssistantOptions) -> None:
        self._options = options
        self._names: tuple[str, ...] = ()
        self._loading: asyncio.Task[None] | None = None
        self._fresh_until_s = 0.0
        self._is_failing = False

    def refresh(self) -> None:
        """Begin to read the names, unless they are fresh or being read."""
        loop = asyncio.get_running_loop()
        is_loading = self._loading is not None and not self._loading.done()
        is_fresh = loop.time() < self._fresh_until_s
        if self._options.home_assistant is None or is_loading or is_fresh:
            return
        self._loading = asyncio.create_task(self._load())

    def close(self) -> None:
        """Stop reading them."""
        if self._loading is not None:
            self._loading.cancel()

    async def _load(self) -> None:
        try:
            names = await fetch_names(self._options)
        except (
            Exception
        ) as error:  # of the network, of TLS, of an answer in another form
            # A home that is away for a night is one line, not one for each command.
            if not self._is_failing:
                reason = str(error) or type(error).__name__
                logger.warning(
                    "names of Home Assistant cannot be read (%s)", reason[:200]
                )
            self._is_failing = True
            return
        if self._is_failing or len(names) != len(self._names):
            logger.info("names of Home Assistant: %d", len(names))
        self._is_failing = False
        self._names = names
        self._fresh_until_s = asyncio.get_running_loop().time() + _FRESH_S

    def add_to(self, choices: Choices, defaults: str | None) -> Choices:
        """Return the choices of a request with the names behind their hotwords.

        Args:
            choices: the client's, whose hotwords have commas between.
            defaults: hotwords of the server, which a client's replace.
        """
        if not self._names:
            return choices
        given = split_hotwords(defaults or "")
        if choices.hotwords:
            given = choices.hotwords.split(_SEPARATOR)
        # A model that takes a name for a common word writes it without a capital.
        lowered = [name.lower() for name in self._names]
        hotwords = join_hotwords(dict.fromkeys([*given, *self._names, *lowered]))
        return replace(choices, hotwords=hotwords, hotword_bonus=BONUS)


async def fetch_names(options: HomeAssistantOptions) -> tuple[str, ...]:
    """Return the names of a home, each once; floors and areas come first.

    Raises:
        HomeAssistantError: it refuses the token or a command.
        OptionError: the token cannot be read.
        OSError: it cannot be reached in time.
    """
    from websockets.asyncio.client import connect

    token = options.token()
    async with (
        asyncio.timeout(_TIMEOUT_S),
        connect(options.websocket_url, max_size=_MESSAGE_BYTES) as socket,
    ):
        api = _WebSocketApi(socket)
        await api.log_in(token)
        names = [*await _fetch_places(api), *await _fetch_entities(api)]
    return tuple(dict.fromkeys(_clean(names)))


async def _fetch_places(api: _WebSocketApi) -> list[Any]:
    """Return names and aliases of floors and areas."""
    names: list[Any] = []
    for kind in ("floor", "area"):
        # Versions before 2024.4 have no floors.
        for entry in await api.ask(f"config/{kind}_registry/list") or ():
            names += [entry["name"], *entry.get("aliases", ())]
    return names


async def _fetch_entities(api: _WebSocketApi) -> list[Any]:
    """Return names and aliases of the entities that are exposed to voice assistants."""
    answer = await api.ask("homeassistant/expose_entity/list") or {}
    exposed = {
        entity_id
        for entity_id, assistants in answer.get("exposed_entities", {}).items()
        if assistants.get("conversation")
    }
    states = await api.ask("get_states") or ()
    entries = await api.ask(
        "config/entity_registry/get_entries", entity_ids=sorted(exposed)
    )
    names: list[Any] = []
    for state in states:
        entity_id = state["entity_id"]
        if entity_id in exposed:
            # The name that dashboards show, and so what people say.
            names.append(state["attributes"].get("friendly_name"))
            entry = (entries or {}).get(entity_id) or {}
            names += entry.get("aliases", ())
    return names


def _clean(names: Iterable[Any]) -> Iterator[str]:
    """Yield names with single blanks; what is no text, such as a name to be computed, is none."""
    for name in names:
        if isinstance(name, str) and name.strip():
            yield " ".join(name.split())


class _WebSocketApi:
    """Home Assistant's WebSocket API: a command, then its result."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._id = 0

    async def log_in(self, token: str) -> None:
        """Send the token.

        Raises:
            HomeAssistantError: it is refused.
        """
        await self._receive()  # it asks for the token
        await self._send({"type": "auth", "access_token": token})
        answer = await self._receive()
        if answer.get("type") != "auth_ok":
            raise HomeAssistantError(
                "Home Assistant refuses the token; create a long-lived access token of an "
                "administrator, on the page of your profile"
            )

    async def ask(self, command: str, **fields: Any) -> Any:  # noqa: ANN401 - any JSON
        """Return the result of a command; `None` if this version does not know it.

        Raises:
            HomeAssistantError: it is refused.
        """
        self._id += 1
        await self._send({"id": self._id, "type": command, **fields})
        answer = await self._receive()
        if answer.get("success"):
            return answer["result"]
        error = answer.get("error") or {}
        if error.get("code") == "unknown_command":
            return None
        raise HomeAssistantError(f"{command}: {error.get('message')}")

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._socket.send(json.dumps(message))

    async def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self._socket.recv())
        return message
