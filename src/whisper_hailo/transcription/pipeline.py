"""The pipeline of one model: its encoder, decoder and tokenizer, and what they refuse."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import AnyDecoder, Encoder
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import FRAMES_PER_SECOND, Settings
from whisper_hailo.core.version import __version__
from whisper_hailo.decoding.options import (
    DEFAULT_TEMPERATURES,
    FALLBACK_STEP,
    FIXED_ANTI_REPETITION,
    PRESETS,
    SILENCE,
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
)
from whisper_hailo.decoding.search.fallback import describe_search
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.stages import Stages

MEMINFO: Final = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Return the memory that the system has free without swapping; `None` if unknown."""
    try:
        text = MEMINFO.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+)\b", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


MAX_BATCH: Final = 256
USUAL_BATCH: Final = 4
"""Most of the possible gain: a step reads the weights once for all of its windows."""

_SHARE: Final = 0.25
"""Of the free memory, which the model and other programs need too."""
_ENCODER_COPIES: Final = 16
"""Arrays as large as the audio features that the encoder and its queue hold at once."""
_FLOAT_BYTES: Final = 4

USUAL_OPTIONS: Final = DecodingOptions(
    timestamps=True, search=SearchOptions(DEFAULT_TEMPERATURES)
)
"""Defaults with a decoder that has a cache; with times no clause of several sentences is lost."""


_SHORT_FRAMES: Final = 6 * FRAMES_PER_SECOND
"""Windows of 5 s have 10.1 % wrong words where each shares half with the next one, and 11.4 %
where they end in pauses (docs/hailo-device.md). Longer ones were not measured."""


def check_batch_size(batch_size: int) -> int:
    """Return a batch size, or refuse it."""
    if not 1 <= batch_size <= MAX_BATCH:
        raise OptionError(f"--batch-size is {batch_size}, expected 1 to {MAX_BATCH}")
    return batch_size


def default_batch_size(dims: Dimensions) -> int:
    """Return the default batch size that fits a quarter of the free memory; at least one.

    A window takes float32 keys and values, and the encoder's arrays.
    """
    # Keys and values of the audio, of its silence, and of the text.
    n_cached = 2 * dims.n_decoder_layers * (dims.n_audio_ctx + 1 + dims.n_text_ctx)
    n_encoded = _ENCODER_COPIES * dims.n_audio_ctx
    window_bytes = _FLOAT_BYTES * dims.d_model * (n_cached + n_encoded)
    free_bytes = available_bytes() or 0  # unknown: one window at a time
    n_fitting = int(_SHARE * free_bytes / window_bytes)
    return max(1, min(USUAL_BATCH, n_fitting))


def _choose_strategy(n_frames: int | None, *, aligns: bool) -> str:
    """Return how recordings are cut, for an encoder's fixed window of `n_frames`, or any window.

    `aligns`: the decoder gives times of words, which overlapping windows are joined by.
    """
    if not aligns:
        return "consecutive"
    is_short = n_frames is not None and n_frames < _SHORT_FRAMES
    return "dense" if is_short else "overlap"


@dataclass(eq=False, repr=False)
class Pipeline:
    """An encoder, a decoder and a tokenizer of one model.

    Attributes:
        plan: the windows that the audio is cut into.
        threads: recorded in the results' settings, like `reasons`.
        reasons: why this encoder and decoder were chosen, one line each.
        encode_ahead: encode the next windows while the last ones are decoded.
        load_ms: what loading the model took.
    """

    encoder: Encoder
    decoder: AnyDecoder
    tokenizer: Tokenizer
    plan: WindowPlan
    threads: int = 0
    reasons: tuple[str, ...] = ()
    encode_ahead: bool = True
    load_ms: float = field(default=0.0, init=False)

    @property
    def content_s(self) -> float:
        """Seconds of audio per window."""
        return self.plan.window_s - self.plan.margin_s

    @property
    def _is_fixed(self) -> bool:
        """True if the decoder has a fixed number of positions, and no cache."""
        return self.decoder.limits.n_positions is not None

    @property
    def default_anti_repetition(self) -> AntiRepetition:
        """The decoder's default against repetition: padding, or a penalty for fixed decoders."""
        return FIXED_ANTI_REPETITION if self._is_fixed else PRESETS["conservative"]

    @property
    def default_fallback(self) -> float:
        """Default temperature step of retries; 0 without a cache, where samples cost too much."""
        return 0.0 if self._is_fixed else FALLBACK_STEP

    @property
    def default_options(self) -> DecodingOptions:
        """Default options: the language is detected, and doubtful text retried where possible.

        Without a cache there is no room for times.
        """
        if self._is_fixed:
            return DecodingOptions(anti_repetition=FIXED_ANTI_REPETITION)
        has_times = self.tokenizer.special.timestamp_begin is not None
        return replace(USUAL_OPTIONS, timestamps=has_times)

    def resolve_batch_size(self, asked: int | None) -> int:
        """Return the most windows decoded together; by default several for our own graphs.

        Others gain nothing, or quantise one window by its neighbours.
        """
        if asked is not None:
            return check_batch_size(asked)
        if not self.decoder.limits.free_padding:
            return 1
        return default_batch_size(self.decoder.spec.dims)

    def check(self, options: DecodingOptions, long: LongOptions | None = None) -> None:
        """Refuse options that this model cannot honour, before any audio is read."""
        self.stages(options, self.resolve_long(options, long))

    def stages(self, options: DecodingOptions, long: LongOptions) -> Stages:
        """Return the stages of windows; refuse options that the model cannot honour."""
        self._refuse_unsupported(options)
        plan = replace(self.plan, trim_window=long.trim_window is True)
        engine = DecoderEngine(self.decoder, self.tokenizer, options, plan.window_s)
        return Stages(self.encoder, engine, plan)

    def _refuse_unsupported(self, options: DecodingOptions) -> None:
        """Refuse options that the decoder or the tokenizer cannot honour."""
        special = self.tokenizer.special
        if options.timestamps and special.timestamp_begin is None:
            raise OptionError(
                "this model has no timestamp tokens; leave out --timestamps"
            )
        n_positions = self.decoder.limits.n_positions
        pad_to = options.anti_repetition.pad_to or 0
        if n_positions is not None and pad_to > n_positions:
            raise OptionError(
                f"--pad-to is {pad_to}, decoder {self.decoder.name} has {n_positions} positions "
                "and cannot be padded further; set --repetition-penalty"
            )
        n_vocab = self.decoder.spec.dims.n_vocab
        unknown = [
            token for token in options.limits.suppress or () if not 0 <= token < n_vocab
        ]
        if unknown:
            raise OptionError(
                f"--suppress-tokens has {unknown[0]}, this model's ids are 0 to {n_vocab - 1}; "
                "leave it out"
            )
        for language in options.languages or (next(iter(special.languages), "en"),):
            # Refuses what the model does not speak.
            self.tokenizer.prefix(language, options.task)

    def resolve_long(
        self, options: DecodingOptions, long: LongOptions | None
    ) -> LongOptions:
        """Return how recordings are cut, with the defaults of this model.

        Windows overlap where words can be aligned, those of a chip's short window by half. They are
        encoded only as far as their audio fills them wherever that costs no words: silence keys
        stand for the rest.
        """
        long = long or LongOptions()
        strategy = long.strategy
        n_frames = self.encoder.n_frames
        if strategy == "auto":
            strategy = _choose_strategy(n_frames, aligns=self.decoder.limits.aligns)
        trim_window = long.trim_window
        if trim_window and n_frames is not None:
            raise OptionError(
                f"--trim-window needs an encoder that takes windows of any length, this engine's "
                f"takes {n_frames} frames only; leave it out, or choose --encoder-backend onnx"
            )
        if trim_window is None:
            is_default = options.anti_repetition.pad_to is None
            has_silence_keys = (
                is_default and options.anti_repetition.pad_with == SILENCE
            )
            trim_window = (
                n_frames is None
                and has_silence_keys
                and self.decoder.limits.free_padding
            )
        return replace(long, strategy=strategy, trim_window=trim_window)

    def identity(
        self,
        options: DecodingOptions,
        long: LongOptions | None = None,
        batch_size: int | None = None,
    ) -> str:
        """Return a hash of everything that affects the text: program, model, engine, options."""
        parts = (
            __version__,
            replace(self.settings(options, long, batch_size), reasons=()),
            self.decoder.spec.to_json(),
            options,
            self.resolve_long(options, long),
        )
        text = "\n".join(str(part) for part in parts)
        return hashlib.sha256(text.encode()).hexdigest()

    def settings(
        self,
        options: DecodingOptions,
        long: LongOptions | None = None,
        batch_size: int | None = None,
    ) -> Settings:
        """Return the settings that results record."""
        spec = self.decoder.spec
        anti_repetition = options.anti_repetition
        pad_to = (
            self.decoder.limits.n_positions
            or anti_repetition.padding(spec.dims).pad_to
            or 0
        )
        long = self.resolve_long(options, long)
        return Settings(
            model=spec.name,
            encoder=self.encoder.name,
            decoder=self.decoder.name,
            window_s=self.plan.window_s,
            margin_s=self.plan.margin_s,
            pad_to=pad_to,
            repetition_penalty=anti_repetition.repetition_penalty,
            eot_boost=anti_repetition.eot_boost,
            quantization=spec.quantization,
            threads=self.threads,
            reasons=self.reasons,
            windows=long.strategy,
            search=describe_search(options.search),
            timestamps=options.timestamps,
            batch_size=self.resolve_batch_size(batch_size),
            trim_window=long.trim_window is True,
        )
