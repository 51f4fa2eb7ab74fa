"""FLAC recordings of captioned audio: on the captions' timeline, readable after any fault."""

from __future__ import annotations

import errno
import logging
import os
import re
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.fakes.sounds import similarity, tone
from tests.unit.live.outputs.test_growing_file import Disk, play_days
from whisper_hailo.audio import open_audio
from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.outputs.files import FlacRecording
from whisper_hailo.live.sources.source import Block, Interruption, empty_block

NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, 40 * 4096).astype(np.float32)


def split_blocks(audio: FloatArray) -> list[Block]:
    return [Block(audio[at : at + 512]) for at in range(0, audio.size, 512)]


def read_samples(path: Path) -> FloatArray:
    with open_audio(path) as stream:
        return np.concatenate(list(stream.blocks(4096)))


def parse_missing_s(error: OutputError) -> float:
    """Return the seconds of sound that an error reports as missing."""
    match = re.search(rf"(-?[\d.]+) {FlacRecording.unit}", str(error))
    assert match is not None
    return float(match[1])


def test_flac_recording_has_the_source_s_samples(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    with FlacRecording(path) as recording:
        for block in split_blocks(NOISE):
            recording.put(block)
    np.testing.assert_allclose(read_samples(path), NOISE, atol=1 / 32767)
    assert soundfile.info(path).frames == NOISE.size, "the header is complete"


def test_flac_recording_unfinished_file_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    with FlacRecording(path) as recording:
        for block in split_blocks(NOISE):
            recording.put(block)
        (tmp_path / "killed.flac").write_bytes(path.read_bytes())
    audio = read_samples(tmp_path / "killed.flac")
    assert audio.size >= NOISE.size - 2 * 4096
    np.testing.assert_allclose(audio, NOISE[: audio.size], atol=1 / 32767)


def test_flac_recording_writes_block_with_the_next_one(tmp_path: Path) -> None:
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(NOISE[: 4 * 4096]))
        recording.put(empty_block())
        (tmp_path / "killed.flac").write_bytes((tmp_path / "a.flac").read_bytes())
    assert read_samples(tmp_path / "killed.flac").size >= 2 * 4096


def test_flac_recording_clips_loud_samples(tmp_path: Path) -> None:
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(np.array([0.5, 2.0, -2.0, 1.0, -1.0], np.float32)))
    np.testing.assert_allclose(
        read_samples(tmp_path / "a.flac"), [0.5, 1.0, -1.0, 1.0, -1.0], atol=1 / 16384
    )


def test_flac_recording_syncs_every_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    waited = []
    monkeypatch.setattr("os.fsync", lambda _: waited.append(clock[0]))
    with FlacRecording(tmp_path / "a.flac", now=lambda: clock[0]) as recording:
        for half_seconds in range(24):
            clock[0] = 100.0 + half_seconds / 2
            recording.put(Block(NOISE[:8192]))
        assert waited == [105.0, 110.0]


def test_flac_recording_lost_audio_is_silence(tmp_path: Path) -> None:
    sound = tone(SAMPLE_RATE_HZ, 1.0)
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(sound, n_lost=8_000))
        recording.put(empty_block(Interruption("unplugged")))
        recording.put(empty_block(Interruption("", 16_000)))
        recording.put(Block(sound))
    audio = read_samples(tmp_path / "a.flac")
    assert audio.size == 2 * sound.size + 24_000
    assert not audio[sound.size : sound.size + 24_000].any()
    assert similarity(audio[-sound.size :], sound) > 0.99


def test_flac_recording_after_long_absence_begins_a_file(tmp_path: Path) -> None:
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(NOISE))
        recording.put(empty_block(Interruption("", 11 * 60 * SAMPLE_RATE_HZ)))
        recording.put(Block(NOISE[:8_000]))
    assert read_samples(tmp_path / "a.flac").size == NOISE.size
    assert read_samples(tmp_path / "a-2.flac").size == 8_000


def test_flac_recording_daily_files_have_no_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = play_days(monkeypatch)
    with FlacRecording(tmp_path / "a.flac", daily=True) as recording:
        for index, block in enumerate(split_blocks(NOISE)):
            today[0] = date(2026, 3, 1 + index // 100)
            recording.put(block)
    paths = sorted(tmp_path.glob("a.2026-03*"))
    parts = [read_samples(path) for path in paths]
    assert len(parts) == 4
    assert [soundfile.info(path).frames for path in paths] == [
        part.size for part in parts
    ]
    np.testing.assert_allclose(np.concatenate(parts), NOISE, atol=1 / 32767)


def test_flac_recording_on_full_disk_is_completed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    disk = Disk(monkeypatch, 30_000, errno.ENOSPC)
    clock = [0.0]
    monkeypatch.setattr(disk, "most", 1 << 20)
    with FlacRecording(tmp_path / "a.flac", now=lambda: clock[0]) as recording:
        for index, block in enumerate(split_blocks(NOISE)):
            recording.put(block)
            clock[0] += 0.032
            if index == 200:
                disk.room = 1 << 30
    np.testing.assert_allclose(read_samples(tmp_path / "a.flac"), NOISE, atol=1 / 32767)
    failure, success = caplog.messages
    assert os.strerror(errno.ENOSPC) in failure
    assert os.strerror(errno.ENOSPC) not in success


def test_flac_recording_close_writes_waiting_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 30_000, errno.ENOSPC)
    disk.most = 1 << 20
    with FlacRecording(tmp_path / "a.flac", now=lambda: 0.0) as recording:
        for block in split_blocks(NOISE):
            recording.put(block)
        disk.room = 1 << 30
    np.testing.assert_allclose(read_samples(tmp_path / "a.flac"), NOISE, atol=1 / 32767)


def test_flac_recording_after_lost_disk_begins_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 30_000, errno.EIO)
    clock = [0.0]
    disk.most = 1 << 20
    with FlacRecording(tmp_path / "a.flac", now=lambda: clock[0]) as recording:
        for index, block in enumerate(split_blocks(NOISE)):
            recording.put(block)
            clock[0] += 0.032
            if index == 200:
                disk.room = 1 << 30
    before = read_samples(tmp_path / "a.flac")
    behind = read_samples(tmp_path / "a-2.flac")
    np.testing.assert_allclose(before, NOISE[: before.size], atol=1 / 32767)
    np.testing.assert_allclose(
        behind, NOISE[NOISE.size - behind.size :], atol=1 / 32767
    )
    assert before.size + behind.size > NOISE.size - 3 * 4096, (
        "but for what was being encoded"
    )


def test_flac_recording_on_full_disk_reports_missing_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 30_000, errno.ENOSPC)
    disk.most = 1 << 20
    recording = FlacRecording(tmp_path / "a.flac").open()
    for block in split_blocks(NOISE):
        recording.put(block)
    with pytest.raises(OutputError, match=os.strerror(errno.ENOSPC)) as raised:
        recording.close()
    n_there = read_samples(tmp_path / "a.flac").size
    assert n_there > 4096
    n_missing = parse_missing_s(raised.value) * SAMPLE_RATE_HZ
    n_gone = NOISE.size - n_there
    assert n_gone - 3 * 4096 < n_missing < n_gone + 800, (
        "but for what was being encoded"
    )


def test_flac_recording_dropped_audio_begins_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlacRecording, "most_waiting", 2.0)
    disk = Disk(monkeypatch, 30_000, errno.ENOSPC)
    clock = [0.0]
    disk.most = 1 << 20
    recording = FlacRecording(tmp_path / "a.flac", now=lambda: clock[0]).open()
    for block in split_blocks(NOISE):
        recording.put(block)
        clock[0] += 0.032
    disk.room = 1 << 30
    clock[0] = 100.0
    for at in (0, 256):
        recording.put(Block(NOISE[at : at + 256]))
    with pytest.raises(OutputError, match=r"a-2\.flac") as raised:
        recording.close()
    behind = read_samples(tmp_path / "a-2.flac")
    np.testing.assert_allclose(behind[-512:], NOISE[:512], atol=1 / 32767)
    # The last samples before there was room.
    waited = NOISE[NOISE.size + 512 - behind.size :]
    np.testing.assert_allclose(behind[:-512], waited, atol=1 / 32767)
    assert behind.size == pytest.approx(2.0 * SAMPLE_RATE_HZ, abs=1024)
    n_gone = NOISE.size + 512 - read_samples(tmp_path / "a.flac").size - behind.size
    assert parse_missing_s(raised.value) == pytest.approx(
        n_gone / SAMPLE_RATE_HZ, abs=0.051
    )


def test_flac_recording_close_on_full_disk_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No block waits: the last samples are in the encoder, the length is not in the header."""
    disk = Disk(monkeypatch, 1 << 20, errno.ENOSPC)
    disk.most = 1 << 20
    recording = FlacRecording(tmp_path / "a.flac").open()
    for block in split_blocks(NOISE):
        recording.put(block)
    disk.room = 0
    with pytest.raises(OutputError, match=os.strerror(errno.ENOSPC)):
        recording.close()


def test_flac_recording_of_other_suffix_raises(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--record .*a\.wav.*\.flac"):
        FlacRecording(tmp_path / "a.wav")
