"""Where a server listens, and with which certificate."""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.listening import Tls, bind, listen, own_address


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


def test_without_a_certificate_it_is_http() -> None:
    plain = Tls(None, None)
    assert (plain.scheme, plain.context()) == ("http", None)


def test_with_a_certificate_it_is_https(tmp_path: Path) -> None:
    tls = Tls(tmp_path / "cert.pem", tmp_path / "key.pem")
    assert tls.scheme == "https"
    with pytest.raises(OptionError, match=r"--tls-cert and --tls-key cannot be used \(FileNotFo"):
        tls.context()


@pytest.mark.parametrize("names", [("cert.pem", None), (None, "key.pem")])
def test_a_certificate_and_its_key_need_each_other(names: tuple[str | None, str | None]) -> None:
    cert, key = (None if name is None else Path(name) for name in names)
    with pytest.raises(OptionError, match="web-cert and web-key need each other"):
        Tls(cert, key, ("web-cert", "web-key"))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without any, OpenSSL asks at the terminal, for ever."""

    class Locked:
        def load_cert_chain(self, *_: Path, password: str | None = None) -> None:
            assert password is not None, "it would be asked for"
            raise ssl.SSLError("bad decrypt")

    monkeypatch.setattr(ssl, "create_default_context", lambda _: Locked())
    with pytest.raises(OptionError, match=r"cannot be used.* which has no password"):
        Tls(Path("cert.pem"), Path("key.pem")).context()
