"""FLAC that the caller writes: appended bytes, patches of the header, and the date."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import soundfile

from whisper_hailo.audio.flac import FlacBytes

NOISE = np.random.default_rng(0).integers(-20_000, 20_000, 40_001, dtype=np.int16)


class File:
    """A file as a caller writes it: bytes are appended, then the header is patched."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.flac = FlacBytes()

    def take(self) -> None:
        self.content += self.flac.fresh
        self.flac.note_written()

    def complete(self) -> bytes:
        self.flac.finish()
        self.take()
        for at, raw in self.flac.patches:
            assert at + len(raw) <= len(self.content)
            self.content[at : at + len(raw)] = raw
        return bytes(self.content)


def encoded(n_piece: int, n_between: int = 1) -> bytes:
    """Return the noise encoded in pieces of `n_piece`, flushed after every `n_between` of them."""
    file = File()
    for index, at in enumerate(range(0, NOISE.size, n_piece)):
        file.flac.add(NOISE[at : at + n_piece])
        if index % n_between == 0:
            file.take()
    return file.complete()


@pytest.mark.parametrize(
    ("n_piece", "n_between"), [(512, 1), (512, 7), (10_000, 1), (50_000, 2)]
)
def test_flac_bytes_decode_to_added_samples(n_piece: int, n_between: int) -> None:
    file = io.BytesIO(encoded(n_piece, n_between))
    info = soundfile.info(file)
    assert (info.format, info.subtype, info.samplerate, info.channels, info.frames) == (
        *("FLAC", "PCM_16", 16_000, 1),
        NOISE.size,
    )
    file.seek(0)
    np.testing.assert_array_equal(soundfile.read(file, dtype="int16")[0], NOISE)


def test_flac_bytes_content_is_independent_of_flushes() -> None:
    """The signature of all samples is in the header, which is written over at last."""
    often = encoded(512)
    once = encoded(512, 1_000)
    assert len(often) == len(once)
    assert often[8:42] == once[8:42], "the lengths, the rate and the signature"
    assert often[-50_000:] == once[-50_000:]


def test_flac_bytes_fresh_is_empty_after_note_written() -> None:
    file = File()
    file.flac.add(NOISE[:8_192])
    assert file.flac.fresh[:4] == b"fLaC"
    for _ in range(2):
        file.take()
        assert not file.flac.fresh
        file.flac.add(NOISE[:4_096])
        assert 4_096 < len(file.flac.fresh) < 2 * 4_096 + 200, (
            "noise of 16 bits, a block of it"
        )
    assert file.flac.patches == []


def test_flac_bytes_positions_count_written_bytes() -> None:
    """Places are those of the whole file, whatever of it was taken away."""
    file = File()
    file.flac.add(NOISE[:8_192])
    file.take()
    n_header = len(file.content)
    assert file.flac.seek(0, 2) == file.flac.tell() == n_header
    assert file.flac.write(b"12345") == 5
    assert file.flac.tell() == n_header + 5
    assert file.flac.seek(-4, 1) == n_header + 1
    file.flac.write(b"ab")
    assert file.flac.fresh == b"1ab45"
    assert file.flac.read(9) == b""
    assert file.flac.seek(n_header) == n_header
    file.flac.write(b"x")
    assert file.flac.seek(0, 2) == n_header + 5
    assert (file.flac.fresh, file.flac.patches) == (b"xab45", [])
    file.flac.seek(n_header - 1)
    file.flac.write(b"y")
    assert file.flac.patches == [(n_header - 1, b"y")]


def test_flac_bytes_date_is_start_to_a_millisecond(tmp_path: Path) -> None:
    before = datetime.now(UTC).timestamp()
    content = encoded(50_000)
    after = datetime.now(UTC).timestamp()
    (tmp_path / "a.flac").write_bytes(content)
    with soundfile.SoundFile(tmp_path / "a.flac") as file:
        assert before - 0.001 <= datetime.fromisoformat(file.date).timestamp() <= after
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", file.date
        )
