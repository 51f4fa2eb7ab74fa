"""MP3 files whose header gives no length, or that of their first part only."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import soundfile

from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.audio.mpeg_header import complete_length
from whisper_hailo.core.types import FloatArray

SECONDS = 8.0
TOLERANCE_S = 0.15
"""Encoder and decoder add silence: at 8 kHz a frame has 72 ms."""


def half_noise(rate_hz: int, *, noise_first: bool) -> FloatArray:
    """Return four seconds of noise and four of silence, whose bit rates differ most."""
    n_samples = round(SECONDS * rate_hz)
    noise = 0.5 * np.random.default_rng(0).standard_normal(n_samples)
    is_noise = (np.arange(n_samples) < n_samples // 2) == noise_first
    return np.where(is_noise, noise, 0.0).clip(-1, 1).astype(np.float32)


def write_mp3(
    path: Path,
    rate_hz: int = 44_100,
    *,
    mode: str = "VARIABLE",
    noise_first: bool = True,
) -> bytes:
    """Write an MP3 file; return its content."""
    samples = half_noise(rate_hz, noise_first=noise_first)
    soundfile.write(
        path, samples, rate_hz, format="MP3", compression_level=0.3, bitrate_mode=mode
    )
    return path.read_bytes()


def without_header(content: bytes) -> bytes:
    """Return an MP3 file without its first frame, which has the Xing header."""
    head = content.index(
        b"\xff", content.index(b"Xing" if b"Xing" in content else b"Info")
    )
    second_byte = content[content.index(b"\xff") + 1]
    while content[head + 1] != second_byte:
        head = content.index(b"\xff", head + 1)
    return content[head:]


@pytest.mark.parametrize("noise_first", [True, False])
@pytest.mark.parametrize("mode", ["VARIABLE", "CONSTANT"])
@pytest.mark.parametrize("rate_hz", [44_100, 22_050, 8_000])
def test_mp3_without_xing_header_is_read_to_its_end(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    rate_hz: int,
    mode: str,
    noise_first: bool,
) -> None:
    path = tmp_path / "a.mp3"
    content = write_mp3(path, rate_hz, mode=mode, noise_first=noise_first)
    path.write_bytes(without_header(content))
    with caplog.at_level(logging.WARNING), open_audio(path) as stream:
        duration_s = stream.duration_s
        audio = np.concatenate(list(stream.blocks(16_000)))
    assert not caplog.records
    assert duration_s == pytest.approx(SECONDS, abs=TOLERANCE_S)
    assert audio.size / 16_000 == pytest.approx(SECONDS, abs=TOLERANCE_S)
    loud, quiet = (audio[16_000:48_000], audio[80_000:112_000])
    if not noise_first:
        loud, quiet = quiet, loud
    assert np.abs(loud).mean() > 0.1
    assert np.abs(quiet).mean() < 0.01


@pytest.mark.parametrize(
    "tags", [b"", b"ID3\4\0\0\0\0\x08\0" + b"\xff\xfb\x90\x64" * 256]
)
def test_mp3_joined_from_two_is_read_to_its_end(tmp_path: Path, tags: bytes) -> None:
    path = tmp_path / "a.mp3"
    one = tags + write_mp3(path)
    path.write_bytes(one + one)
    assert load_audio(path).size / 16_000 == pytest.approx(2 * SECONDS, abs=TOLERANCE_S)


def test_complete_length_whole_header_returns_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    write_mp3(path)
    with path.open("rb", buffering=0) as file:
        assert complete_length(file) is file
        assert file.tell() == 0


def test_complete_length_cut_off_file_keeps_its_header(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.mp3"
    content = write_mp3(path)
    path.write_bytes(content[: len(content) // 4])
    with caplog.at_level(logging.WARNING):
        load_audio(path)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"\xff\xfb",
        b"\xff\xfb\x90\x64",
        b"\xff\xfb\x90\x64" * 3,
        b"ID3\4\0\0" + b"\x7f" * 4,
    ],
)
def test_complete_length_without_two_frames_changes_nothing(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(content)
    with path.open("rb", buffering=0) as file:
        assert complete_length(file) is file
        assert file.tell() == 0


def test_complete_length_joined_file_can_be_read_from_any_position(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(without_header(write_mp3(path)))
    with path.open("rb", buffering=0) as file:
        completed = complete_length(file)
        whole = completed.read()
        assert whole.endswith(path.read_bytes())
        assert completed.seek(0, 2) == len(whole)
        for start in (0, 10, len(whole) - path.stat().st_size, len(whole) - 5):
            completed.seek(start)
            assert completed.read(7) == whole[start : start + 7]
