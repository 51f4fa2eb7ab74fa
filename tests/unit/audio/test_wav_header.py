"""WAV headers that a crashed or streaming recorder left incomplete."""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest
import soundfile

from tests.fakes.sounds import noisy_speech, tone
from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.audio.files import open_file
from whisper_hailo.audio.wav_header import complete_header
from whisper_hailo.core.errors import AudioError

RATE_HZ = 16_000


TAGS = b"LIST" + struct.pack("<I", 16) + b"INFOICMT" + struct.pack("<I", 4) + b"abc\0"


def content(
    length: int | None, *, riff: int | None = None, before: bytes = b""
) -> bytes:
    """Return half a second of WAV with these lengths in its header; `None` is the right one."""
    written = io.BytesIO()
    soundfile.write(
        written, tone(RATE_HZ, 0.5), RATE_HZ, format="WAV", subtype="PCM_16"
    )
    raw = bytearray(written.getvalue())
    at = raw.index(b"data")
    if length is not None:
        raw[at + 4 : at + 8] = struct.pack("<I", length)
    if riff is not None:
        raw[4:8] = struct.pack("<I", riff)
    raw[at:at] = before
    return bytes(raw)


WHOLE = content(None)


OpenBytes = Callable[[bytes], BinaryIO]


@pytest.fixture
def open_bytes() -> Iterator[OpenBytes]:
    """Open bytes as a raw file, at its start."""
    with ExitStack() as resources:
        yield lambda raw: open_file(io.BytesIO(raw), "a", resources)


@pytest.mark.parametrize("riff", [0, 8, 36, None])
@pytest.mark.parametrize("before", [b"", TAGS])
def test_complete_header_unwritten_length_reads_to_end(
    riff: int | None, before: bytes, tmp_path: Path
) -> None:
    expected = load_audio(io.BytesIO(WHOLE))
    raw = content(0, riff=riff, before=before)
    (tmp_path / "a.wav").write_bytes(raw)
    for source in (tmp_path / "a.wav", io.BytesIO(raw)):
        np.testing.assert_array_equal(load_audio(source), expected)


@pytest.mark.parametrize("length", [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_complete_header_length_beyond_end_reads_to_end(length: int) -> None:
    expected = load_audio(io.BytesIO(WHOLE))
    np.testing.assert_array_equal(load_audio(io.BytesIO(content(length))), expected)


@pytest.mark.parametrize("before", [b"", TAGS])
@pytest.mark.parametrize(
    "kind", [{}, {"format": "RF64"}, {"format": "WAVEX"}, {"subtype": "ULAW"}]
)
def test_complete_header_truncated_file_warns(
    before: bytes,
    kind: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
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
        assert sum(map(len, stream.blocks(RATE_HZ))) == pytest.approx(
            2 * RATE_HZ, abs=100
        )
    assert re.search(r"a\.wav .*2\.0 s.*4\.0 s", caplog.text)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "ULAW"])
def test_complete_header_short_length_reads_all_and_warns(
    subtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A recorder that crashed had written its header in the middle of the recording."""
    written = io.BytesIO()
    soundfile.write(written, noisy_speech(4.0), RATE_HZ, format="WAV", subtype=subtype)
    expected = load_audio(io.BytesIO(written.getvalue()))
    broken = bytearray(written.getvalue())
    length = broken.index(b"data") + 4
    (whole,) = struct.unpack_from("<I", broken, length)
    struct.pack_into("<I", broken, length, whole // 4 * 2)
    np.testing.assert_array_equal(load_audio(io.BytesIO(bytes(broken))), expected)
    assert "2.0 s" in caplog.text


def test_complete_header_long_tags_are_not_audio(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pictures = b"id3 " + struct.pack("<I", 400_001) + bytes(400_002)
    for behind in (pictures, pictures[:-1], TAGS + pictures):
        np.testing.assert_array_equal(
            load_audio(io.BytesIO(WHOLE + behind)), load_audio(io.BytesIO(WHOLE))
        )
    assert not caplog.text


@pytest.mark.parametrize("length", [0, 0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_complete_header_length_of_stream_warns_nothing(
    length: int, caplog: pytest.LogCaptureFixture
) -> None:
    with open_audio(io.BytesIO(content(length))) as stream:
        assert sum(map(len, stream.blocks(RATE_HZ))) == RATE_HZ // 2
    assert not caplog.text


def test_complete_header_broken_header_promises_nothing(open_bytes: OpenBytes) -> None:
    at = WHOLE.index(b"fmt ")
    broken = bytearray(content(1 << 20))
    broken[at + 16 : at + 20] = bytes(4)
    assert complete_header(open_bytes(bytes(broken))).promised_s is None
    for n_bytes in range(at + 12, WHOLE.index(b"data") + 8):
        assert complete_header(open_bytes(WHOLE[:n_bytes])).promised_s is None
    assert (
        complete_header(open_bytes(WHOLE.replace(b"fmt ", b"FMT "))).promised_s is None
    )


@pytest.mark.parametrize("behind", [b"", TAGS, TAGS + b"\0", b"\0"])
def test_complete_header_without_samples_is_refused(behind: bytes) -> None:
    empty = content(0)[: WHOLE.index(b"data") + 8] + behind
    with pytest.raises(AudioError, match="samples"):
        load_audio(io.BytesIO(empty))


@pytest.mark.parametrize("before", [b"", b"note" + struct.pack("<I", 3) + b"odd\0"])
def test_complete_header_right_length_omits_chunks_behind(before: bytes) -> None:
    """A chunk of odd length has a byte more, which its length does not count."""
    expected = load_audio(io.BytesIO(WHOLE))
    for raw in (content(None, before=before) + TAGS, content(0, before=before)):
        np.testing.assert_array_equal(load_audio(io.BytesIO(raw)), expected)


def test_complete_header_searches_first_64_kib() -> None:
    def with_data_at(place: int) -> io.BytesIO:
        size = place - WHOLE.index(b"data") - 8
        return io.BytesIO(
            content(0, before=b"junk" + struct.pack("<I", size) + bytes(size))
        )

    assert load_audio(with_data_at((64 << 10) - 2)).size == RATE_HZ // 2
    with pytest.raises(AudioError, match="samples"):
        load_audio(with_data_at(64 << 10))


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 5, 7, 64])
def test_complete_header_file_reads_alike_in_all_sizes(
    open_bytes: OpenBytes, n_bytes: int
) -> None:
    """All other bytes are those of the file."""
    at = WHOLE.index(b"data") + 4
    expected = WHOLE[:at] + b"\xff" * 4 + WHOLE[at + 4 :]
    file = complete_header(open_bytes(content(0))).file
    read = b"".join(iter(lambda: file.read(n_bytes), b""))
    assert read == expected
    for begin in range(at - 8, at + 8):
        assert file.seek(begin) == file.tell() == begin
        assert file.read(n_bytes) == expected[begin : begin + n_bytes]
    assert file.seek(-3, os.SEEK_END) == len(expected) - 3
    buffered = io.BufferedReader(cast(io.RawIOBase, file))
    buffered.seek(0)
    assert buffered.read() == expected


def test_complete_header_right_length_returns_the_file(open_bytes: OpenBytes) -> None:
    for raw in (WHOLE, WHOLE[:20], b"RIFF"):
        file = open_bytes(raw)
        assert complete_header(file).file is file
        assert file.read() == raw


@pytest.mark.slow
def test_complete_header_endless_empty_chunks_are_refused() -> None:
    broken = WHOLE[:12] + bytes(1 << 20)
    with pytest.raises(AudioError, match="readable"):
        open_audio(io.BytesIO(broken))
