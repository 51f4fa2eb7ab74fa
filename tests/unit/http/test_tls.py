"""What HTTPS needs, and what is said where it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.http.tls import Tls


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
    with pytest.raises(OptionError, match="--web-cert and --web-key need each other"):
        Tls(cert, key, ("--web-cert", "--web-key"))
