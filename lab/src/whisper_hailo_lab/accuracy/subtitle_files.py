"""Subtitles of the joined recordings in a folder: ours, references, and other programs'.

The folder has the recordings in `audio`, references in `references`, and a folder for each program.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import soundfile

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.text.formats import render
from whisper_hailo.text.subtitles import SEGMENTS, Layout
from whisper_hailo_lab.accuracy.setups import make_setups, open_transcriber
from whisper_hailo_lab.accuracy.subtitle_references import (
    measure_suber,
    write_reference,
)
from whisper_hailo_lab.data.speech import SpeechRecording

AUDIO: Final = "audio"
REFERENCES: Final = "references"

OWN_LAYOUTS: Final = {
    "whisper-hailo": Layout(),
    "whisper-hailo-42x2": Layout(max_line_width=42, max_line_count=2),
    "whisper-hailo-segments": Layout(cues=SEGMENTS),
}
"""Ours by the names of their folders."""


def write_subtitle_audio(
    folder: Path,
    recordings: Sequence[SpeechRecording],
    joined: Sequence[SpeechRecording],
) -> None:
    """Write the joined recordings and their references; `recordings` have the clips' texts."""
    texts = {recording.paths: recording.text for recording in recordings}
    for name in (AUDIO, REFERENCES):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for recording in joined:
        path = folder / AUDIO / f"{recording.id}.wav"
        if not path.exists():
            soundfile.write(path, recording.load(), SAMPLE_RATE_HZ, subtype="PCM_16")
        clip_texts = [texts[(clip,)] for clip in recording.paths]
        _write(folder, REFERENCES, recording, write_reference(recording, clip_texts))


def write_own_subtitles(
    folder: Path, model: str, threads: int, joined: Sequence[SpeechRecording]
) -> None:
    """Transcribe the joined recordings; write them in each layout."""
    (setup,) = make_setups([model], ["int8"], ["default"], ["on"], ["detected"])
    with open_transcriber(setup, threads) as (transcriber, _):
        for recording in joined:
            transcript = transcriber.transcribe(recording.load(), word_timestamps=True)
            for name, layout in OWN_LAYOUTS.items():
                _write(folder, name, recording, render(transcript, "srt", layout))


def _write(folder: Path, name: str, recording: SpeechRecording, text: str) -> None:
    path = folder / name / f"{recording.id}.srt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def find_programs(
    folder: Path, joined: Sequence[SpeechRecording]
) -> dict[str, list[str]]:
    """Return the subtitles of each program that has written them of all recordings, ours first."""
    others = sorted(path.name for path in folder.iterdir() if path.is_dir())
    names = dict.fromkeys([*OWN_LAYOUTS, *others])
    programs = {}
    for name in names:
        paths = [folder / name / f"{recording.id}.srt" for recording in joined]
        if name != REFERENCES and all(path.is_file() for path in paths):
            programs[name] = [path.read_text(encoding="utf-8") for path in paths]
    return programs


def mean_suber(
    program: Path, folder: Path, name: str, joined: Sequence[SpeechRecording]
) -> float:
    """Return the mean edit rate of a program's subtitles over all recordings, in percent."""
    rates = [
        measure_suber(
            program,
            folder / name / f"{recording.id}.srt",
            folder / REFERENCES / f"{recording.id}.srt",
        )
        for recording in joined
    ]
    return sum(rates) / len(rates)
