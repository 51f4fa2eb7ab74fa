"""WAV files that say too little of their length: of recorders that were killed, and of pipes."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.unit.sounds import tone
from whisper_hailo.audio import load_audio, open_audio
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


@pytest.mark.parametrize("behind", [b"", TAGS, TAGS + b"\0", b"\0"])
def test_what_holds_no_samples_still_holds_none(behind: bytes) -> None:
    empty = content(0)[: WHOLE.index(b"data") + 8] + behind
    with pytest.raises(AudioError, match="holds no samples"):
        load_audio(io.BytesIO(empty))


@pytest.mark.slow
def test_a_header_of_endless_empty_chunks_is_given_up() -> None:
    broken = WHOLE[:12] + bytes(1 << 20)
    with pytest.raises(AudioError, match="is not readable audio"):
        open_audio(io.BytesIO(broken))
