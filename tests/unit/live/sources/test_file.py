"""Audio files as sources: read at once, or in real time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.fakes.sounds import similarity, tone, write
from tests.fakes.source_audio import heard
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.file import FileSource
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
