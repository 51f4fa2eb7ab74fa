"""Where a server listens, as others see it."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.listening import bind, listen, own_address


class Way:
    """A socket that says which way it would go."""

    def __init__(self, *kind: int) -> None:
        self.family = kind[0]

    def __enter__(self) -> Way:
        return self

    def __exit__(self, *_: object) -> None: ...

    def connect(self, far: tuple[str, int]) -> None:
        if self.family == socket.AF_INET6:
            raise OSError("no way")

    def getsockname(self) -> tuple[Any, ...]:
        return ("10.0.0.7", 40_000)


def test_others_reach_a_machine_at_the_address_of_its_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whisper_hailo.http.listening.socket.socket", Way)
    assert own_address("0.0.0.0") == "10.0.0.7"  # noqa: S104 - nothing listens
    assert own_address("::") is None


def test_a_port_is_taken_again_as_soon_as_its_server_has_ended() -> None:
    with bind("127.0.0.1", 0, "here", "") as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


def test_who_comes_before_the_server_is_ready_waits() -> None:
    with listen("127.0.0.1", 0, "here", "") as listener:
        for _ in range(9):
            socket.create_connection(listener.getsockname(), timeout=60).close()


def test_who_comes_before_it_listens_is_refused() -> None:
    with bind("127.0.0.1", 0, "here", "") as bound, pytest.raises(ConnectionRefusedError):
        socket.create_connection(bound.getsockname(), timeout=60)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("127.0.0.1", "Address already in use"),
        ("é" * 64, "encoding"),
        ("\udc80", "encoding"),
    ],
)
def test_what_keeps_a_server_from_listening_is_one_line(host: str, why: str) -> None:
    with listen("127.0.0.1", 0, "here", "") as listener:
        port = listener.getsockname()[1]
        line = re.escape(f"cannot listen at http://{port}/ ({why}")
        with pytest.raises(OptionError, match=rf"^{line}.*\); take another$"):
            listen(host, port, f"http://{port}/", "take another")
