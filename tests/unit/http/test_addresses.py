"""Listening sockets, TLS contexts, and the check of `Host` and `Origin` headers."""

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
    name_client,
)


class RoutedSocket:
    """A socket with an IPv4 route and no IPv6 route."""

    def __init__(self, *kind: int) -> None:
        self.family = kind[0]

    def __enter__(self) -> RoutedSocket:
        return self

    def __exit__(self, *_: object) -> None: ...

    def connect(self, far: tuple[str, int]) -> None:
        if self.family == socket.AF_INET6:
            raise OSError("no way")

    def getsockname(self) -> tuple[Any, ...]:
        return ("10.0.0.7", 40_000)


def test_find_own_address_returns_address_of_the_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whisper_hailo.http.addresses.socket.socket", RoutedSocket)
    assert find_own_address("0.0.0.0") == "10.0.0.7"  # noqa: S104 - nothing listens
    assert find_own_address("::") is None


def test_listener_socket_may_reuse_its_port() -> None:
    with Listener("127.0.0.1", 0, "tcp", "") as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


def test_listener_after_listen_queues_connections() -> None:
    with Listener("127.0.0.1", 0, "tcp", "") as listener:
        listener.listen()
        for _ in range(9):
            socket.create_connection(listener.getsockname(), timeout=60).close()


def test_listener_before_listen_refuses_connections() -> None:
    with (
        Listener("127.0.0.1", 0, "tcp", "") as bound,
        pytest.raises(ConnectionRefusedError),
    ):
        socket.create_connection(bound.getsockname(), timeout=60)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "é" * 64, "\udc80"], ids=["used", "too long", "no UTF-8"]
)
def test_listener_at_unusable_address_raises(host: str) -> None:
    with Listener("127.0.0.1", 0, "tcp", "") as listener:
        listener.listen()
        url = re.escape(f"http://{host}:{listener.port}")
        with pytest.raises(OptionError, match=f"{url}.*; take another$"):
            Listener(host, listener.port, "http", "take another")


def test_make_tls_context_without_certificate_is_none() -> None:
    assert make_tls_context(None, None) is None


def test_make_tls_context_with_missing_files_raises(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--tls-cert") as raised:
        make_tls_context(tmp_path / "cert.pem", tmp_path / "key.pem")
    assert isinstance(raised.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize("names", [("cert.pem", None), (None, "key.pem")])
def test_make_tls_context_with_one_of_two_files_raises(
    names: tuple[str | None, str | None],
) -> None:
    cert, key = (None if name is None else Path(name) for name in names)
    with pytest.raises(OptionError, match="web-cert and web-key"):
        make_tls_context(cert, key, "web-cert and web-key")


def test_make_tls_context_encrypted_key_raises_unasked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a password, OpenSSL waits for one at the terminal."""

    class ContextOfEncryptedKey:
        def load_cert_chain(self, *_: Path, password: str | None = None) -> None:
            assert password is not None, "OpenSSL would ask for it"
            raise ssl.SSLError("bad decrypt")

    context = ContextOfEncryptedKey()
    monkeypatch.setattr(ssl, "create_default_context", lambda _: context)
    with pytest.raises(OptionError, match="--tls-key") as raised:
        make_tls_context(Path("cert.pem"), Path("key.pem"))
    assert isinstance(raised.value.__cause__, ssl.SSLError)


EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens here


def make_scope(
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


def find_refusal_status(
    scope: dict[str, Any], hosts: Hosts | None = None
) -> int | None:
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
def test_hosts_any_own_address_is_accepted(host: str, kind: str) -> None:
    assert find_refusal_status(make_scope(host, kind=kind)) is None


def test_hosts_at_unknown_address_accept_names() -> None:
    """A Unix socket has no address."""
    for host in ("localhost", "192.168.1.5", "evil.example"):
        scope = make_scope(host)
        expected = MISDIRECTED if host == "evil.example" else None
        for server in ({"server": None}, {}):
            unknown = {
                key: value for key, value in scope.items() if key != "server"
            } | server
            assert find_refusal_status(unknown) == expected


def test_authority_name_has_at_most_253_letters() -> None:
    longest = "a" * 253
    assert Authority.parse(f"{longest}:65535") == Authority(longest, 65_535)
    with pytest.raises(ValueError, match=longest):
        Authority.parse(longest + "a")


@pytest.mark.parametrize("own", ["box", "Box.Example.org"])
def test_hosts_machine_names_are_accepted(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: own)
    assert find_refusal_status(make_scope(f"{own.upper()}:8765")) is None
    assert find_refusal_status(make_scope("box.local")) is None
    assert find_refusal_status(make_scope("box.example.org.local")) == MISDIRECTED


def test_hosts_address_in_any_spelling_is_accepted() -> None:
    assert find_refusal_status(make_scope("[fe80::1]", at="fe80::1%eth0")) is None
    assert find_refusal_status(make_scope("[fe80::9]"), Hosts("FE80:0::9")) is None


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.0.0.2", EVERYWHERE, "::", "localhost"]
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
def test_hosts_foreign_name_is_misdirected(address: str, host: str) -> None:
    hosts = Hosts(address)
    origin = f"http://{host}"
    for kind in ("http", "websocket"):
        assert (
            find_refusal_status(make_scope(host, origins=(origin,), kind=kind), hosts)
            == MISDIRECTED
        )


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
def test_hosts_malformed_name_is_a_bad_request(host: str) -> None:
    assert find_refusal_status(make_scope(host)) == BAD_REQUEST
    assert find_refusal_status(make_scope(host, kind="http")) == BAD_REQUEST


def test_hosts_none_or_several_are_a_bad_request() -> None:
    assert find_refusal_status(make_scope()) == BAD_REQUEST
    assert find_refusal_status(make_scope("localhost", "localhost")) == BAD_REQUEST
    assert find_refusal_status(make_scope("localhost", "evil.example")) == BAD_REQUEST


@pytest.mark.parametrize(
    "target", ["http://localhost/events", "//evil", "*", "localhost:8765"]
)
def test_hosts_target_that_is_no_path_is_a_bad_request(target: str) -> None:
    expected = None if target.startswith("/") else BAD_REQUEST
    assert find_refusal_status(make_scope("localhost", path=target)) == expected


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
def test_hosts_own_origin_is_accepted(host: str, origin: str) -> None:
    assert find_refusal_status(make_scope(host, origins=(origin,))) is None


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
def test_hosts_foreign_origin_is_forbidden(origin: str) -> None:
    assert (
        find_refusal_status(make_scope("localhost:8765", origins=(origin,)))
        == FORBIDDEN
    )


@pytest.mark.parametrize(
    ("kind", "any_page", "expected"),
    [
        ("http", None, None),  # it cannot read the answer
        ("websocket", None, FORBIDDEN),
        ("http", False, FORBIDDEN),
        ("websocket", True, None),
    ],
)
def test_hosts_foreign_origin_depends_on_scheme(
    kind: str, any_page: bool | None, expected: int | None
) -> None:
    scope = make_scope("localhost:8765", origins=("http://evil.example",), kind=kind)
    refusal = Hosts(EVERYWHERE).refusal(scope, any_page=any_page)
    assert (refusal[0] if refusal else None) == expected


def test_hosts_two_origins_are_forbidden() -> None:
    scope = make_scope(
        "localhost:8765", origins=("http://localhost:8765", "http://evil.example")
    )
    assert find_refusal_status(scope) == FORBIDDEN


def test_hosts_listed_names_are_accepted() -> None:
    hosts = Hosts(EVERYWHERE, ["Captions.Example.", "10.0.0.7", "fe80:0::1", "fe80::2"])
    for host in ("captions.example:80", "10.0.0.7", "[fe80::1]", "[fe80::2]"):
        assert find_refusal_status(make_scope(host), hosts) is None
    assert find_refusal_status(make_scope("www.captions.example"), hosts) == MISDIRECTED


@pytest.mark.parametrize(
    "name",
    ["", "*", "http://a", "a:80", "a b", "[::1]:80", "a/b", "\u212aiosk", "\u017fite"],
)
def test_hosts_listed_invalid_name_raises(name: str) -> None:
    with pytest.raises(OptionError, match="--web-allow-host") as raised:
        Hosts(EVERYWHERE, [name])
    assert repr(name) in str(raised.value)


@pytest.mark.parametrize("host", ["", " "])
def test_hosts_empty_address_raises(host: str) -> None:
    with pytest.raises(OptionError, match=r"--web-host .*0\.0\.0\.0"):
        Hosts(host)


def test_authority_parse_normalizes_addresses_and_names() -> None:
    assert Authority.parse("[2001:DB8::0:1]:80") == Authority("2001:db8::1", 80)
    assert Authority.parse("A-b_c.d.:443") == Authority("a-b_c.d", 443)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2a00:1450:4001:80b::1", "2a00:1450:4001:80b::/64"),
        ("2a00:1450:4001:80b:ffff::2", "2a00:1450:4001:80b::/64"),
        ("2a00:1450:4001:80c::1", "2a00:1450:4001:80c::/64"),
        ("fd00::1", "fd00::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("::1", "::1"),
        ("not an address", "not an address"),
        ("", ""),
    ],
)
def test_name_client_is_an_address_or_a_network(host: str, name: str) -> None:
    assert name_client(host) == name
