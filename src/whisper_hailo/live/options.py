"""Settings of live captions, validated once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from whisper_hailo.audio.vad import SPEECH_THRESHOLD, frames_to_seconds
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_valid

_MAX_SEGMENT_S: Final = 18.0
"""Fits a 20 s window with its margin; a sentence that is half a minute late is of no use."""

_MAX_S: Final = 30.0
"""Of all other times."""


def _seconds_flag(default: Any, help: str, name: str, **details: Any) -> Any:  # noqa: A002, ANN401
    return flag(default, help, "Segments", name=name, metavar="S", **details)


@dataclass(frozen=True, slots=True)
class CaptionOptions:
    """When segments begin and end, and how often they are transcribed.

    The defaults give the fewest wrong words on real speech (docs/accuracy.md). The study that this
    project starts from ended segments after 0.1 s of silence or 9 s of speech.

    Attributes:
        max_segment_s: longer segments are cut between words; `None` is 18 s, or what the recogniser
            takes where that is less.
        hold_back_s: a partial ends where the decoder attends to the last seconds of the audio, as
            many as this: there it guesses at words that are not said yet.

    Raises:
        OptionError: a value is out of range.
    """

    vad_threshold: float = flag(
        SPEECH_THRESHOLD, "Speech probability threshold.", "Segments"
    )
    min_silence_s: float = _seconds_flag(
        0.5, "Silence that ends a segment.", "--min-silence"
    )
    min_speech_s: float = _seconds_flag(
        0.1, "Ignore speech shorter than this.", "--min-speech", rare=True
    )
    pre_roll_s: float = _seconds_flag(
        0.4, "Audio kept before speech.", "--pre-roll", rare=True
    )
    min_partial_s: float = _seconds_flag(
        0.5, "New audio per partial; 0: no partials.", "--min-partial"
    )
    max_segment_s: float | None = _seconds_flag(
        None,
        "Cut segments longer than this.",
        "--max-segment",
        shown="18, or less where the window is shorter",
        rare=True,
    )
    settle_s: float = _seconds_flag(
        1.5,
        "Commit a word when hypotheses this far apart agree.",
        "--settle",
        rare=True,
    )
    hold_back_s: float = _seconds_flag(
        0.2,
        "End a partial where it only guesses at the last S seconds.",
        "--hold-back",
        rare=True,
    )
    drafts: bool = flag(
        True,
        "Verify the previous text instead of decoding again.",
        "Segments",
        rare=True,
    )

    def __post_init__(self) -> None:
        fits = 0.0 < self.vad_threshold <= 1.0
        require_valid(self, "vad_threshold", fits, "more than 0, at most 1")
        frame_s = frames_to_seconds(1)
        fits = frame_s <= self.min_silence_s <= _MAX_S
        require_valid(self, "min_silence_s", fits, f"{frame_s:g} to {_MAX_S:g} s")
        for name in (
            "min_speech_s",
            "pre_roll_s",
            "min_partial_s",
            "settle_s",
            "hold_back_s",
        ):
            fits = 0.0 <= getattr(self, name) <= _MAX_S
            require_valid(self, name, fits, f"0 to {_MAX_S:g} s")
        fits = self.max_segment_s is None or 1.0 <= self.max_segment_s < math.inf
        require_valid(self, "max_segment_s", fits, "1 s or more")

    def longest_s(self, content_s: float) -> float:
        """Return the seconds of the longest segment for a recogniser that takes `content_s`.

        Raises:
            OptionError: segments are longer than the recogniser takes.
        """
        if self.max_segment_s is None:
            return min(_MAX_SEGMENT_S, content_s)
        if self.max_segment_s > content_s:
            raise OptionError(
                f"--max-segment is {self.max_segment_s:g} s, but the model's window takes "
                f"{content_s:g} s of audio; use that or less, or a longer --window"
            )
        return self.max_segment_s
