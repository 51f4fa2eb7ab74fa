"""WAV files that say too little of their length: of recorders that were killed, and of pipes."""

from __future__ import annotations

import io
import os
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest
import soundfile

from tests.unit.sounds import tone
from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.audio.files import open_file
from whisper_hailo.audio.readers import complete_header, promised_duration_s
from whisper_hailo.core.errors import AudioError

RATE_HZ = 16_000
TAGS = b"LIST" + struct.pack("<I", 16) + b"INFOICMT" + struct.pack("<I", 4) + b"abc\0"


def content(length: int | None, *, riff: int | None = None, before: bytes = b"") -> bytes:
    """A WAV file of half a second with such lengths in its header; `None` leaves the right one."""
    written = io.BytesIO()
    soundfile.write(written, tone(RATE_HZ, 0.5), RATE_HZ, format="WAV", subtype="PCM_16")
    raw = bytearray(written.getvalue())
    at = raw.index(b"data")
    if length is not None:
        raw[at + 4 : at + 8] = struct.pack("<I", length)
    if riff is not None:
        raw[4:8] = struct.pack("<I", riff)
    raw[at:at] = before
    return bytes(raw)


WHOLE = content(None)


def place_of(raw: bytes) -> BinaryIO:
    """A raw file, at its start."""
    return open_file(io.BytesIO(raw), "a", ExitStack())


@pytest.mark.parametrize("riff", [0, 8, 36, None])
@pytest.mark.parametrize("before", [b"", TAGS])
def test_a_length_that_was_never_written_is_up_to_the_end(
    riff: int | None, before: bytes, tmp_path: Path
) -> None:
    wanted = load_audio(io.BytesIO(WHOLE))
    raw = content(0, riff=riff, before=before)
    (tmp_path / "a.wav").write_bytes(raw)
    for source in (tmp_path / "a.wav", io.BytesIO(raw)):
        np.testing.assert_array_equal(load_audio(source), wanted)


@pytest.mark.parametrize("length", [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_length_beyond_the_end_is_up_to_the_end(length: int) -> None:
    wanted = load_audio(io.BytesIO(WHOLE))
    np.testing.assert_array_equal(load_audio(io.BytesIO(content(length))), wanted)


@pytest.mark.parametrize("before", [b"", TAGS])
@pytest.mark.parametrize("kind", [{}, {"format": "RF64"}, {"format": "WAVEX"}, {"subtype": "ULAW"}])
def test_half_a_file_warns(
    before: bytes, kind: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = io.BytesIO()
    options = {"format": "WAV", "subtype": "PCM_16", **kind}
    soundfile.write(written, tone(RATE_HZ, 4.0), RATE_HZ, **options)
    raw = written.getvalue().replace(b"fmt ", before + b"fmt ", 1)
    for source in (raw, raw + TAGS, raw[:-2000]):
        load_audio(io.BytesIO(source))
    assert not caplog.text
    (tmp_path / "a.wav").write_bytes(raw[: len(raw) // 2])
    with open_audio(tmp_path / "a.wav") as stream:
        assert stream.duration_s == 4.0
        assert sum(map(len, stream.blocks(RATE_HZ))) == pytest.approx(2 * RATE_HZ, abs=100)
    assert "a.wav breaks off after 2.0 s of 4.0 s (truncated)" in caplog.text


@pytest.mark.parametrize("length", [0, 0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_lengths_of_streams_promise_nothing(length: int, caplog: pytest.LogCaptureFixture) -> None:
    with open_audio(io.BytesIO(content(length))) as stream:
        assert sum(map(len, stream.blocks(RATE_HZ))) == RATE_HZ // 2
    assert not caplog.text


def test_broken_headers_promise_nothing() -> None:
    at = WHOLE.index(b"fmt ")
    broken = bytearray(content(1 << 20))
    broken[at + 16 : at + 20] = bytes(4)
    assert promised_duration_s(place_of(bytes(broken))) is None
    for n_bytes in range(at + 12, WHOLE.index(b"data") + 8):
        assert promised_duration_s(place_of(WHOLE[:n_bytes])) is None
    assert promised_duration_s(place_of(WHOLE.replace(b"fmt ", b"FMT "))) is None


@pytest.mark.parametrize("behind", [b"", TAGS, TAGS + b"\0", b"\0"])
def test_what_holds_no_samples_still_holds_none(behind: bytes) -> None:
    empty = content(0)[: WHOLE.index(b"data") + 8] + behind
    with pytest.raises(AudioError, match="holds no samples"):
        load_audio(io.BytesIO(empty))


@pytest.mark.parametrize("before", [b"", b"note" + struct.pack("<I", 3) + b"odd\0"])
def test_a_length_that_is_right_leaves_out_what_stands_behind(before: bytes) -> None:
    """A chunk of odd length has a byte more, which its length does not count."""
    wanted = load_audio(io.BytesIO(WHOLE))
    for raw in (content(None, before=before) + TAGS, content(0, before=before)):
        np.testing.assert_array_equal(load_audio(io.BytesIO(raw)), wanted)


def test_64_kib_of_chunks_before_the_samples_are_looked_at() -> None:
    def with_data_at(place: int) -> io.BytesIO:
        size = place - WHOLE.index(b"data") - 8
        return io.BytesIO(content(0, before=b"junk" + struct.pack("<I", size) + bytes(size)))

    assert load_audio(with_data_at((64 << 10) - 2)).size == RATE_HZ // 2
    with pytest.raises(AudioError, match="holds no samples"):
        load_audio(with_data_at(64 << 10))


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 5, 7, 64])
def test_the_length_is_another_however_it_is_read(n_bytes: int) -> None:
    """And all other bytes are those of the file."""
    at = WHOLE.index(b"data") + 4
    wanted = WHOLE[:at] + b"\xff" * 4 + WHOLE[at + 4 :]
    file = complete_header(place_of(content(0)))
    read = b"".join(iter(lambda: file.read(n_bytes), b""))
    assert read == wanted
    for begin in range(at - 8, at + 8):
        assert file.seek(begin) == file.tell() == begin
        assert file.read(n_bytes) == wanted[begin : begin + n_bytes]
    assert file.seek(-3, os.SEEK_END) == len(wanted) - 3
    buffered = io.BufferedReader(cast(io.RawIOBase, file))
    buffered.seek(0)
    assert buffered.read() == wanted


def test_a_file_whose_length_is_right_is_left_as_it_is() -> None:
    for raw in (WHOLE, WHOLE[:20], b"RIFF"):
        file = place_of(raw)
        assert complete_header(file) is file
        assert file.read() == raw


@pytest.mark.slow
def test_a_header_of_endless_empty_chunks_is_given_up() -> None:
    broken = WHOLE[:12] + bytes(1 << 20)
    with pytest.raises(AudioError, match="is not readable audio"):
        open_audio(io.BytesIO(broken))
