"""Windows to text with engines that own their loop."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.types import FloatArray, Segment
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.recognizer import AudioRecognizer, Recognizer
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.assemble import assemble, spread_words
from whisper_hailo.transcription.window import Context, Encoded, WindowRequest, WindowResult


def refuse_beyond_engines(name: str, options: DecodingOptions) -> None:
    """Refuse what needs our own loop; each engine refuses more of its own.

    Raises:
        OptionError: word times, prompts or fallback.
    """
    prompts = options.prompts
    shown = prompts.initial_prompt, prompts.prefix, prompts.hotwords
    refused = {
        "--word-timestamps": options.words is not None,
        "prompts": any(shown) or prompts.condition_on_previous_text,
        "more than one --temperature": len(options.search.temperatures) > 1,
    }
    for what, asked in refused.items():
        if asked:
            raise OptionError(f"{name} has a loop of its own and cannot do {what}; leave that out")


class FeaturesEngine:
    """An engine that takes audio features and gives tokens.

    Args:
        engine: open when `transcribe` is called.
        tokenizer: of the model.
        options: what the caller asked for.

    Raises:
        OptionError: something that needs our own loop.
    """

    def __init__(self, engine: Recognizer, tokenizer: Tokenizer, options: DecodingOptions) -> None:
        refuse_beyond_engines(engine.name, options)
        self._engine = engine
        self._tokenizer = tokenizer
        self._options = options
        self.batch_key: Hashable = options

    def context(self) -> Context:
        """Of a recording that has not begun."""
        return Context(self._options.language)

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        """Recognise windows; those of one language together."""
        audio_features = encoded.features
        if audio_features is None:
            raise OptionError(f"{self._engine.name} needs an encoder")
        with encoded.clock.stage("decode"):
            languages = [
                self._language(audio_features[row : row + 1], request.context)
                for row, request in enumerate(requests)
            ]
            results: dict[int, Decoded] = {}
            for language in sorted(set(languages)):
                rows = [row for row, other in enumerate(languages) if other == language]
                prefix = self._tokenizer.prefix(
                    language, self._options.task, timestamps=self._options.timestamps
                )
                decoded = self._engine.recognize(audio_features[rows], prefix, self._options)
                results.update(zip(rows, decoded, strict=True))
            return [
                self._result(request.window, results[row], languages[row])
                for row, request in enumerate(requests)
            ]

    def _result(self, window: Window, decoded: Decoded, language: str) -> WindowResult:
        result = assemble(window, decoded, language, self._tokenizer, self._options)
        return spread_words(result, self._tokenizer) if window.needs_words else result

    def _language(self, audio_features: FloatArray, context: Context) -> str:
        anew = self._options.detect_each_window
        if context.language != AUTO_LANGUAGE and not anew:
            return context.language
        if not self._tokenizer.special.languages:
            context.language = "en"
            return "en"
        probs = self._engine.detect_language(audio_features)
        if context.language == AUTO_LANGUAGE:
            context.language, context.language_probs = next(iter(probs)), probs
        return next(iter(probs))


class AudioEngine:
    """An engine that takes audio and gives text.

    Args:
        engine: open when `transcribe` is called.
        options: what the caller asked for.

    Raises:
        OptionError: something that needs our own loop.
    """

    def __init__(self, engine: AudioRecognizer, options: DecodingOptions) -> None:
        refuse_beyond_engines(engine.name, options)
        self._engine = engine
        self._options = options
        self.batch_key: Hashable = options

    def context(self) -> Context:
        """Of a recording that has not begun."""
        language = self._options.language
        return Context("en" if language == AUTO_LANGUAGE else language)

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        """Recognise windows one by one."""
        with encoded.clock.stage("decode"):
            return [self._result(request.window, request.context) for request in requests]

    def _result(self, window: Window, context: Context) -> WindowResult:
        text = self._engine.recognize_audio(window.audio, self._options).strip()
        segment = Segment(
            start_s=window.start_s,
            end_s=window.end_s,
            text=text,
            tokens=(),
            avg_logprob=0.0,
            no_speech_prob=0.0,
            language=context.language,
            window_start_s=window.start_s,
        )
        result = WindowResult(
            window=window,
            decoded=Decoded((), 0.0, 0.0, runaway=False),
            segments=(segment,) if text else (),
            advance_s=window.content_s,
            language=context.language,
        )
        return spread_words(result, None) if window.needs_words else result
