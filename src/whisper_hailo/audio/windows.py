"""Encoder windows: their sizes, and the audio of one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import (
    FRAMES_PER_POSITION,
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    FloatArray,
)

DEFAULT_WINDOW_S: Final = 20.0
"""As few errors as 30 s in less time (docs/accuracy.md)."""

DEFAULT_MARGIN_S: Final = 1.0
"""With less silence after speech the decoder runs on (docs/accuracy.md)."""

TRIM_MARGIN_S: Final = 2.0
"""Silence after the audio of a trimmed window (docs/accuracy.md)."""


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How much audio each window takes and how much of it stays free.

    Speech cut at the edge of a short window makes the decoder run on, so its last second is silent.
    A full 30 s window takes all of its audio, as Whisper was trained.

    Attributes:
        window_s: encoder input in seconds, a whole number of encoder positions.
        margin_s: seconds kept free at the end.
        trim_window: cut a window two seconds after its audio; silence keys stand for the rest.
    """

    window_s: float
    margin_s: float
    trim_window: bool = False

    @classmethod
    def make(
        cls,
        dims: Dimensions,
        window_s: float | None = None,
        margin_s: float | None = None,
    ) -> WindowPlan:
        """Fill in the defaults and check them against the model.

        A window is 20 s, or the model's context when shorter; its margin is 1 s, or none for the
        full context.
        """
        longest_s = dims.max_window_s
        if window_s is None:
            window_s = min(DEFAULT_WINDOW_S, longest_s)
        step_s = FRAMES_PER_POSITION / FRAMES_PER_SECOND
        if not step_s <= window_s <= longest_s or not _is_whole(window_s / step_s):
            raise OptionError(
                f"--window is {window_s:g} s, this model takes {step_s:g} s to {longest_s:g} s in "
                f"steps of {step_s:g} s"
            )
        if margin_s is None:
            is_short = window_s < longest_s
            margin_s = min(DEFAULT_MARGIN_S, window_s / 2) if is_short else 0.0
        if not 0 <= margin_s < window_s:
            raise OptionError(
                f"--margin-s is {margin_s:g} s, expected 0 or more and less than the "
                f"{window_s:g} s window"
            )
        return cls(window_s=float(window_s), margin_s=float(margin_s))

    @property
    def window_samples(self) -> int:
        """The samples of an encoder window."""
        return round(self.window_s * SAMPLE_RATE_HZ)

    @property
    def content_samples(self) -> int:
        """The samples of audio per window, at least one."""
        return max(1, round((self.window_s - self.margin_s) * SAMPLE_RATE_HZ))

    def samples_for(self, n_samples: int) -> int:
        """Return the size of a window that holds `n_samples` of audio.

        Trimmed windows have whole seconds, so that the runtime sees few shapes.
        """
        if not self.trim_window:
            return self.window_samples
        margin_s = max(self.margin_s, TRIM_MARGIN_S)
        seconds = math.ceil(n_samples / SAMPLE_RATE_HZ + margin_s)
        return min(self.window_samples, max(1, seconds) * SAMPLE_RATE_HZ)


def _is_whole(number: float) -> bool:
    """Return whether a quotient is a whole number; 0.02 s is no binary fraction."""
    return abs(number - round(number)) <= 1e-6


@dataclass(frozen=True, slots=True)
class PackedPiece:
    """A stretch of the recording, from `start_s` on, at `at_s` within a packed window."""

    at_s: float
    start_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Window:
    """One window's audio, at most the plan's content.

    Attributes:
        start_s: start in the recording, in seconds.
        pieces: of a window packed from several stretches; else empty.
        needs_words: joining this window to its neighbours needs word times.
        is_sought: the next window starts where this one's last whole segment ends.
    """

    audio: FloatArray  # (n_samples,) float32 16 kHz mono
    start_s: float
    pieces: tuple[PackedPiece, ...] = ()
    needs_words: bool = False
    is_sought: bool = False

    @property
    def content_s(self) -> float:
        """The length of the audio in seconds."""
        return self.audio.size / SAMPLE_RATE_HZ

    @property
    def end_s(self) -> float:
        """The end in the recording, in seconds."""
        return self.locate(self.content_s)

    def locate(self, at_s: float, *, is_start: bool = False) -> float:
        """Convert a time in the window to the recording's, in seconds.

        Where two pieces meet, `is_start` selects the start of the later one, else the end of the
        earlier one.
        """
        if not self.pieces:
            return self.start_s + at_s
        piece = self.pieces[0]
        for other in self.pieces:
            if other.at_s < at_s or (is_start and other.at_s == at_s):
                piece = other
        return piece.start_s + min(at_s - piece.at_s, piece.duration_s)
