"""`Transcriber`: recordings and live audio in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Self, TypeAlias, Unpack

from whisper_hailo.audio import AudioSource
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import AnyDecoder, Closeable, Closing, Encoder
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import BufferText, FloatArray, Settings, Transcript
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.keywords import (
    ModelKwargs,
    TranscribeKwargs,
    merge_model_kwargs,
    merge_transcribe_kwargs,
    with_sample_rate,
)
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.partials import PartialBuffer, partial_text, translation_options
from whisper_hailo.transcription.pipeline import Pipeline
from whisper_hailo.transcription.run import Segments, TranscriptionRun
from whisper_hailo.transcription.schedule import Progress, transcribe_in_order
from whisper_hailo.transcription.window_cache import WindowCache

AudioInput: TypeAlias = AudioSource
"""A file, a channel of one, or `(n_samples,)` float32 samples at 16 kHz mono."""


class Transcriber(Closing):
    """A loaded model that turns audio into text.

    Use it in a `with` block, or call `open` and `close`.
    """

    def __init__(self, parts: Pipeline) -> None:
        """Take a pipeline; `from_model` builds one from a model's name."""
        if isinstance(parts, str):
            raise OptionError(
                f"Transcriber is given {parts!r}, expected its parts; "
                f"call Transcriber.from_model({parts!r})"
            )
        self._parts = parts
        self._stack = ExitStack()
        self._load_clock = StageClock()

    def open(self) -> Self:
        """Load the model."""
        self._load_clock = StageClock()
        with self._load_clock.stage("load"), ExitStack() as opened:
            for part in self.parts.values():
                opened.enter_context(part)
            self._stack = opened.pop_all()
        return self

    def close(self) -> None:
        """Free the model and the device."""
        self._stack.close()

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
        **keywords: Unpack[ModelKwargs],
    ) -> Transcriber:
        """Return a transcriber for a model.

        Args:
            model: `micro` (bundled), a model directory, a Hugging Face checkpoint directory, a hub
                id such as `openai/whisper-tiny`, or a short name such as `tiny` or `base.en`.
                Checkpoints are converted once and cached; a directory that Optimum exported is used
                as it is.
            revision: hub commit, tag or branch; `None` is the main branch.
            convert: how to convert a checkpoint.
            window_s: encoder window in seconds; `None` is the encoder's own, or 20 s.
            margin_s: seconds kept free at the end of each window; `None` is 1 s, and 0 for 30 s.
            threads: threads per operator; 0 lets the runtime choose.
            engine: which encoder and decoder; `None` is the model directory's own.
            keywords: any field of `EngineOptions` and of its `hailo`, and `quantize`,
                `encoder_quantize` and `half` of `ConvertOptions`, which override `engine` and
                `convert`: `quantize="none"`.

        Raises:
            ModelError, TokenizerError, HubError, OutputError: see `resolve_model`.
            OptionError: unknown options, or ones that do not fit the model.
            ShapeError, DeviceError: encoder and decoder do not fit the model or each other.
        """
        convert, engine, threads = merge_model_kwargs(convert, engine, threads, keywords)
        parts = Pipeline.of_model(
            model,
            revision=revision,
            convert=convert,
            window_s=window_s,
            margin_s=margin_s,
            threads=threads,
            engine=engine,
        )
        return cls(parts)

    def transcribe(
        self,
        audio: AudioInput,
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
        *,
        long: LongOptions | str | None = None,
        batch_size: int | None = None,
        sample_rate: int | None = None,
        **keywords: Unpack[TranscribeKwargs],
    ) -> Transcript:
        """Transcribe one recording of any length.

        Args:
            audio: a file, or `(n_samples,)` float32 samples in [-1, 1], mono.
            options: `None` is `default_options`.
            progress: called after each window.
            long: how long recordings are cut; the name of a strategy is enough.
            batch_size: windows decoded together, where none depends on the previous one; `None` is
                automatic.
            sample_rate: of samples, in Hz; `None` is 16000. A file has its own.
            keywords: any field of `DecodingOptions` and `LongOptions` and of their groups, which
                override `options` and `long`: `language="de"`, `beam_size=5`, `overlap_s=3`. Names
                of the command line work too: `word_timestamps=True`.

        Raises:
            AudioError: the audio cannot be read.
            OptionError: unknown options, or ones that the model cannot honour.
        """
        run = self._run(options, long, batch_size, progress, keywords=keywords)
        segments = Segments(run, run.recording(with_sample_rate(audio, sample_rate)))
        for _ in segments:
            pass
        return segments.transcript

    def segments(
        self,
        audio: AudioInput,
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
        *,
        long: LongOptions | str | None = None,
        batch_size: int | None = None,
        sample_rate: int | None = None,
        memory: WindowCache | None = None,
        **keywords: Unpack[TranscribeKwargs],
    ) -> Segments:
        """Transcribe one recording, yielding each segment when it is final.

        Arguments and errors are those of `transcribe`, with a `memory` of decoded windows, such as
        a `Journal` of an interrupted run. Options are checked at once; the work stops when you stop
        asking for segments.
        """
        run = self._run(options, long, batch_size, progress, keywords=keywords, memory=memory)
        return Segments(run, run.recording(with_sample_rate(audio, sample_rate)))

    def transcribe_many(
        self,
        audio: Iterable[AudioInput],
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
        *,
        long: LongOptions | str | None = None,
        batch_size: int | None = None,
        sample_rate: int | None = None,
        **keywords: Unpack[TranscribeKwargs],
    ) -> Iterator[Transcript | Exception]:
        """Transcribe recordings, decoding the windows of several together.

        Arguments are those of `transcribe`, but `audio` is several files or samples; each is opened
        when its turn comes. Each gives its transcript or its error, in order.
        """
        run = self._run(options, long, batch_size, progress, keywords=keywords)
        recordings = (run.recording(with_sample_rate(one, sample_rate)) for one in audio)
        return (
            run.transcript(recording) if recording.failure is None else recording.failure
            for recording in transcribe_in_order(recordings, run.schedule)
        )

    def _run(
        self,
        options: DecodingOptions | None,
        long: LongOptions | str | None,
        batch_size: int | None,
        progress: Progress | None,
        *,
        keywords: TranscribeKwargs,
        memory: WindowCache | None = None,
    ) -> TranscriptionRun:
        options, long, logged = merge_transcribe_kwargs(
            options or self.default_options, long, keywords
        )
        return self.run(options, long, batch_size, progress or logged, memory)

    def run(
        self,
        options: DecodingOptions,
        long: LongOptions | None = None,
        batch_size: int | None = None,
        progress: Progress | None = None,
        memory: WindowCache | None = None,
    ) -> TranscriptionRun:
        """Return a run, which transcribes recordings with the same options; see `transcribe`."""
        parts = self._parts
        long = parts.long(long, options)
        parts.check_options(options, long)
        return TranscriptionRun(
            parts,
            options,
            long,
            batch_size=parts.batch_size(batch_size),
            progress=progress,
            load_ms=self._load_clock.timings().load_ms,
            memory=memory,
        )

    def transcribe_running(
        self,
        audio: FloatArray,
        options: DecodingOptions,
        draft: Draft | None = None,
        *,
        trim_window: bool | None = None,
        word_times: bool = False,
        hold_back_s: float = 0.0,
        previous_language: str | None = None,
        translate: bool = False,
    ) -> BufferText:
        """Transcribe live audio, which is called again as more of it arrives.

        Args:
            audio: `(n_samples,)` float32 at 16 kHz mono, of which at most `content_s` are used.
            options: checked before with `check`.
            draft: expected start of the text: it saves time and changes nothing.
            trim_window: see `LongOptions`.
            word_times: align words, where the decoder can; one more pass.
            hold_back_s: see `WindowRequest`.
            previous_language: see `PartialBuffer`.
            translate: decode a second time, into English.
        """
        parts, clock = self._parts, StageClock()
        with clock.stage("total"):
            stages = parts.stages(options, trim_window=parts.trims(options, trim_window))
            running = PartialBuffer(
                audio, draft or Draft(), word_times, hold_back_s, previous_language
            )
            request = parts.partial_request(stages.engine, running)
            encoded = stages.encode([request])
            (result,) = run_steps(stages.engine.steps(encoded, [request]))
            text = partial_text(result, parts.tokenizer)
            if translate and text.words and text.language != "en":
                engine = parts.window_engine(translation_options(options, text.language))
                request = parts.partial_request(engine, PartialBuffer(audio, Draft()))
                (result,) = run_steps(engine.steps(encoded, [request]))
                text = replace(text, translation=partial_text(result, parts.tokenizer).text)
        clock.add(encoded.clock)
        return replace(text, timings=clock.timings())

    def with_parts(
        self,
        *,
        encoder: Encoder | None = None,
        decoder: AnyDecoder | None = None,
        tokenizer: Tokenizer | None = None,
        encode_ahead: bool | None = None,
    ) -> Transcriber:
        """Return the same with other parts, such as wrapped ones; open ones are shared.

        With `encode_ahead`, encoder and decoder run concurrently.
        """
        own = self._parts
        changed = replace(
            own,
            encoder=encoder or own.encoder,
            decoder=decoder or own.decoder,
            tokenizer=tokenizer or own.tokenizer,
            encode_ahead=own.encode_ahead if encode_ahead is None else encode_ahead,
        )
        return Transcriber(changed)

    @property
    def content_s(self) -> float:
        """Seconds of audio per window."""
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
    def default_anti_repetition(self) -> AntiRepetition:
        """The decoder's default against repetition: padding, or a penalty for fixed decoders."""
        return self._parts.default_anti_repetition

    @property
    def default_fallback(self) -> float:
        """Default temperature step of retries; 0 is none."""
        return self._parts.default_fallback

    @property
    def default_options(self) -> DecodingOptions:
        """Default options: the language is detected, and doubtful text retried where possible."""
        return self._parts.default_options

    @property
    def parts(self) -> dict[str, Closeable]:
        """Open parts by name: `encoder`, `decoder`."""
        return {"encoder": self._parts.encoder, "decoder": self._parts.decoder}

    def check(self, options: DecodingOptions, long: LongOptions | None = None) -> None:
        """Refuse options that this model cannot honour, before any audio is read."""
        self._parts.check(options, long)

    def identity(
        self,
        options: DecodingOptions,
        long: LongOptions | None = None,
        batch_size: int | None = None,
    ) -> str:
        """Return a hash of everything that affects the text: program, model, engine, options."""
        return self._parts.identity(options, long, self._parts.batch_size(batch_size))

    def settings(
        self,
        options: DecodingOptions,
        long: LongOptions | None = None,
        batch_size: int | None = None,
    ) -> Settings:
        """Return the settings that results record."""
        return self._parts.settings(options, long, self._parts.batch_size(batch_size))
