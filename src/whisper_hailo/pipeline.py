"""The `Transcriber`: the only place where the stages meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Final, Self, TypeAlias

from whisper_hailo.audio import AudioSource
from whisper_hailo.backends.make import AnyBackEnd
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import engine_window_s, select
from whisper_hailo.convert.described import find_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.buffers import BufferText
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.core.protocols import Closeable, Encoder, Limits
from whisper_hailo.core.types import FloatArray, Settings, Transcript
from whisper_hailo.decoding.options import (
    AUTO_LANGUAGE,
    FIXED_CURES,
    PRESETS,
    Cures,
    DecodingOptions,
)
from whisper_hailo.decoding.recognizer import AudioRecognizer, Recognizer
from whisper_hailo.hearing.buffers import BufferHearing, Draft
from whisper_hailo.hearing.decoder import DecoderInterpreter
from whisper_hailo.hearing.engines import AudioInterpreter, EngineInterpreter
from whisper_hailo.hearing.hearing import Hearing
from whisper_hailo.hearing.interpreter import Interpreter
from whisper_hailo.hearing.recording import Recording, strategy_of
from whisper_hailo.hearing.schedule import Progress, in_batches
from whisper_hailo.longform.plan import LongOptions
from whisper_hailo.timing import StageClock
from whisper_hailo.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo.windows import WindowPlan

AudioInput: TypeAlias = AudioSource
"""A file, a channel of one, or `(n_samples,)` float32 samples at 16 kHz mono."""

MAX_BATCH: Final = 256


class Transcriber(Closing):
    """An encoder, a decoder and a tokenizer of one model, ready to turn audio into text.

    Use it in a `with` block, or call `open` and `close`.
    """

    def __init__(
        self,
        encoder: Encoder | None,
        decoder: AnyBackEnd,
        tokenizer: Tokenizer,
        plan: WindowPlan,
        *,
        threads: int = 0,
        reasons: tuple[str, ...] = (),
        encode_ahead: bool = True,
    ) -> None:
        """Join the parts.

        Args:
            encoder: log-mel to audio features; `None` for an engine that hears audio itself.
            decoder: audio features to tokens, of the same model; or an engine with its own loop.
            tokenizer: tokens to text.
            plan: the windows that the audio is cut into.
            threads: recorded in the results' settings.
            reasons: why these parts, recorded there too.
            encode_ahead: encode the next windows while the last ones are decoded.
        """
        self._encoder = encoder
        self._decoder = decoder
        self.tokenizer = tokenizer
        self._plan = plan
        self._threads = threads
        self.reasons = reasons
        self._encode_ahead = encode_ahead
        self._stack = ExitStack()
        self._load_clock = StageClock()

    @classmethod
    def from_model(
        cls,
        model: str = "tiny",
        *,
        revision: str | None = None,
        convert: ConvertOptions | None = None,
        window_s: float | None = None,
        margin_s: float | None = None,
        threads: int = 0,
        engine: EngineOptions | None = None,
    ) -> Transcriber:
        """Put a transcriber together from a model's name.

        Args:
            model: `micro` (bundled), a model directory, a Hugging Face checkpoint directory, a hub
                id such as `openai/whisper-tiny`, or a short name such as `tiny` or `base.en`.
                Checkpoints are converted once and cached; a directory that Optimum exported is
                used as it is.
            revision: hub commit, tag or branch; `None` is the main branch.
            convert: how to convert a checkpoint.
            window_s: encoder window in seconds; `None` is the encoder's own, or 10 s.
            margin_s: seconds kept free at the end of each window; `None` is 1 s, and 0 for 30 s.
            threads: threads per operator; 0 lets the runtime choose.
            engine: which encoder and decoder; `None` is the model directory's own.

        Raises:
            ModelError, TokenizerError, HubError, OutputError: see `resolve_model`.
            OptionError: a window that the model cannot take.
            ModelError, ShapeError, DeviceError: encoder and decoder that are not there, or that
                do not fit the model or each other.
        """
        engine = engine or EngineOptions()
        directory, spec = find_model(model, convert, revision=revision, tokenizer=engine.tokenizer)
        chosen = select(directory, spec, engine, threads)
        window_s = engine_window_s(chosen, spec, window_s)
        return cls(
            chosen.encoder,
            chosen.decoder,
            Tokenizer.load(engine.tokenizer or directory / TOKENIZER_FILE, spec.tokens),
            WindowPlan.make(spec.dims, window_s, margin_s),
            threads=threads,
            reasons=chosen.reasons,
        )

    def open(self) -> Self:
        """Load the model."""
        self._load_clock = StageClock()
        with self._load_clock.stage("load"), ExitStack() as opened:
            if self._encoder is not None:
                opened.enter_context(self._encoder)
            opened.enter_context(self._decoder)
            self._stack = opened.pop_all()
        return self

    def close(self) -> None:
        """Give everything back."""
        self._stack.close()

    def with_encoder(self, wrap: Callable[[Encoder], Encoder]) -> Transcriber:
        """The same parts with another encoder around this one's; what is open is shared."""
        return self._again(self._encoder if self._encoder is None else wrap(self._encoder))

    def without_encoding_ahead(self) -> Transcriber:
        """The same parts, encoder and decoder taking turns: for times of one thing at a time."""
        return self._again(self._encoder, encode_ahead=False)

    def _again(self, encoder: Encoder | None, *, encode_ahead: bool | None = None) -> Transcriber:
        return Transcriber(
            encoder,
            self._decoder,
            self.tokenizer,
            self._plan,
            threads=self._threads,
            reasons=self.reasons,
            encode_ahead=self._encode_ahead if encode_ahead is None else encode_ahead,
        )

    def transcribe(
        self,
        audio: AudioInput,
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
        *,
        long: LongOptions | None = None,
        batch_size: int = 1,
    ) -> Transcript:
        """Transcribe one recording of any length.

        Args:
            audio: a file, or `(n_samples,)` float32 samples at 16 kHz mono in [-1, 1].
            options: language, task, search and cures.
            progress: told after each window how far the work has come.
            long: how recordings longer than a window are taken apart.
            batch_size: windows decoded together, where none depends on the one before.

        Raises:
            AudioError: the audio cannot be read.
            OptionError: options that the model cannot honour.
        """
        (outcome,) = self.transcribe_many(
            [audio], options, progress, long=long, batch_size=batch_size
        )
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def transcribe_many(
        self,
        audio: Iterable[AudioInput],
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
        *,
        long: LongOptions | None = None,
        batch_size: int = 1,
    ) -> Iterator[Transcript | WhisperHailoError]:
        """Transcribe recordings, the windows of several decoded together.

        Args:
            audio: files or samples; each is opened when its turn comes.
            options: language, task, search and cures.
            progress: told after each batch how far its last recording has come.
            long: how recordings longer than a window are taken apart.
            batch_size: windows decoded together.

        Yields:
            the transcript of each recording, or the error that kept it from having one, in the
            order of the input.

        Raises:
            OptionError: options that the model cannot honour.
        """
        options = options or DecodingOptions(cures=self.default_cures)
        long = self._long(long, options)
        self.check(options)
        if not 1 <= batch_size <= MAX_BATCH:
            raise OptionError(f"--batch-size is {batch_size}, expected 1 to {MAX_BATCH}")
        hearing = Hearing(self._encoder, self._interpreter(options), self._plan, options)
        settings = self.settings(options, long, batch_size)

        def begin(source: AudioInput) -> Recording:
            return Recording(source, hearing, self._plan, options, long)

        for outcome in in_batches(
            audio, begin, hearing, batch_size, progress, encode_ahead=self._encode_ahead
        ):
            if isinstance(outcome, WhisperHailoError):
                yield outcome
            else:
                yield self._transcript(outcome, options, settings)

    def _transcript(
        self, recording: Recording, options: DecodingOptions, settings: Settings
    ) -> Transcript:
        load_ms = self._load_clock.timings().load_ms
        return Transcript(
            audio=recording.name,
            duration_s=recording.duration_s,
            language=recording.language,
            task=options.task,
            segments=tuple(recording.segments),
            timings=replace(recording.context.clock.timings(), load_ms=load_ms),
            settings=settings,
            language_probs=recording.context.language_probs,
        )

    def hear(
        self,
        audio: FloatArray,
        options: DecodingOptions,
        draft: Draft | None = None,
        *,
        snug: bool = False,
        word_times: bool = False,
    ) -> BufferText:
        """Hear one buffer of running audio, which may be heard again when more has come.

        Args:
            audio: `(n_samples,)` float32 at 16 kHz mono; at most `content_s` of it is heard.
            options: checked before with `check`.
            draft: what the text is expected to begin with: it saves time and changes nothing.
            snug: encode only as much of the window as the audio fills, where the encoder can.
            word_times: find where each word is, where the decoder can; one pass more.
        """
        parts = (self._encoder, self._decoder, self.tokenizer, self._plan)
        hearing = BufferHearing(*parts, options, snug=snug, word_times=word_times)
        return hearing.hear(audio, draft or Draft())

    @property
    def content_s(self) -> float:
        """Seconds of audio that one window takes."""
        return self._plan.window_s - self._plan.margin_s

    def _long(self, long: LongOptions | None, options: DecodingOptions) -> LongOptions:
        """Windows that overlap are joined by the times of their words, which not all can tell."""
        long = long or LongOptions()
        overlaps = strategy_of(options, long) == "overlap"
        if long.strategy == "auto" and overlaps and not _limits(self._decoder).aligns:
            return replace(long, strategy="consecutive")
        return long

    @property
    def default_cures(self) -> Cures:
        """What keeps this decoder from repeating itself when the caller has no wish of their own.

        Padding, where there can be any; a fixed decoder has all its positions already.
        """
        fixed = _limits(self._decoder).n_positions is not None
        return FIXED_CURES if fixed else PRESETS["conservative"]

    @property
    def parts(self) -> dict[str, Closeable]:
        """Encoder, where there is one, and decoder by these names, for those who measure them."""
        encoder = {} if self._encoder is None else {"encoder": self._encoder}
        return {**encoder, "decoder": self._decoder}

    def with_parts(
        self,
        *,
        encoder: Encoder | None = None,
        decoder: AnyBackEnd | None = None,
        tokenizer: Tokenizer | None = None,
        encode_ahead: bool = True,
    ) -> Transcriber:
        """The same with other parts: wrapped ones that are measured, for example.

        Args:
            encoder: in place of the encoder; `None` keeps it.
            decoder: in place of the decoder; `None` keeps it.
            tokenizer: in place of the tokenizer; `None` keeps it.
            encode_ahead: encode the next windows while the last ones are decoded.
        """
        return Transcriber(
            encoder or self._encoder,
            decoder or self._decoder,
            tokenizer or self.tokenizer,
            self._plan,
            threads=self._threads,
            reasons=self.reasons,
            encode_ahead=encode_ahead,
        )

    def check(self, options: DecodingOptions) -> None:
        """Refuse options that this model cannot honour, before any audio is touched.

        Raises:
            OptionError: unknown language or task, padding beyond the model's context, prompts that
                it cannot take, timestamps or alignment that it does not have, or a rule that the
                engine does not have.
        """
        decoder, pad_to = self._decoder, options.cures.pad_to or 0
        special = self.tokenizer.special
        if options.timestamps and special.timestamp_begin is None:
            raise OptionError("this model has no timestamp tokens; leave out --timestamps")
        if not isinstance(decoder, Recognizer | AudioRecognizer):
            takes = decoder.limits.n_positions
            if takes is not None and pad_to > takes:
                raise OptionError(
                    f"--pad-to is {pad_to}, decoder {decoder.name} has {takes} positions and "
                    "cannot be padded further; use --repetition-penalty"
                )
        else:
            decoder.check(options)
        options.cures.padding(decoder.spec.dims)
        known = special.languages
        language = (
            next(iter(known), "en") if options.language == AUTO_LANGUAGE else options.language
        )
        self.tokenizer.prefix(language, options.task)
        self._interpreter(options)

    def _interpreter(self, options: DecodingOptions) -> Interpreter:
        """What takes audio features, or audio, to text."""
        decoder, tokenizer = self._decoder, self.tokenizer
        if isinstance(decoder, AudioRecognizer):
            return AudioInterpreter(decoder, options)
        if isinstance(decoder, Recognizer):
            return EngineInterpreter(decoder, tokenizer, options)
        return DecoderInterpreter(decoder, tokenizer, options, self._plan.window_s)

    def settings(
        self, options: DecodingOptions, long: LongOptions | None = None, batch_size: int = 1
    ) -> Settings:
        """What shapes the results of these options."""
        spec = self._decoder.spec
        return Settings(
            model=spec.name,
            encoder="-" if self._encoder is None else self._encoder.name,
            decoder=self._decoder.name,
            window_s=self._plan.window_s,
            margin_s=self._plan.margin_s,
            pad_to=_limits(self._decoder).n_positions
            or options.cures.padding(spec.dims).pad_to
            or 0,
            repetition_penalty=options.cures.repetition_penalty,
            eot_boost=options.cures.eot_boost,
            quantization=spec.quantization,
            threads=self._threads,
            reasons=self.reasons,
            windows=strategy_of(options, self._long(long, options)),
            search=options.search.name,
            timestamps=options.timestamps,
            batch_size=batch_size,
        )


def _limits(decoder: AnyBackEnd) -> Limits:
    """A decoder's limits; an engine with its own loop has none that concern us."""
    if isinstance(decoder, Recognizer | AudioRecognizer):
        return Limits(free_padding=False, aligns=False)
    return decoder.limits
