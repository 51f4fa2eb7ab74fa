"""Options of decoding: language, cures, search, gates, times and prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import (
    APPENDED,
    PREPENDED,
    Gates,
    Prompts,
    Search,
    TokenLimits,
    WordOptions,
)
from whisper_hailo.decoding.options import PRESETS, Cures, DecodingOptions, preset

_LANGUAGE, _CURES, _SEARCH = "Language", "Cures against hallucination", "Search and fallback"
_GATES, _TIMES, _PROMPTS = "Gates", "Times", "Prompts"
_TOP_TEMPERATURE = 1.0


@dataclass(frozen=True, slots=True)
class LanguageFlags:
    """What is spoken, and what is written."""

    language: Annotated[
        str, typer.Option(help="Language code, or auto.", rich_help_panel=_LANGUAGE)
    ] = "en"
    task: Annotated[
        str,
        typer.Option(help="transcribe, or translate to English.", rich_help_panel=_LANGUAGE),
    ] = "transcribe"
    detect_each_window: Annotated[
        bool,
        typer.Option(
            "--detect-each-window",
            help="With --language auto: for speakers who change it.",
            rich_help_panel=_LANGUAGE,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class CureFlags:
    """What keeps the decoder from repeating itself."""

    preset_name: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help=f"Cures: {', '.join(PRESETS)}. [default: conservative]",
            rich_help_panel=_CURES,
        ),
    ] = None
    pad_to: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Padding target in positions, 0: none. [default: preset's]",
            rich_help_panel=_CURES,
        ),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        typer.Option(metavar="X", help="1.0 is off. [default: preset's]", rich_help_panel=_CURES),
    ] = None
    eot_boost: Annotated[
        float | None,
        typer.Option(metavar="X", help="0.0 is off. [default: preset's]", rich_help_panel=_CURES),
    ] = None
    no_repeat_ngram: Annotated[
        int,
        typer.Option(
            metavar="N", help="No run of N tokens twice; 0 is off.", rich_help_panel=_CURES
        ),
    ] = 0
    max_tokens_per_second: Annotated[
        float | None,
        typer.Option(metavar="X", help="Of a window's audio.", rich_help_panel=_CURES),
    ] = None
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Per window. [default: half the context]", rich_help_panel=_CURES
        ),
    ] = None
    suppress_tokens: Annotated[
        str,
        typer.Option(
            metavar="IDS", help="Never taken; -1 is the model's own list.", rich_help_panel=_CURES
        ),
    ] = "-1"
    suppress_blank: Annotated[
        bool, typer.Option(help="No blank text first.", rich_help_panel=_CURES)
    ] = True

    def cures(self, start: Cures) -> Cures:
        """A preset, or the decoder's own default, with whatever was given explicitly.

        Raises:
            OptionError: values out of range.
        """
        given = {
            "pad_to": self.pad_to,
            "repetition_penalty": self.repetition_penalty,
            "eot_boost": self.eot_boost,
        }
        changes: dict[str, Any] = {k: value for k, value in given.items() if value is not None}
        return replace(start if self.preset_name is None else preset(self.preset_name), **changes)

    def limits(self) -> TokenLimits:
        """Tokens never taken, and how many there may be.

        Raises:
            OptionError: values out of range.
        """
        return TokenLimits(
            suppress=self._suppressed(),
            suppress_blank=self.suppress_blank,
            no_repeat_ngram=self.no_repeat_ngram,
            max_per_second=self.max_tokens_per_second,
        )

    def _suppressed(self) -> tuple[int, ...] | None:
        text = self.suppress_tokens
        try:
            ids = tuple(int(part) for part in text.split(",") if part.strip())
        except ValueError:
            ids = (-2,)
        if any(token < -1 for token in ids):
            raise OptionError(
                f"--suppress-tokens is {text!r}, expected token ids with commas between, or -1"
            )
        return None if -1 in ids else ids


@dataclass(frozen=True, slots=True)
class SearchFlags:
    """How tokens are chosen, and when that is tried again."""

    beam_size: Annotated[
        int, typer.Option(metavar="N", help="1 is greedy.", rich_help_panel=_SEARCH)
    ] = 1
    patience: Annotated[
        float,
        typer.Option(metavar="X", help="Of the beam: ends later.", rich_help_panel=_SEARCH),
    ] = 1.0
    length_penalty: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="0 to 1. [default: mean log-probability]", rich_help_panel=_SEARCH
        ),
    ] = None
    temperature: Annotated[
        float, typer.Option(metavar="X", help="Above 0: sampling.", rich_help_panel=_SEARCH)
    ] = 0.0
    fallback: Annotated[
        float | None,
        typer.Option(
            metavar="STEP",
            help="Doubtful text is tried again, hotter by this up to 1. [default: off]",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    best_of: Annotated[
        int, typer.Option(metavar="N", help="Samples per window.", rich_help_panel=_SEARCH)
    ] = 5
    seed: Annotated[int, typer.Option(metavar="N", rich_help_panel=_SEARCH)] = 0

    def search(self) -> Search:
        """The search.

        Raises:
            OptionError: values out of range.
        """
        temperatures = [self.temperature]
        if self.fallback is not None:
            if not 0 < self.fallback <= _TOP_TEMPERATURE:
                raise OptionError(f"--fallback is {self.fallback:g}, expected more than 0, up to 1")
            steps = int((_TOP_TEMPERATURE - self.temperature) / self.fallback + 1e-6)
            temperatures += [
                round(self.temperature + (n + 1) * self.fallback, 3) for n in range(steps)
            ]
        return Search(
            temperatures=tuple(temperatures),
            beam_size=self.beam_size,
            patience=self.patience,
            length_penalty=self.length_penalty,
            best_of=self.best_of,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class GateFlags:
    """When a window's text is not believed."""

    no_speech_threshold: Annotated[
        float,
        typer.Option(metavar="X", help="Above it: silence.", rich_help_panel=_GATES),
    ] = 0.6
    logprob_threshold: Annotated[
        float,
        typer.Option(metavar="X", help="Below it: doubtful.", rich_help_panel=_GATES),
    ] = -1.0
    compression_ratio_threshold: Annotated[
        float,
        typer.Option(metavar="X", help="Above it: repetition.", rich_help_panel=_GATES),
    ] = 2.4

    def gates(self) -> Gates:
        """The gates.

        Raises:
            OptionError: no numbers.
        """
        return Gates(
            no_speech=self.no_speech_threshold,
            logprob=self.logprob_threshold,
            compression_ratio=self.compression_ratio_threshold,
        )


@dataclass(frozen=True, slots=True)
class TimeFlags:
    """Times of segments and words."""

    timestamps: Annotated[
        bool | None,
        typer.Option(
            help="Let the model write times. [default: for srt, vtt, tsv]", rich_help_panel=_TIMES
        ),
    ] = None
    max_initial_timestamp: Annotated[
        float,
        typer.Option(
            metavar="S", help="Latest start of a window's first segment.", rich_help_panel=_TIMES
        ),
    ] = 1.0
    word_timestamps: Annotated[
        bool,
        typer.Option("--word-timestamps", help="Times of words.", rich_help_panel=_TIMES),
    ] = False
    hallucination_silence: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Drop odd words beside a longer silence.",
            rich_help_panel=_TIMES,
        ),
    ] = None
    prepend_punctuations: Annotated[str, typer.Option(metavar="MARKS", rich_help_panel=_TIMES)] = (
        PREPENDED
    )
    append_punctuations: Annotated[str, typer.Option(metavar="MARKS", rich_help_panel=_TIMES)] = (
        APPENDED
    )

    def words(self) -> WordOptions | None:
        """Times of words, where asked for.

        Raises:
            OptionError: values out of range.
        """
        if not self.word_timestamps:
            if self.hallucination_silence is not None:
                raise OptionError("--hallucination-silence needs --word-timestamps; give both")
            return None
        return WordOptions(
            prepended=self.prepend_punctuations,
            appended=self.append_punctuations,
            hallucination_silence_s=self.hallucination_silence,
        )


@dataclass(frozen=True, slots=True)
class PromptFlags:
    """Text that the decoder is shown."""

    initial_prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="As if said before the recording.", rich_help_panel=_PROMPTS
        ),
    ] = None
    carry_initial_prompt: Annotated[
        bool,
        typer.Option("--carry-initial-prompt", help="In every window.", rich_help_panel=_PROMPTS),
    ] = False
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Begins the first window's text.", rich_help_panel=_PROMPTS
        ),
    ] = None
    hotwords: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="To expect.", rich_help_panel=_PROMPTS),
    ] = None
    condition_on_previous_text: Annotated[
        bool,
        typer.Option(help="Show each window the text before it.", rich_help_panel=_PROMPTS),
    ] = False

    def prompts(self) -> Prompts:
        """The prompts.

        Raises:
            OptionError: blank text.
        """
        return Prompts(
            initial_prompt=self.initial_prompt,
            prefix=self.prefix,
            hotwords=self.hotwords,
            condition_on_previous_text=self.condition_on_previous_text,
            carry_initial_prompt=self.carry_initial_prompt,
        )


@dataclass(frozen=True, slots=True)
class DecodingFlags:
    """All groups of decoding together."""

    language: LanguageFlags
    cures: CureFlags
    search: SearchFlags
    gates: GateFlags
    times: TimeFlags
    prompts: PromptFlags

    def options(self, start: Cures, *, timestamps: bool) -> DecodingOptions:
        """Decoding options.

        Args:
            start: the decoder's default cures.
            timestamps: whether the model writes times where the user did not say.

        Raises:
            OptionError: a value out of range.
        """
        asked = self.times.timestamps
        return DecodingOptions(
            language=self.language.language,
            task=self.language.task,
            cures=self.cures.cures(start),
            max_new_tokens=self.cures.max_new_tokens,
            timestamps=timestamps if asked is None else asked,
            max_initial_timestamp_s=self.times.max_initial_timestamp,
            detect_each_window=self.language.detect_each_window,
            search=self.search.search(),
            gates=self.gates.gates(),
            limits=self.cures.limits(),
            prompts=self.prompts.prompts(),
            words=self.times.words(),
        )
