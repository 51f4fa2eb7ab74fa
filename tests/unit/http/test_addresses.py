"""Where a server listens, with which certificate, and by which names it may be asked for."""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.addresses import (
    BAD_REQUEST,
    FORBIDDEN,
    MISDIRECTED,
    Authority,
    Hosts,
    Listener,
    find_own_address,
    make_tls_context,
)


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
    monkeypatch.setattr("whisper_hailo.http.addresses.socket.socket", Way)
    assert find_own_address("0.0.0.0") == "10.0.0.7"  # noqa: S104 - nothing listens
    assert find_own_address("::") is None


def test_port_is_taken_again_as_soon_as_its_server_has_ended() -> None:
    with Listener("127.0.0.1", 0, "tcp", "") as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


def test_who_comes_before_the_server_is_ready_waits() -> None:
    with Listener("127.0.0.1", 0, "tcp", "") as listener:
        listener.listen()
        for _ in range(9):
            socket.create_connection(listener.getsockname(), timeout=60).close()


def test_who_comes_before_it_listens_is_refused() -> None:
    with (
        Listener("127.0.0.1", 0, "tcp", "") as bound,
        pytest.raises(ConnectionRefusedError),
    ):
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
    with Listener("127.0.0.1", 0, "tcp", "") as listener:
        listener.listen()
        port = listener.port
        line = re.escape(f"cannot listen at http://{host}:{port} ({why}")
        with pytest.raises(OptionError, match=rf"^{line}.*\); take another$"):
            Listener(host, port, "http", "take another")


def test_without_a_certificate_it_is_http() -> None:
    assert make_tls_context(None, None) is None


def test_with_a_certificate_it_is_https(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"--tls-cert and --tls-key cannot be used \(FileNotFo"
    ):
        make_tls_context(tmp_path / "cert.pem", tmp_path / "key.pem")


@pytest.mark.parametrize("names", [("cert.pem", None), (None, "key.pem")])
def test_certificate_and_its_key_need_each_other(
    names: tuple[str | None, str | None],
) -> None:
    cert, key = (None if name is None else Path(name) for name in names)
    with pytest.raises(OptionError, match="web-cert and web-key need each other"):
        make_tls_context(cert, key, "web-cert and web-key")


def test_key_with_password_is_refused_and_nobody_is_asked_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without any, OpenSSL asks at the terminal, for ever."""

    class Locked:
        def load_cert_chain(self, *_: Path, password: str | None = None) -> None:
            assert password is not None, "it would be asked for"
            raise ssl.SSLError("bad decrypt")

    monkeypatch.setattr(ssl, "create_default_context", lambda _: Locked())
    with pytest.raises(OptionError, match=r"cannot be used.* without a password"):
        make_tls_context(Path("cert.pem"), Path("key.pem"))


EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens here


def asked(
    *hosts: str,
    origins: tuple[str, ...] = (),
    at: str = "192.168.1.5",
    path: str = "/events",
    kind: str = "websocket",
) -> dict[str, Any]:
    """A request as uvicorn hands it over."""
    headers = [(b"host", host.encode("latin-1")) for host in hosts]
    headers += [(b"origin", origin.encode("latin-1")) for origin in origins]
    return {"type": kind, "path": path, "headers": headers, "server": (at, 8765)}


def status(scope: dict[str, Any], hosts: Hosts | None = None) -> int | None:
    refusal = (hosts or Hosts(EVERYWHERE)).refusal(scope)
    return refusal[0] if refusal else None


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost.:8765",
        "127.0.0.1:8765",
        "127.0.0.1.",
        "[::1]:8765",
        "[0:0:0:0:0:0:0:1]",
        "[::FFFF:127.0.0.1]",
        "192.168.1.5:80",
        "192.168.1.6",
        "[fe80::1]:80",
        "0.0.0.0:8765",
        "localhost:65535",
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_server_is_asked_for_by_its_addresses(host: str, kind: str) -> None:
    assert status(asked(host, kind=kind)) is None


def test_server_without_known_address_is_asked_for_by_names() -> None:
    """As at a socket of the file system."""
    for host in ("localhost", "192.168.1.5", "evil.example"):
        scope = asked(host)
        expected = MISDIRECTED if host == "evil.example" else None
        for server in ({"server": None}, {}):
            unknown = {
                key: value for key, value in scope.items() if key != "server"
            } | server
            assert status(unknown) == expected


def test_name_is_as_long_as_names_may_be() -> None:
    longest = "a" * 253
    assert Authority.parse(f"{longest}:65535") == Authority(longest, 65_535)
    with pytest.raises(ValueError, match="not a valid"):
        Authority.parse(longest + "a")


@pytest.mark.parametrize("own", ["box", "Box.Example.org"])
def test_server_is_asked_for_by_the_names_of_its_machine(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: own)
    assert status(asked(f"{own.upper()}:8765")) is None
    assert status(asked("box.local")) is None
    assert status(asked("box.example.org.local")) == MISDIRECTED


def test_address_is_the_same_in_any_spelling_and_from_any_card() -> None:
    assert status(asked("[fe80::1]", at="fe80::1%eth0")) is None
    assert status(asked("[fe80::9]"), Hosts("FE80:0::9")) is None


@pytest.mark.parametrize(
    "listens_at", ["127.0.0.1", "127.0.0.2", EVERYWHERE, "::", "localhost"]
)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "localhost.evil.example",
        "evil-localhost",
        "127.0.0.1.evil.example",
        "127.1",
    ],
)
def test_foreign_names_are_refused_wherever_it_listens(
    listens_at: str, host: str
) -> None:
    hosts = Hosts(listens_at)
    origin = f"http://{host}"
    for kind in ("http", "websocket"):
        assert status(asked(host, origins=(origin,), kind=kind), hosts) == MISDIRECTED


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":8765",
        "localhost:",
        "localhost:port",
        "localhost:65536",
        "localhost:-1",
        "localhost..",
        ".localhost",
        "local host",
        "localhost/",
        "user@localhost",
        "localhost#",
        "[::1",
        "::1",
        "[::1]x",
        "[127.0.0.1]",
        "[::1%eth0]",
        "[1:2]",
        "löcalhost",
        "localhost,localhost",
        "127.0.0.1\x00",
        "a" * 1000,
    ],
)
def test_what_no_browser_sends_is_a_bad_request(host: str) -> None:
    assert status(asked(host)) == BAD_REQUEST
    assert status(asked(host, kind="http")) == BAD_REQUEST


def test_request_without_a_host_or_with_several_is_bad() -> None:
    assert status(asked()) == BAD_REQUEST
    assert status(asked("localhost", "localhost")) == BAD_REQUEST
    assert status(asked("localhost", "evil.example")) == BAD_REQUEST


@pytest.mark.parametrize(
    "target", ["http://localhost/events", "//evil", "*", "localhost:8765"]
)
def test_only_paths_are_asked_for(target: str) -> None:
    expected = None if target.startswith("/") else BAD_REQUEST
    assert status(asked("localhost", path=target)) == expected


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8765", "http://localhost:8765"),
        ("LOCALHOST.:8765", "HTTP://localhost:8765"),
        ("[::1]:8765", "http://[::1]:8765"),
        ("192.168.1.5", "http://192.168.1.5"),
        ("192.168.1.5:80", "http://192.168.1.5"),
        ("192.168.1.5", "https://192.168.1.5:443"),  # a proxy that speaks TLS
    ],
)
def test_page_itself_may_connect(host: str, origin: str) -> None:
    assert status(asked(host, origins=(origin,))) is None


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8765",
        "http://localhost:8765.evil.example",
        "http://user@localhost:8765",
        "https://localhost",
        "file://localhost:8765",
        "chrome-extension://localhost:8765",
        "localhost:8765",
        "http://",
        "null",
        "",
    ],
)
def test_foreign_pages_may_not_connect(origin: str) -> None:
    assert status(asked("localhost:8765", origins=(origin,))) == FORBIDDEN


@pytest.mark.parametrize(
    ("kind", "any_page", "expected"),
    [
        ("http", None, None),  # it cannot read the answer
        ("websocket", None, FORBIDDEN),
        ("http", False, FORBIDDEN),
        ("websocket", True, None),
    ],
)
def test_what_foreign_pages_may_ask_for(
    kind: str, any_page: bool | None, expected: int | None
) -> None:
    scope = asked("localhost:8765", origins=("http://evil.example",), kind=kind)
    refusal = Hosts(EVERYWHERE).refusal(scope, any_page=any_page)
    assert (refusal[0] if refusal else None) == expected


def test_page_has_one_origin() -> None:
    own, foreign = "http://localhost:8765", "http://evil.example"
    assert status(asked("localhost:8765", origins=(own, foreign))) == FORBIDDEN


def test_names_are_listed() -> None:
    hosts = Hosts(EVERYWHERE, ["Captions.Example.", "10.0.0.7", "fe80:0::1", "fe80::2"])
    for host in ("captions.example:80", "10.0.0.7", "[fe80::1]", "[fe80::2]"):
        assert status(asked(host), hosts) is None
    assert status(asked("www.captions.example"), hosts) == MISDIRECTED


@pytest.mark.parametrize(
    "name",
    ["", "*", "http://a", "a:80", "a b", "[::1]:80", "a/b", "\u212aiosk", "\u017fite"],
)
def test_what_is_no_name_is_not_listed(name: str) -> None:
    with pytest.raises(OptionError, match=r"--web-allow-host is .* expected a name"):
        Hosts(EVERYWHERE, [name])


@pytest.mark.parametrize("host", ["", " "])
def test_empty_address_is_not_everyone(host: str) -> None:
    with pytest.raises(
        OptionError, match=r"--web-host is empty.*0\.0\.0\.0 for everyone"
    ):
        Hosts(host)


def test_place_is_read_as_browsers_write_it() -> None:
    assert Authority.parse("[2001:DB8::0:1]:80") == Authority("2001:db8::1", 80)
    assert Authority.parse("A-b_c.d.:443") == Authority("a-b_c.d", 443)
