"""HEFs that fit a model, a chip and a HailoRT: written files, without a chip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.hef_files import SPEC, decoder, encoder, written
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo.hef_catalog import PAIRS, find_known
from whisper_hailo.backends.hailo.hef_contract import (
    RUNS_ON,
    DecoderShape,
    check_decoder,
    check_encoder,
    recognise,
)
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.core.errors import HefError


def test_check_encoder_accepts_any_window_of_the_model(
    tmp_path: Path,
) -> None:
    for frames in (200, 1000, 3000):
        hef, shape = check_encoder(written(tmp_path, encoder(frames)), SPEC)
        assert (shape.n_frames, shape.n_positions, hef.arch) == (
            frames,
            frames // 2,
            "hailo8l",
        )


@pytest.mark.parametrize(
    ("net", "data"),
    [
        (encoder(mels=128), r"mel bins 128, .*\b80;.*--model"),
        (encoder(mels=79), r"mel bins 79, .*\b80;.*--model"),
        (encoder(width=512), r"width 512, .*\b384;.*--model"),
        (encoder(frames=3002), r"\b3002 .*\b3000;.*--model"),
    ],
)
def test_check_encoder_of_another_model_is_refused(
    tmp_path: Path, net: Net, data: str
) -> None:
    with pytest.raises(HefError, match=data):
        check_encoder(written(tmp_path, net), SPEC)


def test_recognise_encoder_needs_two_frames_a_position(tmp_path: Path) -> None:
    """Another relation of input and output is some other network."""
    group = read_hef(written(tmp_path, encoder(frames=1000, positions=501))).groups[0]
    assert recognise(group, "hailo8l") is None


def test_check_decoder_accepts_the_models_decoder(tmp_path: Path) -> None:
    _, shape = check_decoder(written(tmp_path, decoder()), SPEC)
    assert (shape.length, shape.n_positions, shape.d_model) == (32, 500, 384)


@pytest.mark.parametrize(
    ("net", "data"),
    [
        (decoder(width=512), r"width 512, .*\b384;.*--model"),
        (decoder(last=12966), r"\b51865 .*\b12966, 12966, 12966, 12967;"),
    ],
)
def test_check_decoder_of_another_model_is_refused(
    tmp_path: Path, net: Net, data: str
) -> None:
    with pytest.raises(HefError, match=data):
        check_decoder(written(tmp_path, net), SPEC)


def test_decoder_shape_logits_are_four_parts_in_order() -> None:
    """Other outputs of a 10H are left out: those of another size, and a fifth part."""
    columns = [
        ("a", 7),
        ("b", 10),
        ("c", 10),
        ("d", 3),
        ("e", 10),
        ("f", 12),
        ("g", 12),
    ]
    shape = DecoderShape("d", "f", "e", 500, 32, 384, "chip", tuple(columns))
    assert shape.logits(42) == ("b", "c", "e", "f")
    # Together they are all of it.
    assert shape.logits(64) == tuple(name for name, _ in columns)
    with pytest.raises(HefError, match=r"\b43 .*\b10, 10, 10, 13;"):
        shape.logits(43)


def test_runs_on_allows_smaller_chips_files_only() -> None:
    """HailoRT's own table."""
    assert RUNS_ON["hailo8"] == {"hailo8", "hailo8l"}
    assert RUNS_ON["hailo8l"] == {"hailo8l"}
    assert (
        RUNS_ON["hailo10h"]
        == RUNS_ON["hailo15h"]
        == {"hailo10h", "hailo15h", "hailo15m"}
    )


@pytest.mark.parametrize(
    ("arch", "variant", "window_s"),
    [
        ("hailo8", "tiny", 10), ("hailo8", "base", 5), ("hailo8l", "tiny", 10),
        ("hailo8l", "base", 5), ("hailo10h", "tiny", 10), ("hailo10h", "tiny.en", 10),
        ("hailo10h", "base", 10),
    ],
)  # fmt: skip
def test_find_known_has_the_vendors_windows(
    arch: str, variant: str, window_s: int
) -> None:
    known = find_known(arch, variant)
    assert known is not None
    assert known.window_s == window_s
    assert len(PAIRS) == 7
    assert find_known(arch, "medium") is None


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
    with pytest.raises(HefError, match=r"x\.hef .*CRC-32"):
        read_hef(path)
