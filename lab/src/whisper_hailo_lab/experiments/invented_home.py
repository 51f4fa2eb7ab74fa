"""An invented home behind the commands of Home Assistant's WebSocket API that give names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from websockets.sync.server import ServerConnection, serve

TOKEN = "long-lived"  # noqa: S105 - of a fake


@dataclass
class Home:
    """A home that is asked for its names.

    Attributes:
        areas, floors: names and aliases.
        entities: name and aliases, by id; all are exposed but those of `hidden`.
        unknown: commands that its version does not know.
    """

    areas: dict[str, Sequence[str]] = field(default_factory=dict)
    floors: dict[str, Sequence[str]] = field(default_factory=dict)
    entities: dict[str, Sequence[Any]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    n_logins: int = 0

    def answer(self, command: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        """Return the result of a command."""
        kind = command["type"]
        if kind == "config/area_registry/list":
            return _list_places(self.areas)
        if kind == "config/floor_registry/list":
            return _list_places(self.floors)
        if kind == "homeassistant/expose_entity/list":
            exposed = {
                name: {"conversation": name not in self.hidden}
                for name in self.entities
            }
            return {"exposed_entities": exposed}
        if kind == "get_states":
            return [
                {"entity_id": name, "attributes": {"friendly_name": names[0]}}
                for name, names in self.entities.items()
            ]
        if kind == "config/entity_registry/get_entries":
            return {
                name: {"aliases": list(self.entities[name][1:])}
                for name in command["entity_ids"]
            }
        raise LookupError(kind)

    def talk(self, socket: ServerConnection) -> None:
        """Answer one connection."""
        socket.send(json.dumps({"type": "auth_required"}))
        if json.loads(socket.recv())["access_token"] != TOKEN:
            socket.send(json.dumps({"type": "auth_invalid"}))
            return
        self.n_logins += 1
        socket.send(json.dumps({"type": "auth_ok"}))
        for message in socket:
            command = json.loads(message)
            answer: dict[str, Any] = {"id": command["id"], "type": "result"}
            if command["type"] in self.unknown:
                answer |= {"success": False, "error": {"code": "unknown_command"}}
            else:
                answer |= {"success": True, "result": self.answer(command)}
            socket.send(json.dumps(answer))


def _list_places(places: dict[str, Sequence[str]]) -> list[dict[str, Any]]:
    return [{"name": name, "aliases": aliases} for name, aliases in places.items()]


@contextmanager
def home_assistant_api(home: Home) -> Iterator[str]:
    """Serve a home; yield its address."""
    with serve(home.talk, "127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()
