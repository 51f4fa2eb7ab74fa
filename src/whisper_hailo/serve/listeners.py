"""The addresses of the doors, taken before a model is looked for: what is wrong is told at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from whisper_hailo.http.listening import bind
from whisper_hailo.serve.options import Address, DoorOptions

_ADVICE: Final = "give another port, or an address that this machine has"


@dataclass(frozen=True, slots=True)
class Listener:
    """A door's place.

    Attributes:
        address: as it was asked for; its port may be any free one.
        socket: bound; nobody is answered before it listens.
        scheme: how its addresses begin.
    """

    address: Address
    socket: socket.socket
    scheme: str

    def __str__(self) -> str:
        port = self.socket.getsockname()[1]
        return f"{self.scheme}://{Address(self.address.host, port)}"


@dataclass(frozen=True, slots=True)
class Listeners:
    """The places of all doors that there are."""

    http: Listener | None
    wyoming: Listener | None


@contextmanager
def bound(doors: DoorOptions, *, tls: bool) -> Iterator[Listeners]:
    """Hold the addresses as long as the block lasts."""
    with ExitStack() as stack:

        def place(address: Address | None, scheme: str) -> Listener | None:
            if address is None:
                return None
            taken = bind(address.host, address.port, f"{scheme}://{address}", _ADVICE)
            return Listener(address, stack.enter_context(taken), scheme)

        yield Listeners(place(doors.http, "https" if tls else "http"), place(doors.wyoming, "tcp"))
