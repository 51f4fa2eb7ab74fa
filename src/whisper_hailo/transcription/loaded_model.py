"""A model that is loaded: what it is made of, what it takes, and what suits it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.protocols import Closeable, Encoder
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import Settings
from whisper_hailo.decoding.options import Cures, DecodingOptions
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.parts import Parts


class LoadedModel(Closing):
    """An encoder, a decoder and a tokenizer of one model, open in a `with` block."""

    def __init__(self, parts: Parts) -> None:
        """From parts that fit each other; `from_model` finds them by a model's name."""
        self._parts = parts
        self._stack = ExitStack()
        self._load_clock = StageClock()

    def open(self) -> Self:
        """Load the model, as a `with` block does by itself."""
        self._load_clock = StageClock()
        with self._load_clock.stage("load"), ExitStack() as opened:
            for part in self.parts.values():
                opened.enter_context(part)
            self._stack = opened.pop_all()
        return self

    def close(self) -> None:
        """Free model and device, as a `with` block does by itself."""
        self._stack.close()

    @property
    def content_s(self) -> float:
        """Seconds of audio that one window takes."""
        return self._parts.plan.window_s - self._parts.plan.margin_s

    @property
    def tokenizer(self) -> Tokenizer:
        return self._parts.tokenizer

    @property
    def encoder(self) -> Encoder:
        return self._parts.encoder

    @property
    def reasons(self) -> tuple[str, ...]:
        return self._parts.reasons

    @property
    def default_cures(self) -> Cures:
        """What keeps this decoder from repeating itself when the caller has no wish of their own.

        Padding, where there can be any; a fixed decoder has all its positions already.
        """
        return self._parts.default_cures

    @property
    def default_fallback(self) -> float:
        """By how much hotter doubtful text is tried again by default; 0 is not at all.

        `SearchOptions` says which temperatures.
        """
        return self._parts.default_fallback

    @property
    def default_options(self) -> DecodingOptions:
        """What `transcribe` decodes by where the caller says nothing, as the command does.

        The language is found out, doubtful text is tried again where that can be had, and cures
        are what suits the decoder.
        """
        return self._parts.default_options

    @property
    def parts(self) -> dict[str, Closeable]:
        """What is open: encoder and decoder by these names, and likewise those of a draft model."""
        parts, draft = self._parts, self._parts.draft
        ahead = (None, None) if draft is None else (draft.encoder, draft.decoder)
        named = {
            "encoder": parts.encoder,
            "decoder": parts.decoder,
            "draft encoder": ahead[0],
            "draft decoder": ahead[1],
        }
        return {name: part for name, part in named.items() if part is not None}

    def check(self, options: DecodingOptions, long: LongOptions | None = None) -> None:
        """Refuse options that this model cannot honour, before any audio is touched.

        Raises:
            OptionError: unknown language or task, padding beyond the model's context, prompts or
                token ids that it cannot take, timestamps or alignment that it does not have, a rule
                that the engine or the plan of windows does not have, or windows that the encoder
                does not take.
        """
        self._parts.check(options, long)

    def identity(
        self,
        options: DecodingOptions,
        long: LongOptions | None = None,
        batch_size: int | None = None,
    ) -> str:
        """Tells runs that give the same text from all others: program, model, engine, options."""
        return self._parts.identity(options, long, self._parts.batch_size(batch_size))

    def settings(
        self,
        options: DecodingOptions,
        long: LongOptions | None = None,
        batch_size: int | None = None,
    ) -> Settings:
        """What shapes the results of these options."""
        return self._parts.settings(options, long, self._parts.batch_size(batch_size))
