"""Speech, silence and changes of speaker in windows of 10 s, by pyannote's segmentation 3.0.

The model tells at most three voices in a window apart, two of them at a time, and writes the
probability of each such set of voices, the powerset (Plaquet and Bredin, 2023). Its voices have no
names: voice 1 of a window may be voice 2 of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.speakers.graph import SpeakerGraph

WINDOW_SAMPLES: Final = 10 * SAMPLE_RATE_HZ
N_FRAMES: Final = 589
"""Frames that the model gives for a window."""

FRAME_SAMPLES: Final = 270
FRAME_S: Final = FRAME_SAMPLES / SAMPLE_RATE_HZ

_FIRST_FRAME_START: Final = 360
"""A frame is seen through 991 samples; it stands for the 270 in their middle."""

HOP_FRAMES: Final = 148
"""2.5 s from one window to the next, a whole number of frames, so that frames of overlapping
windows coincide. Of 5 s, the error rate with a collar was 1.9 % instead of 1.1 %."""

HOP_SAMPLES: Final = HOP_FRAMES * FRAME_SAMPLES

N_VOICES: Final = 3
"""Most voices in a window."""

_VOICES_OF_CLASS: Final = np.array(
    [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [1, 1, 0],
        [1, 0, 1],
        [0, 1, 1],
    ],
    dtype=np.float32,
)
"""Which voices speak in each class of the powerset."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowActivity:
    """Who speaks in a window.

    Attributes:
        activity: `(589, 3)` uint8, the probability of each voice in 255ths; one byte, since a
            recording of hours has thousands of windows.
        alone: `(589,)` int8, the voice that most likely speaks alone, or -1 for silence and
            several voices.
    """

    activity: NDArray[np.uint8]
    alone: NDArray[np.int8]

    @classmethod
    def silent(cls) -> WindowActivity:
        """Return the activity of a window without speech."""
        return cls(
            np.zeros((N_FRAMES, N_VOICES), np.uint8), np.full(N_FRAMES, -1, np.int8)
        )


class SegmentationModel(SpeakerGraph):
    """The graph of the segmentation model."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        super().__init__(path, threads, "speaker segmentation")

    def segment(self, audio: FloatArray) -> WindowActivity:
        """Return who speaks in `(n_samples,)` float32 at 16 kHz, at most 10 s.

        Shorter audio is followed by silence. Digital silence needs no model.

        Raises:
            ModelError: the file holds another model.
        """
        if not audio.any():
            return WindowActivity.silent()
        window = np.zeros((1, 1, WINDOW_SAMPLES), np.float32)
        window[0, 0, : audio.size] = audio
        logits = self.run(window)
        if logits.shape != (1, N_FRAMES, len(_VOICES_OF_CLASS)):
            raise ModelError(
                f"{display_path(self.path)} gives {logits.shape} for 10 s, expected "
                f"(1, {N_FRAMES}, 7) of pyannote's segmentation 3.0; {self.advice}"
            )
        return decode_powerset(logits[0])


def decode_powerset(logits: FloatArray) -> WindowActivity:
    """Return the activity of each voice from `(n_frames, 7)` logits or log probabilities."""
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    activity = np.minimum(probabilities @ _VOICES_OF_CLASS, 1.0)
    likeliest = probabilities.argmax(axis=1)
    is_alone = (likeliest >= 1) & (likeliest <= N_VOICES)
    alone = np.where(is_alone, likeliest - 1, -1)
    return WindowActivity(
        np.rint(255 * activity).astype(np.uint8), alone.astype(np.int8)
    )


def frame_start_s(frame: int) -> float:
    """Return the start of a frame of the recording in seconds."""
    return (_FIRST_FRAME_START + frame * FRAME_SAMPLES) / SAMPLE_RATE_HZ


def frames_of_samples(samples: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the frame of a window that stands for each sample of it; the ends are the nearest."""
    frames = (samples - _FIRST_FRAME_START) // FRAME_SAMPLES
    clipped: NDArray[np.int64] = np.clip(frames, 0, N_FRAMES - 1)
    return clipped


def cut_windows(blocks: Iterable[FloatArray]) -> Iterator[tuple[FloatArray, bool]]:
    """Yield overlapping windows of audio that comes in `(n_samples,)` pieces.

    With each comes whether it is the last; that one may be shorter.
    """
    pieces_left = iter(blocks)
    buffer = np.empty(0, np.float32)
    has_more = True
    while has_more:
        pieces = [buffer]
        n_samples = buffer.size
        # One sample more than a window tells that another window follows.
        while n_samples <= WINDOW_SAMPLES and has_more:
            block = next(pieces_left, None)
            if block is None:
                has_more = False
            else:
                pieces.append(block)
                n_samples += block.size
        buffer = np.concatenate(pieces)
        while buffer.size > WINDOW_SAMPLES:
            yield buffer[:WINDOW_SAMPLES], False
            buffer = buffer[HOP_SAMPLES:]
    if buffer.size:
        yield buffer, True
