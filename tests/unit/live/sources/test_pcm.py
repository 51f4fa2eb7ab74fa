"""Raw PCM from pipes: samples cut anywhere, and what is a file instead."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from tests.unit.live.sources.listening import heard
from tests.unit.sounds import similarity, tone
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.pcm import PcmSource


@pytest.mark.parametrize("rate_hz", [16_000, 48_000, 11_025])
def test_raw_pcm_of_any_rate_in_pieces_of_any_size(rate_hz: int) -> None:
    samples = tone(rate_hz, 1.0)
    raw = (samples * 32767).astype("<i2").tobytes()
    reading, writing = os.pipe()

    def feed() -> None:
        with os.fdopen(writing, "wb", buffering=0) as file:
            for at in range(0, len(raw), 777):  # an odd number: samples are torn apart
                file.write(raw[at : at + 777])

    thread = threading.Thread(target=feed)
    thread.start()
    audio = heard(PcmSource(reading, rate_hz))
    thread.join()
    os.close(reading)
    assert audio.size == pytest.approx(SAMPLE_RATE_HZ, abs=2)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 1.0)) > 0.99


def test_a_sample_torn_apart_between_two_reads_is_put_together() -> None:
    """The first read ends in the middle of the second sample, the last in that of a third."""
    raw = np.array([256, -512, 1024], "<i2").tobytes()
    reading, writing = os.pipe()
    blocks = PcmSource(reading).blocks()
    os.write(writing, raw[:3])
    got = next(blocks).audio.tolist()
    os.write(writing, raw[3:5])
    os.close(writing)
    got += [sample for block in blocks for sample in block.audio.tolist()]
    os.close(reading)
    assert got == [256 / 32768, -512 / 32768]


def test_pcm_that_cannot_be_read_is_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(AudioError, match="cannot be read"):
        list(PcmSource(reading).blocks())


def test_a_pipe_that_nothing_comes_from_can_be_left() -> None:
    reading, writing = os.pipe()
    source = PcmSource(reading)
    thread = threading.Thread(target=lambda: list(source.blocks()), daemon=True)
    thread.start()
    source.close()
    thread.join(30)
    assert not thread.is_alive()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"RIFF\x00\x00\x00\x00WAVE", "a WAV file"),
        (b"fLaC\x00\x00\x00", "a FLAC file"),
        (b"OggS\x00\x02", "an OGG file"),
        (b"ID3\x04\x00", "an MP3 file"),
        (b"\xff\xfb\x90\x00", "an MP3 file"),
        (b"\x00\x00\x00\x20ftypM4A ", "an MP4 or M4A file"),
        (b"\x1aE\xdf\xa3\x01", "a Matroska or WebM file"),
    ],
)
def test_a_file_where_samples_are_expected_is_told(begin: bytes, kind: str) -> None:
    """It would be heard as noise, or as silence, and nobody would know why."""
    reading, writing = os.pipe()
    os.write(writing, begin + bytes(4000))
    os.close(writing)
    expected = f"begins as {kind}, expected raw 16-bit mono samples"
    with (
        os.fdopen(reading) as pipe,
        PcmSource(pipe.fileno()) as source,
        pytest.raises(AudioError, match=expected),
    ):
        list(source.blocks())


def test_samples_that_look_a_little_like_a_file_are_heard() -> None:
    reading, writing = os.pipe()
    os.write(writing, bytes(4) + b"RIFF" + bytes(4000))
    os.close(writing)
    with os.fdopen(reading) as pipe, PcmSource(pipe.fileno()) as source:
        assert sum(block.audio.size for block in source.blocks()) == 2004
