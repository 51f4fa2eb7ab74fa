"""Decoding options, validated once, and the presets against repetition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import (
    flag,
    number_or_none,
    option_group,
    require_choices,
    require_valid,
)
from whisper_hailo.core.languages import AUTO_LANGUAGE, language_codes
from whisper_hailo.core.protocols import Padding, SilenceKeys
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.text.tokenizer import TASKS

setting: Final = partial(flag, rare=True)
"""A rare option: only `--help-all` lists it."""

FALLBACK_STEP: Final = 0.4
"""Temperature increment of each retry; OpenAI Whisper's is half of it."""

DEFAULT_TEMPERATURES: Final = (0.0, FALLBACK_STEP, 2 * FALLBACK_STEP)

HOTTEST: Final = 1.0

_MOST_HYPOTHESES: Final = 64
"""Each is a row of the decoder's batch."""

SEARCH: Final = "Search and fallback"
DOUBT: Final = "Doubtful text"
REPETITION: Final = "Repetition and made-up text"
PROMPTS: Final = "Prompts"
TIMES: Final = "Times"
"""Topics of help."""


def rising_temperatures(first: float, step: float) -> tuple[float, ...]:
    """Return `first` and temperatures above it by `step` up to 1; a step of 0 gives one."""
    # What is no temperature is refused by its name.
    if not step or not 0.0 <= first <= HOTTEST:
        return (first,)
    n_steps = int((HOTTEST - first) / step + 1e-6)  # 0.6 / 0.2 is 2.9999999999999996
    return (first, *(round(first + n * step, 3) for n in range(1, n_steps + 1)))


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How tokens are chosen and how often doubtful text is retried.

    Temperatures are tried in order until the text passes the thresholds; 0 is no sampling.
    """

    temperatures: tuple[float, ...] = (0.0,)
    beam_size: int = flag(1, "Hypotheses kept; 1 is greedy.", metavar="N")
    retry_beam_size: int = setting(
        4, "Hypotheses where greedy text is unsure; 1 is off.", SEARCH, metavar="N"
    )
    patience: float = setting(
        1.0, "Beam search patience; above 1 it searches longer.", SEARCH
    )
    length_penalty: float | None = setting(
        None,
        "Length penalty of hypotheses, 0 to 1.",
        SEARCH,
        shown="mean log probability",
    )
    best_of: int = flag(5, "Samples per window.", SEARCH)
    seed: int = setting(0, "Seed for sampling.", SEARCH)

    def __post_init__(self) -> None:
        if not self.temperatures:
            raise OptionError("--temperature is empty, expected numbers from 0 to 2")
        wrong = [f"{t:g}" for t in self.temperatures if not 0.0 <= t <= 2.0]
        if wrong:
            raise OptionError(
                f"--temperature is {', '.join(wrong)}, expected numbers from 0 to 2"
            )
        for name in ("beam_size", "retry_beam_size", "best_of"):
            is_count = 1 <= getattr(self, name) <= _MOST_HYPOTHESES
            require_valid(self, name, is_count, f"1 to {_MOST_HYPOTHESES} hypotheses")
        require_valid(
            self, "patience", 0.0 < self.patience <= 100.0, "more than 0, at most 100"
        )
        alpha = self.length_penalty
        require_valid(
            self, "length_penalty", alpha is None or 0.0 <= alpha <= 1.0, "0 to 1"
        )
        require_valid(self, "seed", self.seed >= 0, "0 or more")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a window's text is rejected, as in OpenAI Whisper; `None` switches a threshold off."""

    no_speech: float | None = flag(
        0.6,
        "Treat a window as silent above this probability; none is off.",
        DOUBT,
        name="--no-speech-threshold",
        parse=number_or_none,
    )
    logprob: float | None = flag(
        -1.0,
        "Retry text below this mean log probability; none is off.",
        DOUBT,
        name="--logprob-threshold",
        also=("--log-prob-threshold",),
        parse=number_or_none,
    )
    compression_ratio: float | None = flag(
        2.4,
        "Retry text with a higher compression ratio; none is off.",
        DOUBT,
        name="--compression-ratio-threshold",
        parse=number_or_none,
    )

    def __post_init__(self) -> None:
        for name in ("no_speech", "logprob", "compression_ratio"):
            value = getattr(self, name)
            require_valid(self, name, value is None or math.isfinite(value), "a number")


def _token_ids(text: str) -> tuple[int, ...] | None:
    """Parse comma-separated token ids; -1 is the checkpoint's list, as in OpenAI Whisper."""
    expected = "token ids with commas between, or -1"
    try:
        ids = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(expected) from None
    if any(token < -1 for token in ids):
        raise ValueError(expected)
    return None if -1 in ids else ids


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Suppressed tokens, and the number of tokens.

    Speech in 18 languages needs fewer than 15 tokens per second (docs/accuracy.md); the limit cuts
    loops short.
    """

    suppress: tuple[int, ...] | None = setting(
        None,
        "Token ids to suppress; -1 is the model's own list.",
        REPETITION,
        name="--suppress-tokens",
        metavar="IDS",
        shown="-1",
        parse=_token_ids,
    )
    suppress_blank: bool = setting(
        True, "Suppress blank text at the start of a window.", REPETITION
    )
    no_repeat_ngram: int = setting(
        0,
        "Forbid repeated runs of N tokens; 0 is off.",
        REPETITION,
        also=("--no-repeat-ngram-size",),
    )
    max_per_second: float | None = setting(
        20.0,
        "Token limit per second of audio; none is off.",
        REPETITION,
        name="--max-tokens-per-second",
        parse=number_or_none,
    )

    def __post_init__(self) -> None:
        is_length = self.no_repeat_ngram >= 0
        require_valid(
            self, "no_repeat_ngram", is_length, "0 (off) or a number of tokens"
        )
        rate = self.max_per_second
        is_rate = rate is None or (math.isfinite(rate) and rate > 0)
        require_valid(self, "max_per_second", is_rate, "more than 0")


HOTWORD_BONUS: Final = 2.0
"""In logits; measured in docs/decoding.md."""

_MOST_BONUS: Final = 20.0
"""More would write hotwords whatever is said."""


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """Text that is shown to the decoder; hotwords are made likelier instead."""

    initial_prompt: str | None = flag(
        None, "Text to show before the recording.", metavar="TEXT", also=("--prompt",)
    )
    prefix: str | None = setting(
        None, "Start the first window's text with this.", PROMPTS
    )
    hotwords: str | None = flag(
        None, "Words to expect, comma-separated.", metavar="WORDS"
    )
    hotword_bonus: float = setting(
        HOTWORD_BONUS, "Logit bonus for tokens that continue a hotword.", PROMPTS
    )
    condition_on_previous_text: bool = flag(
        False, "Show each window the text before it.", PROMPTS
    )
    carry_initial_prompt: bool = setting(
        False, "Show --initial-prompt to every window.", PROMPTS
    )

    def __post_init__(self) -> None:
        for name in ("initial_prompt", "prefix", "hotwords"):
            text = getattr(self, name)
            # A list is joined by `transcribe`, but not here.
            is_text = isinstance(text, str) and bool(text.strip())
            require_valid(self, name, text is None or is_text, "some text")
        is_bonus = 0 <= self.hotword_bonus <= _MOST_BONUS
        require_valid(self, "hotword_bonus", is_bonus, f"0 to {_MOST_BONUS:g}")


_MOST_ANTI_REPETITION: Final = 1000.0
"""Highest penalty and boost: penalised float32 logits stay finite."""

SILENCE: Final = "silence"
ZEROS: Final = "zeros"
PADDINGS: Final = (SILENCE, ZEROS)
"""The encoder output for silence, or zero rows as in the study."""


@dataclass(frozen=True, slots=True)
class AntiRepetition:
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

    pad_to: int | None = setting(
        None,
        "Padding target in encoder positions; 0: none.",
        REPETITION,
        shown="preset's",
    )
    pad_with: str = setting(
        SILENCE,
        "What padding holds; zeros only reproduce the study",
        REPETITION,
        choices=PADDINGS,
        shown="preset's",
    )
    repetition_penalty: float = setting(
        1.0, "Penalty on repeated tokens; 1 is off.", REPETITION, shown="preset's"
    )
    eot_boost: float = setting(
        0.0,
        "Logits by which end of text is preferred; 0 is off.",
        REPETITION,
        shown="preset's",
    )

    def __post_init__(self) -> None:
        is_target = self.pad_to is None or self.pad_to >= 0
        require_valid(
            self, "pad_to", is_target, "0 (none) or a number of encoder positions"
        )
        require_choices(self)
        most = _MOST_ANTI_REPETITION
        is_penalty = 1.0 <= self.repetition_penalty <= most
        require_valid(self, "repetition_penalty", is_penalty, f"1 (off) to {most:g}")
        is_boost = 0.0 <= self.eot_boost <= most
        require_valid(self, "eot_boost", is_boost, f"0 (off) to {most:g}")

    def padding(self, dims: Dimensions, silence: SilenceKeys | None = None) -> Padding:
        """Return the padding for a model, with zero rows where it has no silence keys."""
        target = dims.n_audio_ctx if self.pad_to is None else self.pad_to
        if target > dims.n_audio_ctx:
            raise OptionError(
                f"--pad-to is {target}, the model was trained on {dims.n_audio_ctx} positions; "
                "use that or less"
            )
        return Padding(target, silence if self.pad_with == SILENCE else None)


PRESETS: Final[dict[str, AntiRepetition]] = {
    "conservative": AntiRepetition(),
    "balanced": AntiRepetition(pad_to=700, repetition_penalty=1.1, eot_boost=0.2),
    "aggressive": AntiRepetition(pad_to=500, repetition_penalty=1.2, eot_boost=0.5),
}
"""The study's presets; the default, conservative, only pads to the full context."""


FIXED_ANTI_REPETITION: Final = AntiRepetition(repetition_penalty=1.5)
"""Default for decoders of a fixed number of positions, which cannot be padded: the penalty that the
study used on its chip."""


def preset_of(name: str) -> AntiRepetition:
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
            Several with commas between, or a list of them: detected among these in each window.
        timestamps: the model writes times between segments; else sentences are segments.
        word_timestamps: time every word.
    """

    language: str = flag(
        AUTO_LANGUAGE,
        "Language, or several: de,en.",
        short="-l",
        metavar="LANG",
        is_joined=True,
    )
    task: str = flag("transcribe", "", choices=TASKS)
    anti_repetition: AntiRepetition = flag(
        PRESETS["conservative"],
        "Defaults of padding, penalty and EOT boost",
        REPETITION,
        name="--preset",
        shown="conservative",
        choices=tuple(PRESETS),
        parse=preset_of,
    )
    max_new_tokens: int | None = setting(
        None, "Token limit per window.", REPETITION, shown="half the context"
    )
    timestamps: bool = flag(False, "Let the model write times; on where it can.")
    max_initial_timestamp_s: float | None = setting(
        1.0,
        "Latest start of a window's first segment; none is any.",
        TIMES,
        name="--max-initial-timestamp",
        metavar="S",
        parse=number_or_none,
    )
    detect_each_window: bool = flag(
        False, "Detect the language of every window.", "Language"
    )
    search: SearchOptions = option_group(SearchOptions)
    thresholds: Thresholds = option_group(Thresholds)
    limits: TokenLimits = option_group(TokenLimits)
    prompts: PromptOptions = option_group(PromptOptions)
    word_timestamps: bool = flag(False, "Write word timestamps.")

    def __post_init__(self) -> None:
        given = (
            self.language if isinstance(self.language, str) else ",".join(self.language)
        )
        object.__setattr__(self, "language", ",".join(language_codes(given)))
        is_mixed = (
            AUTO_LANGUAGE in self.language.split(",") and self.language != AUTO_LANGUAGE
        )
        require_valid(self, "language", not is_mixed, "languages, or auto alone")
        require_choices(self)
        budget = self.max_new_tokens
        require_valid(
            self, "max_new_tokens", budget is None or budget >= 1, "1 or more"
        )
        latest_s = self.max_initial_timestamp_s
        is_time = latest_s is None or (math.isfinite(latest_s) and latest_s >= 0)
        require_valid(self, "max_initial_timestamp_s", is_time, "seconds, 0 or more")
        if self.detect_each_window and self.language != AUTO_LANGUAGE:
            raise OptionError("--detect-each-window needs --language auto; give both")

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that are spoken; empty: any."""
        return () if self.language == AUTO_LANGUAGE else tuple(self.language.split(","))

    @property
    def fixed_language(self) -> str:
        """The code of the only language that is spoken, or `auto`."""
        return self.languages[0] if len(self.languages) == 1 else AUTO_LANGUAGE

    @property
    def detects_each(self) -> bool:
        """True if every window has a language of its own."""
        return self.detect_each_window or len(self.languages) > 1

    def budget(
        self, dims: Dimensions, n_prefix: int, content_s: float | None = None
    ) -> int:
        """Return the new tokens allowed after `n_prefix` tokens in `content_s` of audio."""
        n_tokens = self.max_new_tokens or dims.n_text_ctx // 2
        if self.limits.max_per_second is not None and content_s is not None:
            n_spoken = math.ceil(self.limits.max_per_second * content_s)
            n_tokens = min(n_tokens, max(1, n_spoken))
        return min(n_tokens, dims.n_text_ctx - n_prefix)
