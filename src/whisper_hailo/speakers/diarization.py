"""From audio to turns: windows, pieces, prints, clusters, turns.

Memory holds a window of audio; of the whole recording only who is heard in each window (a byte per
voice and 17 ms) and a print per 2 s of speech, about 1 MiB per quarter of an hour.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo.speakers.clustering import cluster_prints
from whisper_hailo.speakers.embeddings import PRINT_SIZE, VoicePrintModel, normalize
from whisper_hailo.speakers.filter_banks import FRAME_SAMPLES as BANK_SAMPLES
from whisper_hailo.speakers.filter_banks import HOP_SAMPLES as BANK_HOP_SAMPLES
from whisper_hailo.speakers.filter_banks import log_filter_banks
from whisper_hailo.speakers.models import SpeakerModelFiles
from whisper_hailo.speakers.options import SpeakerCount
from whisper_hailo.speakers.pieces import Piece, cut_pieces, middle_frames
from whisper_hailo.speakers.segmentation import (
    FRAME_SAMPLES,
    WINDOW_SAMPLES,
    SegmentationModel,
    WindowActivity,
    cut_windows,
    frames_of_samples,
)
from whisper_hailo.speakers.timeline import activity_of_speakers, turns_of_activity
from whisper_hailo.speakers.turns import SpeakerTurns

logger = logging.getLogger(__name__)

_FRAME_REACH: Final = 991
"""Samples through which the segmentation sees a frame."""

_CLUSTERED_S: Final = 0.6
"""Shorter pieces have prints too noisy to find people with; they are given to one afterwards."""

_VOICE_MARGIN: Final = 0.15
"""A piece goes to another person than the rest of its voice only if it is so much more alike."""

_SHORT_MARGIN: Final = 0.3
"""Added to the margin for each second that a piece has less than one."""

_REFERENCE_SAMPLES: Final = WINDOW_SAMPLES
"""Used of a sample of a known person: one window."""


class Segmentation(Closing, Protocol):
    """What tells the voices of a window apart."""

    def segment(self, audio: FloatArray) -> WindowActivity:
        """Return who speaks in `(n_samples,)` float32 at 16 kHz, at most 10 s."""


class VoicePrints(Closing, Protocol):
    """What makes prints of voices."""

    def voice_print(self, banks: FloatArray) -> FloatArray:
        """Return the print `(192,)` of log filter banks `(n_frames, 80)`."""


class SpeakerDiarizer(Closing):
    """The two speaker models; `open` loads them."""

    def __init__(self, segmentation: Segmentation, voice_prints: VoicePrints) -> None:
        self._segmentation = segmentation
        self._voice_prints = voice_prints
        self._opened = ExitStack()

    @classmethod
    def from_files(cls, files: SpeakerModelFiles, threads: int = 0) -> Self:
        """Return the diarizer of two model files; 0 threads let the runtime choose."""
        return cls(
            SegmentationModel(files.segmentation, threads),
            VoicePrintModel(files.embedding, threads),
        )

    def open(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self._segmentation)
            opened.enter_context(self._voice_prints)
            self._opened = opened.pop_all()
        return self

    def close(self) -> None:
        self._opened.close()

    def diarize(
        self, blocks: Iterable[FloatArray], count: SpeakerCount | None = None
    ) -> SpeakerTurns:
        """Return who spoke when.

        Args:
            blocks: `(n_samples,)` float32 pieces of any size at 16 kHz mono, in order.
            count: bounds of the number of speakers; `None` finds it.
        """
        activities: list[WindowActivity] = []
        pieces: list[Piece] = []
        prints: list[FloatArray] = []
        for window, is_last in cut_windows(blocks):
            index = len(activities)
            activity = self._segmentation.segment(window)
            activities.append(activity)
            begin, end = middle_frames(is_first=index == 0, is_last=is_last)
            for piece, voice_print in self._print_pieces(
                window, activity, index, begin, end
            ):
                pieces.append(piece)
                prints.append(voice_print)
        table = np.array(prints, np.float32).reshape(-1, PRINT_SIZE)
        return find_turns(activities, pieces, table, count or SpeakerCount())

    def reference_print(self, audio: FloatArray) -> FloatArray:
        """Return the voice print `(192,)` of a sample of one person, `(n_samples,)` at 16 kHz."""
        window = audio[:_REFERENCE_SAMPLES]
        activity = self._segmentation.segment(window)
        begin, end = middle_frames(is_first=True, is_last=True)
        printed = self._print_pieces(window, activity, 0, begin, end)
        weighted = [voice_print * piece.seconds for piece, voice_print in printed]
        total = (
            np.sum(weighted, axis=0) if weighted else np.zeros(PRINT_SIZE, np.float32)
        )
        return normalize(total.astype(np.float32))

    def _print_pieces(
        self,
        window: FloatArray,
        activity: WindowActivity,
        index: int,
        begin: int,
        end: int,
    ) -> list[tuple[Piece, FloatArray]]:
        """Return the pieces of some frames of a window, with their prints."""
        pieces = cut_pieces(activity, index, begin, end)
        if not pieces:
            return []
        # Only the part of the window that the pieces lie in is transformed.
        first_sample = begin * FRAME_SAMPLES
        part = window[first_sample : end * FRAME_SAMPLES + _FRAME_REACH]
        banks = log_filter_banks(part)
        middles = np.arange(len(banks)) * BANK_HOP_SAMPLES + BANK_SAMPLES // 2
        frames = frames_of_samples(middles + first_sample)
        printed: list[tuple[Piece, FloatArray]] = []
        for piece in pieces:
            chosen = banks[np.isin(frames, piece.window_frames)]
            if len(chosen):
                printed.append((piece, self._voice_prints.voice_print(chosen)))
        return printed


def find_turns(
    activities: Sequence[WindowActivity],
    pieces: Sequence[Piece],
    prints: FloatArray,
    count: SpeakerCount,
) -> SpeakerTurns:
    """Return the turns of the people that the prints `(n_pieces, 192)` are grouped into."""
    seconds = np.array([piece.seconds for piece in pieces])
    windows = np.array([piece.window for piece in pieces], np.int64)
    voices = np.array([piece.voice for piece in pieces], np.int64)
    is_long = seconds >= _CLUSTERED_S
    if not is_long.any():
        is_long[:] = True
    centroids = cluster_prints(
        prints[is_long], seconds[is_long], windows[is_long], voices[is_long], count
    )
    labels = label_pieces(prints, seconds, windows, voices, centroids)
    active = activity_of_speakers(activities, pieces, labels, len(centroids))
    turns, order = turns_of_activity(active)
    logger.debug("%d speaker(s) in %d pieces of speech", len(order), len(pieces))
    return SpeakerTurns(turns, centroids[order])


def label_pieces(
    prints: FloatArray,
    seconds: NDArray[np.float64],
    windows: NDArray[np.int64],
    voices: NDArray[np.int64],
    centroids: FloatArray,
) -> NDArray[np.int64]:
    """Return the person `(n_pieces,)` of each piece.

    That is the most similar one, or the one of the whole voice of its window, unless the piece is
    much more like another: a voice is mostly one person, and a short piece says little.
    """
    if not len(prints):
        return np.empty(0, np.int64)
    similarities = prints @ centroids.T
    labels: NDArray[np.int64] = similarities.argmax(axis=1)
    margins = _VOICE_MARGIN + _SHORT_MARGIN * np.maximum(0.0, 1.0 - seconds)
    _, groups = np.unique(np.stack([windows, voices]), axis=1, return_inverse=True)
    groups = groups.reshape(-1)
    for group in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == group)
        whole = (seconds[members] @ prints[members]).astype(np.float32)
        person = int((normalize(whole) @ centroids.T).argmax())
        best = similarities[members, labels[members]]
        is_close = best - similarities[members, person] < margins[members]
        labels[members[is_close]] = person
    return labels
