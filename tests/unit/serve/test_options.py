"""Options of a server: networks and keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.options import SafetyOptions


@pytest.mark.parametrize("proxy", ["nginx", "10.0.0.1/8", ""])
def test_networks_without_address_raise(proxy: str) -> None:
    with pytest.raises(OptionError, match="trusted-proxy"):
        SafetyOptions(trusted_proxy=(proxy,))
    with pytest.raises(OptionError, match="allow-wyoming"):
        SafetyOptions(allow_wyoming=(proxy,))


def test_keys_in_file_follow_typed_ones(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\n two and three \n")
    assert SafetyOptions(api_key=("zero",), api_key_file=file).keys() == (
        "zero",
        "one",
        "two and three",
    )
    file.write_text("\n")
    with pytest.raises(OptionError, match=str(file)):
        SafetyOptions(api_key_file=file).keys()
    with pytest.raises(OptionError, match="nowhere"):
        SafetyOptions(api_key_file=tmp_path / "nowhere").keys()
