"""Decoding options, validated once, and the presets against repetition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import expect, expect_choices, flag, group, number_or_none
from whisper_hailo.core.languages import AUTO_LANGUAGE, language_code
from whisper_hailo.core.protocols import Padding, SilenceKeys
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.decoding.option_groups import (
    REPETITION,
    TIMES,
    PromptOptions,
    SearchOptions,
    Thresholds,
    TokenLimits,
    WordOptions,
)
from whisper_hailo.text.tokenizer import TASKS

_STRONGEST_CURE: Final = 1000.0
"""Keeps penalised float32 logits finite."""

SILENCE: Final = "silence"
PADDINGS: Final = (SILENCE, "zeros")
"""The encoder output for silence, or zero rows as in the study."""


@dataclass(frozen=True, slots=True)
class Cures:
    """What keeps a decoder trained on 30 s from repeating itself on a short window.

    The definitions follow the study that this project starts from (`docs/decoding.md`).

    Attributes:
        pad_to: padding target in encoder positions; `None` is the model's full context, 0 no
            padding.
        repetition_penalty: p >= 1; logits of ids generated so far are divided by p when positive,
            multiplied by p otherwise.
        eot_boost: t >= 0 in logits; end-of-transcript is taken when the best logit leads it by less
            than t.
    """

    pad_to: int | None = flag(
        None,
        "Padding target in encoder positions; 0: none.",
        REPETITION,
        shown="preset's",
        settings_only=True,
    )
    pad_with: str = flag(
        SILENCE,
        "What padding holds; zeros only reproduce the study",
        REPETITION,
        choices=PADDINGS,
        shown="preset's",
        settings_only=True,
    )
    repetition_penalty: float = flag(
        1.0,
        "Penalty on repeated tokens; 1 is off.",
        REPETITION,
        shown="preset's",
        settings_only=True,
    )
    eot_boost: float = flag(
        0.0,
        "Logits by which end of text is preferred; 0 is off.",
        REPETITION,
        shown="preset's",
        settings_only=True,
    )

    def __post_init__(self) -> None:
        fits = self.pad_to is None or self.pad_to >= 0
        expect(self, "pad_to", fits, "0 (none) or a number of encoder positions")
        expect_choices(self)
        most = f"{_STRONGEST_CURE:g}"
        fits = 1.0 <= self.repetition_penalty <= _STRONGEST_CURE
        expect(self, "repetition_penalty", fits, f"1 (off) to {most}")
        expect(self, "eot_boost", 0.0 <= self.eot_boost <= _STRONGEST_CURE, f"0 (off) to {most}")

    def padding(self, dims: Dimensions, silence: SilenceKeys | None = None) -> Padding:
        """Return the padding for a model.

        Args:
            dims: the model's sizes.
            silence: its silence keys; `None`, or `pad_with` zeros, pads with zero rows.

        Raises:
            OptionError: the target is longer than the context the decoder was trained on.
        """
        target = dims.n_audio_ctx if self.pad_to is None else self.pad_to
        if target > dims.n_audio_ctx:
            raise OptionError(
                f"pad-to is {target}, the model was trained on {dims.n_audio_ctx} positions; "
                "use that or less"
            )
        return Padding(target, silence if self.pad_with == SILENCE else None)


PRESETS: Final[dict[str, Cures]] = {
    "conservative": Cures(),
    "balanced": Cures(pad_to=700, repetition_penalty=1.1, eot_boost=0.2),
    "aggressive": Cures(pad_to=500, repetition_penalty=1.2, eot_boost=0.5),
}
"""The study's presets; the default, conservative, only pads to the full context."""


FIXED_CURES: Final = Cures(repetition_penalty=1.5)
"""Default for decoders of a fixed number of positions, which cannot be padded: the penalty that the
study used on its chip."""


def preset(name: str) -> Cures:
    """Return the preset of a name."""
    try:
        return PRESETS[name]
    except KeyError:
        raise OptionError(
            f"unknown preset {name!r}; expected one of: {', '.join(PRESETS)}"
        ) from None


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """Options of the decoder.

    Attributes:
        language: code or name (stored as its code), or `auto`: detected in the first window.
        timestamps: let the model write times between segments. Without, words are aligned and
            sentences are segments.
        words: word timestamps; `None` leaves them out.
    """

    language: str = flag(AUTO_LANGUAGE, "Language name or code.", short="-l", metavar="LANG")
    task: str = flag("transcribe", "", choices=TASKS)
    cures: Cures = flag(
        PRESETS["conservative"],
        "Defaults of padding, penalty and EOT boost",
        REPETITION,
        name="--preset",
        shown="conservative",
        choices=tuple(PRESETS),
        parse=preset,
    )
    max_new_tokens: int | None = flag(
        None, "Token limit per window.", REPETITION, shown="half the context", settings_only=True
    )
    timestamps: bool = flag(False, "Let the model write times; on where it can.")
    max_initial_timestamp_s: float | None = flag(
        1.0,
        "Latest start of a window's first segment; none is any.",
        TIMES,
        name="--max-initial-timestamp",
        metavar="S",
        parse=number_or_none,
        settings_only=True,
    )
    detect_each_window: bool = flag(False, "Detect the language of every window.", "Language")
    search: SearchOptions = group(SearchOptions)
    thresholds: Thresholds = group(Thresholds)
    limits: TokenLimits = group(TokenLimits)
    prompts: PromptOptions = group(PromptOptions)
    words: WordOptions | None = flag(None, "Write word timestamps.", name="--word-timestamps")

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        expect_choices(self)
        budget, latest_s = self.max_new_tokens, self.max_initial_timestamp_s
        expect(self, "max_new_tokens", budget is None or budget >= 1, "1 or more")
        fits = latest_s is None or (math.isfinite(latest_s) and latest_s >= 0)
        expect(self, "max_initial_timestamp_s", fits, "seconds, 0 or more")
        if self.detect_each_window and self.language != AUTO_LANGUAGE:
            raise OptionError("--detect-each-window needs --language auto; give both")

    def budget(self, dims: Dimensions, n_prefix: int, content_s: float | None = None) -> int:
        """Return the new tokens allowed after `n_prefix` tokens in `content_s` of audio."""
        wanted = self.max_new_tokens or dims.n_text_ctx // 2
        if self.limits.max_per_second is not None and content_s is not None:
            wanted = min(wanted, max(1, math.ceil(self.limits.max_per_second * content_s)))
        return min(wanted, dims.n_text_ctx - n_prefix)
