"""The pipeline of one model: its encoder, decoder and tokenizer, and what they refuse."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.model_files import model_file
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import engine_window_s, select
from whisper_hailo.convert.model_cache import find_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.protocols import AnyDecoder, Encoder, Limits
from whisper_hailo.core.spec import Dimensions, ModelSpec
from whisper_hailo.core.types import Settings
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
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.recording import strategy_of
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import WindowRequest

MEMINFO: Final = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Return the memory that the system has free without swapping; `None` if unknown."""
    try:
        text = MEMINFO.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+)\b", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


MAX_BATCH: Final = 256
USUAL_BATCH: Final = 4
"""Most of the possible gain: a step reads the weights once for all of its windows."""

_SHARE: Final = 0.25
"""Of the free memory, which the model and other programs need too."""
_ENCODER_COPIES: Final = 16
"""Arrays as large as the audio features that the encoder and its queue hold at once."""
_FLOAT_BYTES: Final = 4

USUAL_OPTIONS: Final = DecodingOptions(timestamps=True, search=SearchOptions(DEFAULT_TEMPERATURES))
"""Defaults with a decoder that has a cache; with times no clause of several sentences is lost."""


def check_batch_size(batch_size: int) -> int:
    """Return a batch size, or refuse it."""
    if not 1 <= batch_size <= MAX_BATCH:
        raise OptionError(f"--batch-size is {batch_size}, expected 1 to {MAX_BATCH}")
    return batch_size


def default_batch_size(dims: Dimensions) -> int:
    """Return the default batch size that fits a quarter of the free memory; at least one."""
    free = available_bytes()
    if free is None:
        return 1
    return max(1, min(USUAL_BATCH, int(_SHARE * free / window_bytes(dims))))


def window_bytes(dims: Dimensions) -> int:
    """Return the most memory of one window: float32 keys and values, and the encoder's."""
    positions = dims.n_audio_ctx + 1 + dims.n_text_ctx
    cached = 2 * dims.n_decoder_layers * positions * dims.d_model
    encoded = _ENCODER_COPIES * dims.n_audio_ctx * dims.d_model
    return _FLOAT_BYTES * (cached + encoded)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """An encoder, a decoder and a tokenizer of one model.

    Attributes:
        plan: the windows that the audio is cut into.
        threads: recorded in the results' settings, like `reasons`.
        encode_ahead: encode the next windows while the last ones are decoded.
    """

    encoder: Encoder
    decoder: AnyDecoder
    tokenizer: Tokenizer
    plan: WindowPlan
    threads: int = 0
    reasons: tuple[str, ...] = ()
    encode_ahead: bool = True

    @classmethod
    def of_model(
        cls,
        model: str,
        *,
        revision: str | None,
        convert: ConvertOptions | None,
        window_s: float | None,
        margin_s: float | None,
        threads: int,
        engine: EngineOptions,
    ) -> Pipeline:
        """Build the pipeline of a model; see `Transcriber.from_model`."""
        directory, spec = find_model(model, convert, revision=revision, tokenizer=engine.tokenizer)
        chosen = select(directory, spec, engine, threads, window_s)
        window_s = engine_window_s(chosen, spec, window_s)
        plan = WindowPlan.make(spec.dims, window_s, margin_s)
        return cls(
            chosen.encoder,
            chosen.decoder,
            Tokenizer.load(engine.tokenizer or find_tokenizer_file(directory, spec), spec.tokens),
            plan,
            threads=threads,
            reasons=chosen.reasons,
        )

    @property
    def limits(self) -> Limits:
        return self.decoder.limits

    @property
    def default_anti_repetition(self) -> AntiRepetition:
        """Padding, if possible; a fixed decoder already has all its positions."""
        return PRESETS["conservative"] if self.limits.n_positions is None else FIXED_ANTI_REPETITION

    @property
    def default_fallback(self) -> float:
        """Default temperature step of retries; 0 without a cache, where samples cost too much."""
        return FALLBACK_STEP if self.limits.n_positions is None else 0.0

    @property
    def default_options(self) -> DecodingOptions:
        """Without a cache there is no room for times."""
        if self.limits.n_positions is not None:
            return DecodingOptions(anti_repetition=FIXED_ANTI_REPETITION)
        has_times = self.tokenizer.special.timestamp_begin is not None
        return replace(USUAL_OPTIONS, timestamps=has_times)

    def batch_size(self, asked: int | None) -> int:
        """Return the most windows decoded together; by default several for our own graphs.

        Others gain nothing, or quantise one window by its neighbours.
        """
        if asked is not None:
            return check_batch_size(asked)
        return default_batch_size(self.decoder.spec.dims) if self.limits.free_padding else 1

    def check(self, options: DecodingOptions, long: LongOptions | None = None) -> None:
        """Refuse options that this pipeline cannot honour; see `Transcriber.check`."""
        self.check_options(options, long)
        self.window_engine(options)

    def check_options(self, options: DecodingOptions, long: LongOptions | None = None) -> None:
        """Refuse options that the model cannot honour; its engine refuses others when built."""
        decoder, pad_to = self.decoder, options.anti_repetition.pad_to or 0
        special = self.tokenizer.special
        if options.timestamps and special.timestamp_begin is None:
            raise OptionError("this model has no timestamp tokens; leave out --timestamps")
        strategy, words = strategy_of(options, self.long(long, options)), options.words
        if words and words.hallucination_silence_s is not None and strategy != "seek":
            raise OptionError(
                f"--hallucination-silence skips silence by seeking, the windows are {strategy!r}; "
                "leave out --long"
            )
        takes = decoder.limits.n_positions
        if takes is not None and pad_to > takes:
            raise OptionError(
                f"--pad-to is {pad_to}, decoder {decoder.name} has {takes} positions and "
                "cannot be padded further; set --repetition-penalty"
            )
        n_vocab = decoder.spec.dims.n_vocab
        unknown = [token for token in options.limits.suppress or () if not 0 <= token < n_vocab]
        if unknown:
            raise OptionError(
                f"--suppress-tokens has {unknown[0]}, this model's ids are 0 to {n_vocab - 1}; "
                "leave it out"
            )
        options.anti_repetition.padding(decoder.spec.dims)
        language = options.language
        if language == AUTO_LANGUAGE:
            language = next(iter(special.languages), "en")
        self.tokenizer.prefix(language, options.task)

    def window_engine(self, options: DecodingOptions) -> DecoderEngine:
        return DecoderEngine(self.decoder, self.tokenizer, options, self.plan.window_s)

    def partial_request(self, engine: DecoderEngine, buffer: PartialBuffer) -> WindowRequest:
        """Return the window of live audio, which is transcribed again and again."""
        return buffer.request(engine.context(), self.plan.content_samples)

    def stages(self, options: DecodingOptions, *, trim_window: bool = False) -> Stages:
        """Return the stages of windows with these options, checked before."""
        plan = replace(self.plan, trim_window=trim_window)
        return Stages(self.encoder, self.window_engine(options), plan)

    def long(self, long: LongOptions | None, options: DecodingOptions) -> LongOptions:
        """Fill in the defaults; `auto` overlaps only where words can be aligned."""
        long = long or LongOptions()
        long = replace(long, trim_window=self.trims(options, long.trim_window))
        overlaps = strategy_of(options, long) == "overlap"
        if long.strategy == "auto" and overlaps and not self.limits.aligns:
            return replace(long, strategy="consecutive")
        return long

    def trims(self, options: DecodingOptions, asked: bool | None) -> bool:
        """Return whether windows are encoded only as far as their audio fills them.

        By default wherever that costs no words: silence keys stand for the rest.
        """
        can = self.encoder.n_frames is None
        if asked and not can:
            raise OptionError(
                f"--trim-window needs an encoder that takes windows of any length, this engine's "
                f"takes {self.encoder.n_frames} frames only; leave it out, or choose "
                "--encoder-backend onnx"
            )
        if asked is not None:
            return asked
        measures = options.anti_repetition
        pads = measures.pad_with == SILENCE and measures.pad_to is None
        return can and pads and self.limits.free_padding

    def identity(self, options: DecodingOptions, long: LongOptions | None, batch_size: int) -> str:
        """Return a hash of everything that affects the text."""
        settings = replace(self.settings(options, long, batch_size), reasons=())
        cut = self.long(long, options)
        parts = (__version__, settings, self.decoder.spec.to_json(), options, cut)
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()

    def settings(
        self, options: DecodingOptions, long: LongOptions | None, batch_size: int
    ) -> Settings:
        spec = self.decoder.spec
        long, measures = self.long(long, options), options.anti_repetition
        return Settings(
            model=spec.name,
            encoder=self.encoder.name,
            decoder=self.decoder.name,
            window_s=self.plan.window_s,
            margin_s=self.plan.margin_s,
            pad_to=self.limits.n_positions or measures.padding(spec.dims).pad_to or 0,
            repetition_penalty=measures.repetition_penalty,
            eot_boost=measures.eot_boost,
            quantization=spec.quantization,
            threads=self.threads,
            reasons=self.reasons,
            windows=strategy_of(options, long),
            search=options.search.name,
            timestamps=options.timestamps,
            batch_size=batch_size,
            trim_window=long.trim_window is True,
        )


def find_tokenizer_file(directory: Path, spec: ModelSpec) -> Path:
    """Return the model's tokenizer; a directory of another program lists no files."""
    if TOKENIZER_FILE in spec.files:
        return model_file(directory, spec, TOKENIZER_FILE)
    return directory / TOKENIZER_FILE
