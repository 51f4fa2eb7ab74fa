"""Settings of live captions, validated once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from whisper_hailo.audio.vad import FRAME_SAMPLES
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_valid
from whisper_hailo.core.types import SAMPLE_RATE_HZ

_FRAME_S: Final = FRAME_SAMPLES / SAMPLE_RATE_HZ
_MAX_SEGMENT_S: Final = 18.0
"""What a 20 s window holds with its margin; half a minute late a sentence is of no use."""

PolicyName: TypeAlias = Literal["agreement", "alignatt"]

SETTLE_S: Final[dict[PolicyName, float]] = {"agreement": 2.0, "alignatt": 1.0}
"""Commit policies, with the `settle_s` of each where none is given."""

_LONGEST_S: Final = 30.0
_SEGMENTS: Final = "Segments"
_SETTING: Final[dict[str, Any]] = {"metavar": "S", "rare": True}
"""A rare time in seconds."""

_CHANGEABLE: Final = (
    "vad_threshold", "min_silence_s", "min_partial_s", "settle_s", "hold_back_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CaptionOptions:
    """When segments begin and end, and how often they are transcribed.

    The defaults give the fewest wrong words on real speech (docs/accuracy.md). The study that this
    project starts from ended segments after 0.1 s of silence or 9 s of speech.

    Attributes:
        sentence_silence_s: only counts where it is more than `min_silence_s`.
        max_segment_s: longer segments are cut between words; `None` is 18 s, or what the engine
            takes where that is less.
        settle_s: `None` is that of the policy in `SETTLE_S`.
        hold_back_s: a partial ends where the decoder attends to so many last seconds of audio,
            since it guesses at words that are not said yet.

    Raises:
        OptionError: a value is out of range.
    """

    vad_threshold: float = flag(0.35, "Speech probability threshold.", _SEGMENTS)
    min_silence_s: float = flag(
        0.5, "Silence that ends a segment.", _SEGMENTS, name="--min-silence", metavar="S"
    )
    sentence_silence_s: float = flag(
        0.0,
        "Silence that ends a segment whose text ends no sentence, if more than min-silence.",
        _SEGMENTS,
        name="--sentence-silence",
        **_SETTING,
    )
    min_speech_s: float = flag(
        0.1, "Ignore speech shorter than this.", _SEGMENTS, name="--min-speech", **_SETTING
    )
    pre_roll_s: float = flag(
        0.4, "Audio kept before speech.", _SEGMENTS, name="--pre-roll", **_SETTING
    )
    min_partial_s: float = flag(
        0.5, "New audio per partial; 0: no partials.", _SEGMENTS, name="--min-partial", metavar="S"
    )
    max_segment_s: float | None = flag(
        None,
        "Cut segments longer than this.",
        _SEGMENTS,
        name="--max-segment",
        shown="18, or less where the window is shorter",
        **_SETTING,
    )
    settle_s: float | None = flag(
        None,
        "Commit a word when hypotheses this far apart agree; of alignatt: when it does not rest "
        "on the last S seconds.",
        _SEGMENTS,
        name="--settle",
        shown="2, or 1 with alignatt",
        **_SETTING,
    )
    hold_back_s: float = flag(
        0.2,
        "End a partial where it guesses at the last S seconds.",
        _SEGMENTS,
        name="--hold-back",
        **_SETTING,
    )
    policy: PolicyName = flag(
        "agreement", "What commits a word.", _SEGMENTS, choices=tuple(SETTLE_S), rare=True
    )
    drafts: bool = flag(
        True, "Verify the previous text instead of decoding again.", _SEGMENTS, rare=True
    )
    trim_window: bool | None = flag(
        None,
        "Encode only what of the window is filled.",
        _SEGMENTS,
        shown="where the encoder can",
        rare=True,
    )

    def __post_init__(self) -> None:
        fits = 0.0 < self.vad_threshold <= 1.0
        require_valid(self, "vad_threshold", fits, "more than 0, at most 1")
        for name in (
            "min_silence_s", "sentence_silence_s", "min_speech_s", "pre_roll_s", "min_partial_s",
            "hold_back_s", "settle_s",
        ):  # fmt: skip
            value, least_s = getattr(self, name), _FRAME_S if name == "min_silence_s" else 0.0
            fits = value is None or least_s <= value <= _LONGEST_S
            require_valid(self, name, fits, f"{least_s:g} to {_LONGEST_S:g} s")
        require_valid(self, "policy", self.policy in SETTLE_S, " or ".join(SETTLE_S))
        longest = self.max_segment_s
        fits = longest is None or (math.isfinite(longest) and longest >= 1.0)
        require_valid(self, "max_segment_s", fits, "1 s or more")

    @property
    def policy_settle_s(self) -> float:
        """Return `settle_s`, or the policy's own where none is given."""
        return SETTLE_S[self.policy] if self.settle_s is None else self.settle_s

    @property
    def changeable(self) -> dict[str, float]:
        """Return the options that may be changed while captions run, by name."""
        values = {name: getattr(self, name) for name in _CHANGEABLE}
        return values | {"settle_s": self.policy_settle_s}

    def changed(self, given: dict[str, object]) -> CaptionOptions:
        """Return options with other values, of those that may change while captions run."""
        for name, value in given.items():
            if name not in _CHANGEABLE:
                known = ", ".join(_CHANGEABLE)
                raise OptionError(f"{name!r} cannot be changed; what can: {known}")
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise OptionError(f"{name} is {value!r}, expected a number")
        return replace(self, **given)  # type: ignore[arg-type]  # numbers, see above

    def longest_s(self, content_s: float) -> float:
        """Return the seconds of the longest segment for an engine that takes `content_s`.

        Raises:
            OptionError: segments are longer than the engine takes.
        """
        longest = self.max_segment_s
        if longest is None:
            return min(_MAX_SEGMENT_S, content_s)
        if longest > content_s:
            raise OptionError(
                f"--max-segment is {longest:g} s, the model's window takes {content_s:g} s of "
                "audio; use that or less, or a longer --window"
            )
        return longest
