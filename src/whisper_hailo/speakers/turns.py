"""Turns of speakers: what diarisation returns and attribution reads."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class SpeakerTurn:
    """A stretch of speech of one person; times are from the beginning of the input.

    `speaker` counts from 0 in order of appearance.
    """

    start_s: float
    end_s: float
    speaker: int


@dataclass(frozen=True, slots=True, eq=False)
class SpeakerTurns:
    """Who spoke when in one recording.

    Attributes:
        turns: in order of time; turns of two people may overlap.
        prints: `(n_speakers, 192)` float32 of length 1, the voice print of each speaker.
    """

    turns: tuple[SpeakerTurn, ...]
    prints: FloatArray

    @property
    def n_speakers(self) -> int:
        return len(self.prints)
