"""Where a server listens, as others see it."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from whisper_hailo.http.listening import own_address


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
