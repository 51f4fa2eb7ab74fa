"""The sound beside its captions: whole, in step, and readable whatever happened."""

from __future__ import annotations

import errno
import logging
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


def pieces(audio: FloatArray) -> list[Block]:
    return [Block(audio[at : at + 512]) for at in range(0, audio.size, 512)]


def heard(path: Path) -> FloatArray:
    with open_audio(path) as stream:
        return np.concatenate(list(stream.blocks(4096)))


def missing_s(error: OutputError) -> float:
    """Seconds of sound that an error says are missing."""
    found = re.search(r"; (-?[\d.]+) s of sound are missing from it", str(error))
    assert found is not None
    return float(found[1])


def test_what_is_recorded_is_what_was_heard(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    with FlacRecording(path) as recording:
        for block in pieces(NOISE):
            recording.put(block)
    np.testing.assert_allclose(heard(path), NOISE, atol=1 / 32767)
    assert soundfile.info(path).frames == NOISE.size, "the header is complete"


def test_recording_can_be_read_while_it_grows_as_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    with FlacRecording(path) as recording:
        for block in pieces(NOISE):
            recording.put(block)
        (tmp_path / "killed.flac").write_bytes(path.read_bytes())
    audio = heard(tmp_path / "killed.flac")
    assert audio.size >= NOISE.size - 2 * 4096
    np.testing.assert_allclose(audio, NOISE[: audio.size], atol=1 / 32767)


def test_piece_is_in_the_file_as_soon_as_the_next_one_was_put(tmp_path: Path) -> None:
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(NOISE[: 4 * 4096]))
        recording.put(empty_block())
        (tmp_path / "killed.flac").write_bytes((tmp_path / "a.flac").read_bytes())
    assert heard(tmp_path / "killed.flac").size >= 2 * 4096


def test_what_is_too_loud_is_as_loud_as_can_be(tmp_path: Path) -> None:
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(np.array([0.5, 2.0, -2.0, 1.0, -1.0], np.float32)))
    np.testing.assert_allclose(
        heard(tmp_path / "a.flac"), [0.5, 1.0, -1.0, 1.0, -1.0], atol=1 / 16384
    )


def test_power_cut_takes_five_seconds_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, waited = [100.0], []
    monkeypatch.setattr("os.fsync", lambda _: waited.append(clock[0]))
    with FlacRecording(tmp_path / "a.flac", now=lambda: clock[0]) as recording:
        for half_seconds in range(24):
            clock[0] = 100.0 + half_seconds / 2
            recording.put(Block(NOISE[:8192]))
        assert waited == [105.0, 110.0]


def test_what_nobody_heard_is_silence_so_that_times_agree(tmp_path: Path) -> None:
    sound = tone(SAMPLE_RATE_HZ, 1.0)
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(sound, n_lost=8_000))
        recording.put(empty_block(Interruption("unplugged")))
        recording.put(empty_block(Interruption("", 16_000)))
        recording.put(Block(sound))
    audio = heard(tmp_path / "a.flac")
    assert audio.size == 2 * sound.size + 24_000
    assert not audio[sound.size : sound.size + 24_000].any()
    assert similarity(audio[-sound.size :], sound) > 0.99


def test_behind_a_long_absence_is_a_new_file(tmp_path: Path) -> None:
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(NOISE))
        recording.put(empty_block(Interruption("", 11 * 60 * SAMPLE_RATE_HZ)))
        recording.put(Block(NOISE[:8_000]))
    assert heard(tmp_path / "a.flac").size == NOISE.size
    assert heard(tmp_path / "a-2.flac").size == 8_000


def test_parts_of_days_are_whole_files_without_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = play_days(monkeypatch)
    with FlacRecording(tmp_path / "a.flac", daily=True) as recording:
        for index, block in enumerate(pieces(NOISE)):
            today[0] = date(2026, 3, 1 + index // 100)
            recording.put(block)
    paths = sorted(tmp_path.glob("a.2026-03*"))
    parts = [heard(path) for path in paths]
    assert len(parts) == 4
    assert [soundfile.info(path).frames for path in paths] == [
        part.size for part in parts
    ]
    np.testing.assert_allclose(np.concatenate(parts), NOISE, atol=1 / 32767)


def test_disk_that_was_full_for_a_while_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    disk, clock = Disk(monkeypatch, 30_000, errno.ENOSPC), [0.0]
    monkeypatch.setattr(disk, "most", 1 << 20)
    with FlacRecording(tmp_path / "a.flac", now=lambda: clock[0]) as recording:
        for index, block in enumerate(pieces(NOISE)):
            recording.put(block)
            clock[0] += 0.032
            if index == 200:
                disk.room = 1 << 30
    np.testing.assert_allclose(heard(tmp_path / "a.flac"), NOISE, atol=1 / 32767)
    first, again = caplog.messages
    assert "No space left on device" in first
    assert "is being written again" in again


def test_what_waited_for_room_is_written_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 30_000, errno.ENOSPC)
    disk.most = 1 << 20
    with FlacRecording(tmp_path / "a.flac", now=lambda: 0.0) as recording:
        for block in pieces(NOISE):
            recording.put(block)
        disk.room = 1 << 30
    np.testing.assert_allclose(heard(tmp_path / "a.flac"), NOISE, atol=1 / 32767)


def test_behind_a_disk_that_was_gone_is_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = Disk(monkeypatch, 30_000, errno.EIO), [0.0]
    disk.most = 1 << 20
    with FlacRecording(tmp_path / "a.flac", now=lambda: clock[0]) as recording:
        for index, block in enumerate(pieces(NOISE)):
            recording.put(block)
            clock[0] += 0.032
            if index == 200:
                disk.room = 1 << 30
    before, behind = heard(tmp_path / "a.flac"), heard(tmp_path / "a-2.flac")
    np.testing.assert_allclose(before, NOISE[: before.size], atol=1 / 32767)
    np.testing.assert_allclose(
        behind, NOISE[NOISE.size - behind.size :], atol=1 / 32767
    )
    assert before.size + behind.size > NOISE.size - 3 * 4096, (
        "but for what was being encoded"
    )


def test_disk_that_stays_full_is_told_with_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, 30_000, errno.ENOSPC)
    disk.most = 1 << 20
    recording = FlacRecording(tmp_path / "a.flac").open()
    for block in pieces(NOISE):
        recording.put(block)
    with pytest.raises(OutputError, match=r"No space left") as told:
        recording.close()
    n_there = heard(tmp_path / "a.flac").size
    assert n_there > 4096
    n_missing = missing_s(told.value) * SAMPLE_RATE_HZ
    n_gone = NOISE.size - n_there
    assert n_gone - 3 * 4096 < n_missing < n_gone + 800, (
        "but for what was being encoded"
    )


def test_sound_that_waited_too_long_is_missing_with_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlacRecording, "most_waiting", 2.0)
    disk, clock = Disk(monkeypatch, 30_000, errno.ENOSPC), [0.0]
    disk.most = 1 << 20
    recording = FlacRecording(tmp_path / "a.flac", now=lambda: clock[0]).open()
    for block in pieces(NOISE):
        recording.put(block)
        clock[0] += 0.032
    disk.room, clock[0] = 1 << 30, 100.0
    for at in (0, 256):
        recording.put(Block(NOISE[at : at + 256]))
    with pytest.raises(OutputError, match="was not writable for too long") as told:
        recording.close()
    behind = heard(tmp_path / "a-2.flac")
    np.testing.assert_allclose(behind[-512:], NOISE[:512], atol=1 / 32767)
    # What came last before there was room.
    waited = NOISE[NOISE.size + 512 - behind.size :]
    np.testing.assert_allclose(behind[:-512], waited, atol=1 / 32767)
    assert behind.size == pytest.approx(2.0 * SAMPLE_RATE_HZ, abs=1024)
    n_gone = NOISE.size + 512 - heard(tmp_path / "a.flac").size - behind.size
    assert missing_s(told.value) == pytest.approx(n_gone / SAMPLE_RATE_HZ, abs=0.051)


def test_recording_whose_end_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits then: the last sound is in the encoder, its length not in the header."""
    disk = Disk(monkeypatch, 1 << 20, errno.ENOSPC)
    disk.most = 1 << 20
    recording = FlacRecording(tmp_path / "a.flac").open()
    for block in pieces(NOISE):
        recording.put(block)
    disk.room = 0
    with pytest.raises(OutputError, match="No space left"):
        recording.close()


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--record is .*a\.wav, expected .* \.flac"):
        FlacRecording(tmp_path / "a.wav")
