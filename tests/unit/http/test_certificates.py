"""What HTTPS needs, and what is said where it is not there."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.listening import Tls


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
