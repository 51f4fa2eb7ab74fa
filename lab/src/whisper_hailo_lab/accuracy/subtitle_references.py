"""Reference subtitles of joined recordings: texts and times of their clips, and SubER against them.

Nobody has set subtitles of these recordings, so a simple rule does: a clip is a cue, or several as
long as each other if it is too long for one, cut where punctuation or a space is nearest; lines are
cut at the space nearest to their middle. Whoever sets cues by clips and pauses comes close.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.text.cue_layout import MAX_CUE_S, MAX_LINES, CueLimits, find_limits
from whisper_hailo.text.subtitles import Cue, format_srt
from whisper_hailo_lab.accuracy.subtitles import Pause
from whisper_hailo_lab.data.speech import SpeechRecording

_PUNCTUATION: Final = re.compile(r"(?<=[.,;:?!…。，、？！]) ?")  # noqa: RUF001 - full-width
_SPACE: Final = re.compile(r" ")
_ANYWHERE: Final = re.compile(r"(?<=.)")

_FRAME_SAMPLES: Final = 320

_QUIET: Final = 0.1
"""Of a clip's loudest frame, in amplitude: below that nobody speaks."""

_REACH: Final = 0.5
"""A cut is moved to punctuation this near, as a share of the part's length."""


def write_reference(recording: SpeechRecording, texts: Sequence[str]) -> str:
    """Return SubRip of a joined recording whose clips have these texts."""
    limits = find_limits("".join(texts))
    cues = []
    start_s = 0.0
    pauses_s = [pause / SAMPLE_RATE_HZ for pause in recording.pauses]
    for path, text, pause_s in zip(
        recording.paths, texts, [*pauses_s, 0.0], strict=True
    ):
        end_s = start_s + len(load_audio(path)) / SAMPLE_RATE_HZ
        cues += _cut_clip(text, start_s, end_s, limits)
        start_s = end_s + pause_s
    return "".join(format_srt(cue, number) for number, cue in enumerate(cues, 1))


def find_pauses(recording: SpeechRecording) -> list[Pause]:
    """Return the pauses between the clips of a joined recording, with the silence within clips."""
    spans: list[tuple[float, float]] = []
    clip_s = 0.0
    for path, n_samples in zip(recording.paths, [*recording.pauses, 0], strict=True):
        audio = load_audio(path)
        start_s, end_s = _find_loud(audio)
        spans.append((clip_s + start_s, clip_s + end_s))
        clip_s += (len(audio) + n_samples) / SAMPLE_RATE_HZ
    return [Pause(end_s, start_s) for (_, end_s), (start_s, _) in pairwise(spans)]


def _find_loud(audio: FloatArray) -> tuple[float, float]:
    """Return where a clip `(n_samples,)` is loud for the first and the last time, in seconds."""
    n_frames = len(audio) // _FRAME_SAMPLES
    frames = audio[: n_frames * _FRAME_SAMPLES].reshape(n_frames, _FRAME_SAMPLES)
    loudness = np.sqrt(np.mean(np.square(frames), axis=1))
    loud = np.flatnonzero(loudness > _QUIET * loudness.max())
    frame_s = _FRAME_SAMPLES / SAMPLE_RATE_HZ
    return float(loud[0]) * frame_s, float(loud[-1] + 1) * frame_s


def _cut_clip(text: str, start_s: float, end_s: float, limits: CueLimits) -> list[Cue]:
    by_width = ceil(limits.width(text) / (limits.line_width * MAX_LINES))
    by_time = ceil((end_s - start_s) / MAX_CUE_S)
    # One character of time for each of text.
    step_s = (end_s - start_s) / len(text)
    cues = []
    position = 0
    for part in _cut(text, max(by_width, by_time)):
        cue_start_s = start_s + step_s * position
        position += len(part)
        lines = part.strip()
        if limits.width(lines) > limits.line_width:
            lines = "\n".join(line.strip() for line in _cut(lines, MAX_LINES))
        cues.append(Cue(cue_start_s, start_s + step_s * position, lines))
    return cues


def _cut(text: str, n_parts: int) -> list[str]:
    """Return parts of a text that are about as long as each other."""
    if n_parts == 1:
        return [text]
    length = len(text) / n_parts
    cut = _find_cut(text, length)
    return [text[:cut], *_cut(text[cut:], n_parts - 1)]


def _find_cut(text: str, wanted: float) -> int:
    """Return where to cut a text that should be cut at an index."""
    for pattern, reach in ((_PUNCTUATION, _REACH), (_SPACE, 1.0), (_ANYWHERE, 1.0)):
        places = [match.end() for match in pattern.finditer(text)]
        near = [place for place in places if abs(place - wanted) <= reach * wanted / 2]
        if near:
            return min(near, key=lambda place: abs(place - wanted))
    return round(wanted)


def measure_suber(program: Path, hypothesis: Path, reference: Path) -> float:
    """Return the edit rate of subtitles in percent, by the package `subtitle-edit-rate`.

    Args:
        program: its command `suber`.
        hypothesis: a SubRip file.
        reference: that of the same recording.
    """
    words = [str(program), "-H", str(hypothesis), "-R", str(reference)]
    if "_zh_" in hypothesis.name:
        words += ["-l", "zh"]
    result = subprocess.run(words, check=True, capture_output=True, text=True)
    rate: float = json.loads(result.stdout)["SubER"]
    return rate
