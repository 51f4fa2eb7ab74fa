"""`Transcriber`: recordings and live audio in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Self, TypeAlias, Unpack

from whisper_hailo.audio import AudioSource
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.model_files import model_file
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import engine_window_s, select
from whisper_hailo.convert.model_cache import find_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import BufferText, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo.transcription.arguments import (
    merge_model_kwargs,
    merge_speaker_kwargs,
    merge_transcribe_kwargs,
    with_sample_rate,
)
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.partials import PartialBuffer, translation_options
from whisper_hailo.transcription.pipeline import Pipeline
from whisper_hailo.transcription.recording import Recording, SpeakerSearch
from whisper_hailo.transcription.run import Segments, TranscriptionRun
from whisper_hailo.transcription.schedule import Progress, transcribe_in_order
from whisper_hailo.transcription.typed_arguments import ModelKwargs, TranscribeKwargs
from whisper_hailo.transcription.window import Encoded, WindowRequest
from whisper_hailo.transcription.window_cache import WindowCache

if TYPE_CHECKING:
    from whisper_hailo.speakers.finder import SpeakerFinder

AudioInput: TypeAlias = AudioSource
"""A file, a channel of one, or `(n_samples,)` or `(n_samples, n_channels)` samples at 16 kHz."""


@dataclass(eq=False, repr=False)
class Transcriber(Pipeline, Closing):
    """A loaded model that turns audio into text.

    `from_model` builds one from a model's name. The first use loads the model, `close` or the end
    of a `with` block frees it. Several threads may use one. `dataclasses.replace` gives one with
    other parts; open ones are shared.
    """

    _opened: ExitStack = field(default_factory=ExitStack, init=False)
    _speakers: SpeakerFinder | None = field(default=None, init=False)
    _is_open: bool = field(default=False, init=False)
    _lock: RLock = field(default_factory=RLock, init=False)

    def __repr__(self) -> str:
        return (
            f"<Transcriber {self.decoder.spec.name}, window {self.plan.window_s:g} s, encoder "
            f"{self.encoder.name}, decoder {self.decoder.name}>"
        )

    def open(self) -> Self:
        """Load the model, unless it is loaded."""
        with self._lock:
            if not self._is_open:
                self._load()
        return self

    def _load(self) -> None:
        clock = StageClock()
        with clock.stage("load"), ExitStack() as opened:
            opened.enter_context(self.encoder)
            opened.enter_context(self.decoder)
            self._opened = opened.pop_all()
        self.load_ms = clock.timings().load_ms
        self._is_open = True

    def close(self) -> None:
        """Free the model and the device; the next use loads them again."""
        with self._lock:
            self._is_open = False
            self._opened.close()
            if self._speakers is not None:
                self._speakers.close()

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
        convert, engine, threads = merge_model_kwargs(
            convert, engine, threads, keywords
        )
        directory, spec = find_model(
            model, convert, revision=revision, tokenizer=engine.tokenizer
        )
        chosen = select(directory, spec, engine, threads, window_s)
        tokenizer = directory / TOKENIZER_FILE
        # A directory of another program lists no files.
        if TOKENIZER_FILE in spec.files:
            tokenizer = model_file(directory, spec, TOKENIZER_FILE)
        return cls(
            chosen.encoder,
            chosen.decoder,
            Tokenizer.load(engine.tokenizer or tokenizer, spec.tokens),
            WindowPlan.make(
                spec.dims, engine_window_s(chosen, spec, window_s), margin_s
            ),
            threads=threads,
            reasons=chosen.reasons,
        )

    def transcribe(
        self,
        audio: AudioInput,
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
        **keywords: Unpack[TranscribeKwargs],
    ) -> Transcript:
        """Transcribe one recording of any length.

        Args:
            audio: a file, or `(n_samples,)` or `(n_samples, n_channels)` samples: floats in
                [-1, 1], or whole numbers such as int16. Channels are mixed.
            options: `None` is `default_options`.
            progress: called after each window.
            keywords: any field of `DecodingOptions` and `LongOptions` and of their groups, which
                override `options` and `long`: `language="de"`, `beam_size=5`, `overlap_s=3`. Names
                of the command line work too: `no_speech_threshold=0.5`. `long` says how long
                recordings are cut; the name of a strategy is enough. `batch_size` windows are
                decoded together, where none depends on the previous one; `None` is automatic.
                `sample_rate` of samples is in Hz; `None` is 16000. A file has its own. `speakers`
                tells speakers apart: True, their number, or a range such as "2-5";
                `speaker_names` are theirs in order of appearance. Segments and words get a
                `speaker`, and word times.

        Raises:
            AudioError: the audio cannot be read.
            OptionError: unknown options, or ones that the model cannot honour.
            HubError, ModelError: the speaker models are not to be had.
        """
        segments = self.segments(audio, options, progress, **keywords)
        for _ in segments:
            pass
        return segments.transcript

    def segments(
        self,
        audio: AudioInput,
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
        *,
        cache: WindowCache | None = None,
        speaker_progress: Progress | None = None,
        **keywords: Unpack[TranscribeKwargs],
    ) -> Segments:
        """Transcribe one recording, yielding each segment when it is final.

        Arguments and errors are those of `transcribe`, with a `cache` of the windows that an
        interrupted run decoded, and a `speaker_progress` that is called after each second in which
        speakers were looked for. Options are checked at once; the work stops when you stop asking
        for segments.
        """
        run, recordings = self._make_run(
            [audio],
            options,
            progress,
            keywords,
            cache=cache,
            speaker_progress=speaker_progress,
        )
        return Segments(run, next(recordings))

    def transcribe_many(
        self,
        audio: Iterable[AudioInput],
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
        **keywords: Unpack[TranscribeKwargs],
    ) -> Iterator[Transcript | Exception]:
        """Transcribe recordings, decoding the windows of several together.

        Arguments are those of `transcribe`, but `audio` is several files or samples; each is opened
        when its turn comes. Each gives its transcript or its error, in order.
        """
        run, recordings = self._make_run(audio, options, progress, keywords)
        return (
            run.transcript(recording)
            if recording.failure is None
            else recording.failure
            for recording in transcribe_in_order(recordings, run.schedule)
        )

    def detect_language(
        self, audio: AudioInput, *, sample_rate: int | None = None
    ) -> dict[str, float]:
        """Return the probability of each language by its code, likeliest first.

        The first window with speech decides; without speech there is no language.

        Args:
            audio: as of `transcribe`.
            sample_rate: of samples, in Hz; `None` is 16000.

        Raises:
            AudioError: the audio cannot be read.
        """
        # One token tells speech from silence, whose language would mean nothing.
        options = DecodingOptions(
            anti_repetition=self.default_anti_repetition,
            max_new_tokens=1,
        )
        segments = self.segments(audio, options, batch_size=1, sample_rate=sample_rate)
        is_speech = next(segments, None) is not None
        segments.close()
        if not is_speech or segments.language is None:
            return {}
        return segments.language_probs or {segments.language: 1.0}

    def _make_run(
        self,
        audio: Iterable[AudioInput],
        options: DecodingOptions | None,
        progress: Progress | None,
        keywords: TranscribeKwargs,
        *,
        cache: WindowCache | None = None,
        speaker_progress: Progress | None = None,
    ) -> tuple[TranscriptionRun, Iterator[Recording]]:
        """Check the options; return a run, and its recordings one by one."""
        batch_size = keywords.pop("batch_size", None)
        sample_rate = keywords.pop("sample_rate", None)
        others = dict(keywords)
        speakers = merge_speaker_kwargs(others)
        options, long, log_progress = merge_transcribe_kwargs(
            options or self.default_options, others
        )
        find_speakers: SpeakerSearch | None = None
        if speakers.is_requested:
            find_speakers = partial(
                self._speaker_finder(speakers).find,
                options=speakers,
                progress=speaker_progress,
            )
            # Without word times whole segments are given to speakers.
            has_words = options.word_timestamps or self.decoder.limits.aligns
            options = replace(options, word_timestamps=has_words)
        run = TranscriptionRun(
            self,
            options,
            long,
            batch_size,
            progress=progress or log_progress,
            cache=cache,
            find_speakers=find_speakers,
        )
        recordings = (
            run.recording(with_sample_rate(source, sample_rate)) for source in audio
        )
        self.open()  # options that cannot be honoured were refused before it
        return run, recordings

    def _speaker_finder(self, options: SpeakerOptions) -> SpeakerFinder:
        """Return the speaker models, loaded for the first recording that needs them."""
        # Here, since most recordings are transcribed without a search for speakers.
        from whisper_hailo.speakers.finder import SpeakerFinder

        with self._lock:
            folder = options.speaker_models
            if self._speakers is None or self._speakers.folder != folder:
                self._speakers = SpeakerFinder(folder, self.threads)
            self._speakers.load()
            return self._speakers

    def transcribe_running(
        self,
        buffer: PartialBuffer,
        options: DecodingOptions,
        *,
        trim_window: bool | None = None,
        translate: bool = False,
    ) -> BufferText:
        """Transcribe live audio, which is called again as more of it arrives.

        Args:
            buffer: the audio, of which at most `content_s` are used.
            options: decoding options.
            trim_window: see `LongOptions`.
            translate: decode a second time, into English.
        """
        self.open()
        clock = StageClock()
        long = LongOptions(trim_window=trim_window)
        with clock.stage("total"):
            run = TranscriptionRun(self, options, long, 1)
            request = run.request(buffer)
            encoded = run.stages.encode([request])
            text = _decode_running(run, encoded, request)
            if translate and text.words and text.language != "en":
                # The same audio features, in a prompt that asks for English.
                options = translation_options(options, text.language)
                translation = TranscriptionRun(self, options, long, 1)
                request = translation.request(PartialBuffer(buffer.audio))
                english = _decode_running(translation, encoded, request)
                text = replace(text, translation=english.text)
        clock.add(encoded.clock)
        return replace(text, timings=clock.timings())


def _decode_running(
    run: TranscriptionRun, encoded: Encoded, request: WindowRequest
) -> BufferText:
    """Return the text of one encoded window of live audio."""
    (result,) = run_steps(run.stages.engine.decode_windows(encoded, [request]))
    return run.text(result)
