"""Options of the chip, and checksums of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.hef_files import SPEC, decoder, encoder
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo.hef_contract import check_decoder, check_encoder
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.options import ALONE, ChipOptions
from whisper_hailo.core.errors import HefError, OptionError


@pytest.mark.parametrize("name", ["timeout_s", "open_timeout_s"])
def test_chip_options_times_are_up_to_an_hour(name: str) -> None:
    for seconds in (0.001, 3600.0):
        assert getattr(ChipOptions(**{name: seconds}), name) == seconds
    for seconds in (-0.001, 3600.5, float("nan")):
        with pytest.raises(OptionError, match="3600 s"):
            ChipOptions(**{name: seconds})
    assert not ALONE.share
    with pytest.raises(OptionError, match="more than 0 and at most 3600 s"):
        ChipOptions(**{name: 0})


@pytest.mark.parametrize(
    ("net", "check"), [(encoder(), check_encoder), (decoder(), check_decoder)]
)
def test_check_encoder_and_decoder_skip_the_checksum(
    tmp_path: Path, net: Net, check: Any
) -> None:
    """A second for each hundred megabytes, at every start."""
    changed = bytearray(hef_bytes(Wish([net], version=1)))
    changed[-1] ^= 1
    path = tmp_path / "x.hef"
    path.write_bytes(changed)
    hef, _ = check(path, SPEC)
    assert hef.path == path
    with pytest.raises(HefError, match="does not have the CRC-32 it states"):
        read_hef(path)
