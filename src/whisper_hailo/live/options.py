"""Settings of live captions, validated once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from whisper_hailo.audio.vad import FRAME_SAMPLES
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ

_FRAME_S: Final = FRAME_SAMPLES / SAMPLE_RATE_HZ
_LONGEST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class CaptionOptions:
    """When segments begin and end, and how often their text is looked at.

    The defaults are the ones of the study that this project starts from, but for `settle_s`,
    `hold_back_s` and `min_speech_s`, which it did not have.

    Attributes:
        vad_threshold: probability from which a frame is speech.
        min_silence_s: silence that ends a segment.
        min_speech_s: sound shorter than this is a click and starts no segment.
        pre_roll_s: audio before the first speech that belongs to a segment.
        min_partial_s: new audio after which a partial is due; 0 makes none.
        max_segment_s: longer segments are cut between words; `None` is what the engine takes.
        settle_s: a word is committed when hypotheses at least this far apart agree on it.
        hold_back_s: a partial ends where the decoder looks at the last so many seconds of audio;
            what it says there is a guess at words that are not said yet.
        drafts: verify the text before instead of decoding it again.
        snug: encode only as much of the window as the audio fills, where the encoder can.

    Raises:
        OptionError: a value out of range.
    """

    vad_threshold: float = 0.5
    min_silence_s: float = 0.1
    min_speech_s: float = 0.1
    pre_roll_s: float = 0.1
    min_partial_s: float = 0.2
    max_segment_s: float | None = None
    settle_s: float = 1.0
    hold_back_s: float = 0.2
    drafts: bool = True
    snug: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.vad_threshold <= 1.0:
            raise OptionError(
                f"--vad-threshold is {self.vad_threshold}, expected more than 0, at most 1"
            )
        for option, value, least in (
            ("--min-silence", self.min_silence_s, _FRAME_S),
            ("--min-speech", self.min_speech_s, 0.0),
            ("--pre-roll", self.pre_roll_s, 0.0),
            ("--min-partial", self.min_partial_s, 0.0),
            ("--settle", self.settle_s, 0.0),
            ("--hold-back", self.hold_back_s, 0.0),
        ):
            if not (math.isfinite(value) and least <= value <= _LONGEST_S):
                raise OptionError(f"{option} is {value} s, expected {least:g} to {_LONGEST_S:g} s")
        longest = self.max_segment_s
        if longest is not None and not (math.isfinite(longest) and longest >= 1.0):
            raise OptionError(f"--max-segment is {longest} s, expected 1 s or more")

    def longest_s(self, content_s: float) -> float:
        """Seconds of the longest segment, for an engine that hears `content_s` at once.

        Raises:
            OptionError: longer than the engine can hear.
        """
        longest = content_s if self.max_segment_s is None else self.max_segment_s
        if longest > content_s:
            raise OptionError(
                f"--max-segment is {longest:g} s, the model's window takes {content_s:g} s of "
                "audio; use that or less, or a longer --window"
            )
        return longest
