"""References made of clips and their texts."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
import soundfile

from whisper_hailo_lab.accuracy.subtitle_files import (
    REFERENCES,
    find_programs,
    mean_suber,
    write_subtitle_audio,
)
from whisper_hailo_lab.accuracy.subtitle_references import (
    find_pauses,
    write_reference,
)
from whisper_hailo_lab.accuracy.subtitles import parse_srt
from whisper_hailo_lab.data.speech import SpeechRecording

SHORT = "A short one."
LONG = (
    "This sentence is so long that a single cue of two lines cannot hold it, and so it is cut "
    "into several cues, each of them about as long as the others are."
)


@pytest.fixture
def clips(tmp_path: Path) -> list[SpeechRecording]:
    """Return two clips of 2 and 9 s, whose first and last half second are silent."""
    recordings = []
    for name, seconds, text in (("a", 2, SHORT), ("b", 9, LONG)):
        path = tmp_path / f"{name}.wav"
        audio = np.full(seconds * 16_000, 0.5, np.float32)
        audio[:8_000] = audio[-8_000:] = 0
        soundfile.write(path, audio, 16_000)
        recordings.append(
            SpeechRecording("clips", name, text, "en", seconds, "made", (path,))
        )
    return recordings


def join(clips: list[SpeechRecording]) -> SpeechRecording:
    paths = tuple(path for clip in clips for path in clip.paths)
    return SpeechRecording("joined", "ab", "", "en", 12, "made", paths, (16_000,))


def test_write_reference_has_the_times_of_clips(clips: list[SpeechRecording]) -> None:
    first, *rest = parse_srt(write_reference(join(clips), [SHORT, LONG]))
    assert first.start_s == 0.0
    assert first.end_s == 2.0
    assert first.lines == (SHORT,)
    assert rest[0].start_s == 3.0
    assert rest[-1].end_s == 12.0


def test_write_reference_splits_a_long_clip(
    clips: list[SpeechRecording],
) -> None:
    _, *cues = parse_srt(write_reference(join(clips), [SHORT, LONG]))
    assert len(cues) == 2
    assert " ".join(line for cue in cues for line in cue.lines) == LONG
    assert cues[0].lines[-1].endswith("hold it,")


def test_find_pauses_has_the_silence_of_clips(clips: list[SpeechRecording]) -> None:
    (pause,) = find_pauses(join(clips))
    assert pause.start_s == 1.5
    assert pause.end_s == 3.5


def test_find_programs_needs_every_recording(
    clips: list[SpeechRecording], tmp_path: Path
) -> None:
    """Programs that lack a recording are left out; the reference is no program."""
    joined = [join(clips)]
    folder = tmp_path / "out"
    write_subtitle_audio(folder, clips, joined)
    for name, file in (("peer", "ab.srt"), ("partial", "other.srt")):
        (folder / name).mkdir()
        (folder / name / file).write_text("1\n00:00:00,000 --> 00:00:01,000\na\n\n")
    assert list(find_programs(folder, joined)) == ["peer"]
    assert (folder / REFERENCES / "ab.srt").is_file()
    program = tmp_path / "suber"
    program.write_text("#!/bin/sh\necho '{\"SubER\": 25.5}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert mean_suber(program, folder, "peer", joined) == 25.5
