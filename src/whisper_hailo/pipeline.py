"""The `Transcriber`: the only place where the stages meet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.convert.cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.protocols import AnyDecoder, Encoder, Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, Segment, Settings, Transcript
from whisper_hailo.decoding.greedy import Decoded, Greedy, detect_language
from whisper_hailo.decoding.options import AUTO_LANGUAGE, DecodingOptions
from whisper_hailo.features import log_mel, pad_or_trim
from whisper_hailo.timing import StageClock
from whisper_hailo.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo.windows import Window, WindowPlan, consecutive

AudioInput: TypeAlias = str | Path | FloatArray
"""A file, or `(n_samples,)` float32 samples at 16 kHz mono."""

Progress: TypeAlias = Callable[[float, float | None], None]
"""Called after each window with seconds done and seconds in all (`None`: unknown)."""


class Transcriber(Closing):
    """An encoder, a decoder and a tokenizer of one model, ready to turn audio into text.

    Use it in a `with` block, or call `open` and `close`.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: AnyDecoder,
        tokenizer: Tokenizer,
        plan: WindowPlan,
        *,
        threads: int = 0,
    ) -> None:
        """Join the parts.

        Args:
            encoder: log-mel to audio features.
            decoder: audio features to tokens, of the same model.
            tokenizer: tokens to text.
            plan: the windows that the audio is cut into.
            threads: recorded in the results' settings.
        """
        self._encoder = encoder
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._plan = plan
        self._threads = threads
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
    ) -> Transcriber:
        """Put a transcriber together from a model's name.

        Args:
            model: `micro` (bundled), a model directory, a Hugging Face checkpoint directory, a hub
                id such as `openai/whisper-tiny`, or a short name such as `tiny` or `base.en`.
                Checkpoints are converted once and cached.
            revision: hub commit, tag or branch; `None` is the main branch.
            convert: how to convert a checkpoint.
            window_s: encoder window in seconds; `None` is 10 s.
            margin_s: seconds kept free at the end of each window; `None` is 1 s, and 0 for 30 s.
            threads: threads per operator; 0 lets the runtime choose.

        Raises:
            ModelError, TokenizerError, HubError, OutputError: see `resolve_model`.
            OptionError: a window that the model cannot take.
        """
        from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder

        directory = resolve_model(model, convert, revision=revision)
        spec = ModelSpec.load(directory)
        return cls(
            OnnxEncoder(directory, spec, threads=threads),
            CachedDecoder(directory, spec, threads=threads),
            Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens),
            WindowPlan.make(spec.dims, window_s, margin_s),
            threads=threads,
        )

    def open(self) -> Self:
        """Load the model."""
        self._load_clock = StageClock()
        with self._load_clock.stage("load"), ExitStack() as opened:
            opened.enter_context(self._encoder)
            opened.enter_context(self._decoder)
            self._stack = opened.pop_all()
        return self

    def close(self) -> None:
        """Give everything back."""
        self._stack.close()

    def transcribe(
        self,
        audio: AudioInput,
        options: DecodingOptions | None = None,
        progress: Progress | None = None,
    ) -> Transcript:
        """Transcribe one recording of any length by consecutive windows.

        Args:
            audio: a file, or `(n_samples,)` float32 samples at 16 kHz mono in [-1, 1].
            options: language, task and cures.
            progress: told after each window how far the work has come.

        Raises:
            AudioError: the audio cannot be read.
            OptionError: language, task or cures that the model cannot honour.
        """
        options = options or DecodingOptions()
        self.check(options)
        work = _Work(self._encoder, self._decoder, self._tokenizer, self._plan, options)
        with work.clock.stage("total"), open_audio(audio) as stream:
            for window in consecutive(stream.blocks(self._plan.content_samples)):
                work.add(window)
                if progress is not None:
                    progress(window.end_s, stream.duration_s)
        load_ms = self._load_clock.timings().load_ms
        return Transcript(
            audio=stream.name,
            duration_s=work.duration_s,
            language=work.language,
            task=options.task,
            segments=tuple(work.segments),
            timings=replace(work.clock.timings(), load_ms=load_ms),
            settings=self.settings(options),
        )

    def check(self, options: DecodingOptions) -> None:
        """Refuse options that this model cannot honour, before any audio is touched.

        Raises:
            OptionError: unknown language or task, or padding beyond the model's context.
        """
        options.cures.padding(self._decoder.spec.dims)
        known = self._tokenizer.special.languages
        language = (
            next(iter(known), "en") if options.language == AUTO_LANGUAGE else options.language
        )
        self._tokenizer.prefix(language, options.task)

    def settings(self, options: DecodingOptions) -> Settings:
        """What shapes the results of these options."""
        spec = self._decoder.spec
        return Settings(
            model=spec.name,
            encoder=self._encoder.name,
            decoder=self._decoder.name,
            window_s=self._plan.window_s,
            margin_s=self._plan.margin_s,
            pad_to=options.cures.padding(spec.dims).pad_to or 0,
            repetition_penalty=options.cures.repetition_penalty,
            eot_boost=options.cures.eot_boost,
            quantization=spec.quantization,
            threads=self._threads,
        )


class _Work:
    """One recording on its way through the stages."""

    def __init__(
        self,
        encoder: Encoder,
        decoder: AnyDecoder,
        tokenizer: Tokenizer,
        plan: WindowPlan,
        options: DecodingOptions,
    ) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._plan = plan
        self._options = options
        self._padding: Padding = options.cures.padding(decoder.spec.dims)
        self._greedy = Greedy(decoder, tokenizer.special, options)
        self.clock = StageClock()
        self.segments: list[Segment] = []
        self.duration_s = 0.0
        self.language = options.language

    def add(self, window: Window) -> None:
        """Take one window from audio to text."""
        with self.clock.stage("mel"):
            audio = pad_or_trim(window.audio, self._plan.window_samples)
            mel = log_mel(audio, self._encoder.spec.dims.n_mels)[np.newaxis]
        with self.clock.stage("encode"):
            audio_features = self._encoder.encode(mel)
        with self.clock.stage("cross_kv"):
            state = self._decoder.start(audio_features, (self._padding,))
        with self.clock.stage("decode"):
            decoded = self._decode(state)
        self.duration_s = window.end_s
        text = self._tokenizer.decode(decoded.tokens).strip()
        if text and not decoded.is_silence(self._options):
            self.segments.append(_segment(window, decoded, text))

    def _decode(self, state: Any) -> Decoded:  # noqa: ANN401 - the decoder's own state type
        if self.language == AUTO_LANGUAGE:
            self.language = self._detect(state)
        prefix = self._tokenizer.prefix(self.language, self._options.task)
        return self._greedy.run(state, prefix)[0]

    def _detect(self, state: Any) -> str:  # noqa: ANN401 - the decoder's own state type
        """Likeliest language of the first window; English-only models know one."""
        special = self._tokenizer.special
        if not special.languages:
            return "en"
        return next(iter(detect_language(self._decoder, state, special)))


def _segment(window: Window, decoded: Decoded, text: str) -> Segment:
    return Segment(
        start_s=window.start_s,
        end_s=window.end_s,
        text=text,
        tokens=decoded.tokens,
        avg_logprob=decoded.avg_logprob,
        no_speech_prob=decoded.no_speech_prob,
        runaway=decoded.runaway,
    )
