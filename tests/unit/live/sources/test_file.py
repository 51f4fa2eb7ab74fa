"""Audio files and raw PCM from pipes as sources."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.live_sources import heard
from tests.fakes.sounds import similarity, tone, write
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.file import FileSource, PcmSource
from whisper_hailo.live.sources.source import Pace


def test_file_source_gives_all_samples_at_16_khz(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(44_100, 1.5), 44_100)
    source = FileSource(path)
    assert source.pace is Pace.PULL
    audio = heard(source)
    assert audio.size == pytest.approx(1.5 * SAMPLE_RATE_HZ, abs=2)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 1.5)) > 0.99


def test_file_source_real_time_lasts_as_long_as_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 1.0))
    clock = {"now": 5.0}

    def sleep(seconds: float) -> None:
        clock["now"] += seconds

    source = FileSource(path, real_time=True, now=lambda: clock["now"], sleep=sleep)
    with source:
        blocks = list(source.blocks())
    assert source.pace is Pace.BUFFERED
    assert sum(block.audio.size for block in blocks) == 16_000
    assert clock["now"] == pytest.approx(6.0)
    assert blocks[-1].captured_s == pytest.approx(6.0)


def test_file_source_opens_a_pipe_once(tmp_path: Path) -> None:
    content = write(tmp_path / "a.wav", tone(16_000)).read_bytes()
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    assert heard(FileSource(tmp_path / "pipe")).size == 16_000
    writer.join()


def test_file_source_closed_before_reading_is_empty(tmp_path: Path) -> None:
    with FileSource(write(tmp_path / "a.wav", tone(16_000))) as source:
        source.close()
        assert not list(source.blocks())


def test_file_source_gives_blocks_of_512_samples(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 0.1))
    with FileSource(path) as source:
        assert source.name == str(path)
        blocks = list(source.blocks())
    assert [block.audio.size for block in blocks] == [512, 512, 512, 64]
    assert all(block.captured_s is None for block in blocks)


def test_file_source_real_time_waits_for_each_block(
    tmp_path: Path,
) -> None:
    """The source does not wait for blocks that a slow reader is late for."""
    clock = [5.0]
    waits = []
    slow = {2, 4}

    def sleep(seconds: float) -> None:
        if seconds:
            waits.append(seconds)
        clock[0] += seconds

    path = write(tmp_path / "a.wav", tone(16_000, 0.256))
    with FileSource(path, real_time=True, now=lambda: clock[0], sleep=sleep) as source:
        captured = []
        for block in source.blocks():
            captured.append(block.captured_s)
            clock[0] += 0.05 if len(captured) in slow else 0.0
    assert captured == pytest.approx([5.0 + 0.032 * n for n in range(1, 9)])
    assert waits == pytest.approx([0.032, 0.032, 0.014, 0.014, 0.032, 0.032])


def test_file_source_closed_while_reading_ends(tmp_path: Path) -> None:
    with FileSource(write(tmp_path / "a.wav", tone(16_000))) as source:
        blocks = source.blocks()
        assert next(blocks).audio.size == 512
        source.close()
        assert list(blocks) == []


def test_file_source_missing_file_raises_at_open(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"no\.wav"), FileSource(tmp_path / "no.wav"):
        pass


@pytest.mark.parametrize("rate_hz", [16_000, 48_000, 11_025])
def test_pcm_source_of_any_rate_gives_16_khz(rate_hz: int) -> None:
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


def test_pcm_source_joins_samples_cut_by_reads() -> None:
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


def test_pcm_source_of_closed_descriptor_raises() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(AudioError) as raised:
        list(PcmSource(reading).blocks())
    assert os.strerror(errno.EBADF) in str(raised.value)


def test_pcm_source_of_silent_pipe_can_be_closed() -> None:
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
    "begin",
    [
        b"RIFF\x00\x00\x00\x00WAVE",
        b"RF64\xff\xff\xff\xffWAVE",
        b"fLaC\x00\x00\x00",
        b"OggS\x00\x02",
        b"ID3\x04\x00",
        *(b"\xff" + second + b"\x90\x00" for second in (b"\xfb", b"\xf3", b"\xf2")),
        b"\x00\x00\x00\x20ftypM4A ",
        b"\x00\x00\n\x20ftypisom",
        b"\x1aE\xdf\xa3\x01",
        b"FORM\x00\n\x00\x00AIFF",
        b"FORM\x00\x00\x00\x00AIFC",
        b"caff\x00\x01",
    ],
)
def test_pcm_source_of_sound_file_raises(begin: bytes) -> None:
    """Read as samples, it would be noise or silence, without a reason."""
    reading, writing = os.pipe()
    os.write(writing, begin + bytes(4000))
    os.close(writing)
    with (
        os.fdopen(reading) as pipe,
        PcmSource(pipe.fileno()) as source,
        pytest.raises(AudioError, match="16-bit mono"),
    ):
        list(source.blocks())


@pytest.mark.parametrize(
    "begin",
    [
        bytes(4) + b"RIFF",
        b"ID3\xff" + bytes(4),  # of a version that there is not
        b"\xff\xfb\x00\x00" + bytes(4),  # quiet sound: -1025, and silence
        b"\xff\xfb\xff\xfb" + bytes(4),
        b"cafe" + bytes(4),
    ],
)
def test_pcm_source_of_samples_like_a_header_reads_them(begin: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, begin + bytes(4000))
    os.close(writing)
    with os.fdopen(reading) as pipe, PcmSource(pipe.fileno()) as source:
        assert sum(block.audio.size for block in source.blocks()) == 2004


def test_pcm_source_header_within_sound_is_sound() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as pipe, PcmSource(pipe.fileno()) as source:
        blocks = source.blocks()
        os.write(writing, bytes(8))
        assert [next(blocks).audio.size] == [4]
        os.write(writing, b"RIFFRIFF")
        os.close(writing)
        assert [block.audio.size for block in blocks] == [4]


def test_pcm_source_waits_for_a_slow_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    polls = []

    class Poll:
        """A `select.poll` that reports data at the third call."""

        def register(self, descriptor: int, _events: int) -> None:
            assert descriptor == reading

        def poll(self, _ms: int) -> bool:
            polls.append(1)
            if len(polls) == 3:
                os.write(writing, bytes(8))
                os.close(writing)
            return len(polls) > 2

    monkeypatch.setattr("whisper_hailo.live.sources.file.select.poll", Poll)
    with os.fdopen(reading):
        assert heard(PcmSource(reading)).size == 4


def test_pcm_source_blocks_have_their_capture_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.live.sources.file.time.perf_counter", lambda: 7.0
    )
    reading, writing = os.pipe()
    os.write(writing, bytes(8))
    os.close(writing)
    with os.fdopen(reading) as pipe, PcmSource(pipe.fileno()) as source:
        assert [block.captured_s for block in source.blocks()] == [7.0]
