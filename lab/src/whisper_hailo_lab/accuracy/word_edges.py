"""How far word times are from where clips begin and end in recordings that are joined of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.vad import CERTAIN_THRESHOLD, make_detector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, IntArray
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_lab.tables import Column, Table, make_table

Times: TypeAlias = Sequence[tuple[float, float]]
"""Start and end of each word, in seconds."""

_FRAME: Final = 512
"""Samples that Silero's model takes at once: 32 ms."""


@dataclass(frozen=True, slots=True)
class ClipEdges:
    """Where a clip lies in a joined recording, and the speech in it, in seconds."""

    start_s: float
    end_s: float
    speech_start_s: float
    speech_end_s: float


@dataclass(frozen=True, slots=True)
class EdgeErrors:
    """Errors of the first and the last word of clips.

    Attributes:
        starts: seconds from the start of speech to that of the first word.
        ends: seconds from the end of speech to that of the last word.
        n_words: words of all clips.
        n_across: words that begin in one clip and end in another one.
    """

    starts: tuple[float, ...]
    ends: tuple[float, ...]
    n_words: int
    n_across: int


def find_clip_edges(recording: SpeechRecording) -> list[ClipEdges]:
    """Return the edges of the clips of a joined recording; one without speech is left out."""
    edges = []
    start = 0
    for pause, path in zip((0, *recording.pauses), recording.paths, strict=True):
        start += pause
        audio = load_audio(path)
        speech = _speech_frames(audio)
        if speech.size:
            speech_start = int(speech[0]) * _FRAME
            speech_end = min((int(speech[-1]) + 1) * _FRAME, audio.size)
            edge = ClipEdges(
                start_s=start / SAMPLE_RATE_HZ,
                end_s=(start + audio.size) / SAMPLE_RATE_HZ,
                speech_start_s=(start + speech_start) / SAMPLE_RATE_HZ,
                speech_end_s=(start + speech_end) / SAMPLE_RATE_HZ,
            )
            edges.append(edge)
        start += audio.size
    return edges


def _speech_frames(audio: FloatArray) -> IntArray:
    """Return the indices of frames with speech."""
    detector = make_detector()
    frames = audio[: audio.size // _FRAME * _FRAME].reshape(-1, _FRAME)
    return np.flatnonzero(
        [detector.probability(frame) > CERTAIN_THRESHOLD for frame in frames]
    )


def find_edge_errors(words: Times, edges: Sequence[ClipEdges]) -> EdgeErrors:
    """Compare words with the edges of the clips that they lie in.

    A word lies in the clip that its middle is nearest to. Clips without any word count for nothing.
    """
    clips = [_clip_of((start + end) / 2, edges) for start, end in words]
    starts = []
    ends = []
    for number, edge in enumerate(edges):
        own = [word for word, clip in zip(words, clips, strict=True) if clip == number]
        if own:
            starts.append(own[0][0] - edge.speech_start_s)
            ends.append(own[-1][1] - edge.speech_end_s)
    n_across = sum(
        any(start < edge.end_s and end > edge.end_s + 1e-3 for edge in edges[:-1])
        and _clip_of(start, edges) != _clip_of(end, edges)
        for start, end in words
    )
    return EdgeErrors(
        tuple(starts),
        tuple(ends),
        len(words),
        n_across,
    )


def _clip_of(time_s: float, edges: Sequence[ClipEdges]) -> int:
    """Return the index of the clip that a time is nearest to."""
    distances = [max(edge.start_s - time_s, time_s - edge.end_s, 0.0) for edge in edges]
    return int(np.argmin(distances))


@dataclass(frozen=True, slots=True)
class _Summary:
    """Row of the table; times are absolute errors in seconds."""

    name: str
    clips: int
    start_50_s: float
    start_90_s: float
    end_50_s: float
    end_90_s: float
    n_words: int
    n_across: int


COLUMNS: Final[tuple[Column, ...]] = (
    ("system", "{name}"),
    ("clips", "{clips}"),
    ("first word, median", "{start_50_s:.2f} s"),
    ("90 %", "{start_90_s:.2f} s"),
    ("last word, median", "{end_50_s:.2f} s"),
    ("90 %", "{end_90_s:.2f} s"),
    ("words", "{n_words}"),
    ("across a pause", "{n_across}"),
)


def measure_edges(
    name: str,
    transcribe: Callable[[FloatArray], Times],
    recordings: Iterable[SpeechRecording],
) -> Table:
    """Transcribe joined recordings and return a table of one row.

    Args:
        name: name of the system.
        transcribe: returns the times of the words of `(n_samples,)` float32 audio.
        recordings: joined recordings.
    """
    errors = [
        find_edge_errors(transcribe(recording.load()), find_clip_edges(recording))
        for recording in recordings
    ]
    return make_table([_summarise_errors(name, errors)], COLUMNS)


def _summarise_errors(name: str, errors: Sequence[EdgeErrors]) -> _Summary:
    starts = np.abs([seconds for item in errors for seconds in item.starts])
    ends = np.abs([seconds for item in errors for seconds in item.ends])
    return _Summary(
        name=name,
        clips=starts.size,
        start_50_s=float(np.percentile(starts, 50)),
        start_90_s=float(np.percentile(starts, 90)),
        end_50_s=float(np.percentile(ends, 50)),
        end_90_s=float(np.percentile(ends, 90)),
        n_words=sum(item.n_words for item in errors),
        n_across=sum(item.n_across for item in errors),
    )
