"""One pass of windows through the stages: log-mel, encoder, and what interprets its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.protocols import AsyncEncoder, Encoder
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray, Segment
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.interpreter import Context, Interpreter
from whisper_hailo.transcription.longform.plan import Heard

_HOT = 0.5
"""Text found at a higher temperature is not shown to the next window, as in OpenAI Whisper."""

_MOST_TOKENS = 1024
"""More earlier text than any text context holds."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of windows behind the encoder.

    Attributes:
        features: `(batch, n_audio_ctx, d_model)` float32; `None` where none are wanted.
        clock: what that took.
    """

    features: FloatArray | None
    clock: StageClock


class Hearing:
    """Turns batches of windows into text.

    Args:
        encoder: log-mel to audio features, open; `None` where the interpreter hears audio itself.
        interpreter: audio features to segments.
        plan: sizes of the windows.
        options: what the caller asked for.
    """

    def __init__(
        self,
        encoder: Encoder | None,
        interpreter: Interpreter,
        plan: WindowPlan,
        options: DecodingOptions,
    ) -> None:
        self._encoder = encoder
        self._interpreter = interpreter
        self._plan = plan
        self._conditions = options.prompts.condition_on_previous_text

    def context(self) -> Context:
        """Of a recording that has not begun."""
        return self._interpreter.context()

    def encode(self, windows: Sequence[Window]) -> Encoded:
        """Take windows from audio to audio features; it may run in a thread of its own.

        Args:
            windows: at least one.
        """
        clock = StageClock()
        if self._encoder is None:
            return Encoded(None, clock)
        mel = self._mel(self._encoder, windows, clock)
        with clock.stage("encode"):
            return Encoded(self._encoder.encode(mel), clock)

    @property
    def start(self) -> Callable[[Sequence[Window]], Callable[[], Encoded]] | None:
        """Begins `encode` and gives back what waits for it, where the encoder works by itself."""
        encoder = self._encoder
        return partial(self._start, encoder) if isinstance(encoder, AsyncEncoder) else None

    def _start(self, encoder: AsyncEncoder, windows: Sequence[Window]) -> Callable[[], Encoded]:
        clock = StageClock()
        encoding = encoder.encode_async(self._mel(encoder, windows, clock))

        def wait() -> Encoded:
            features = encoding.result()
            clock.note("encode", encoding.took_ms)
            return Encoded(features, clock)

        return wait

    def _mel(self, encoder: Encoder, windows: Sequence[Window], clock: StageClock) -> FloatArray:
        with clock.stage("mel"):
            # A batch has one shape: that of its longest audio.
            size = self._plan.samples_for(max(window.audio.size for window in windows))
            n_mels = encoder.spec.dims.n_mels
            return np.stack(
                [log_mel(pad_or_trim(window.audio, size), n_mels) for window in windows]
            )

    def interpret(
        self, encoded: Encoded, windows: Sequence[Window], contexts: Sequence[Context]
    ) -> list[Heard]:
        """Take windows from audio features to segments; they are decoded as one batch.

        Args:
            encoded: what `encode` made of these windows.
            windows: at least one.
            contexts: per window, that of its recording; windows of one recording share one.
        """
        clock = encoded.clock
        heard = self._interpreter.interpret(encoded.features, windows, contexts, clock)
        for context in contexts:
            context.clock.add(clock, 1 / len(contexts))
        return heard

    def remember(
        self,
        context: Context,
        heard: Heard,
        final: Sequence[Segment],
        pending: Sequence[Segment] = (),
    ) -> None:
        """Note what the recording's next window is to know.

        Args:
            context: of the recording.
            heard: the window's result.
            final: segments that are final with it.
            pending: segments that the plan holds back until the next window.
        """
        words_end = [segment.words[-1].end_s for segment in final if segment.words]
        if not heard.segments and heard.end_s is not None:
            words_end.append(heard.end_s)  # times without text: there, as OpenAI Whisper has it
        context.last_speech_s = max([context.last_speech_s, *words_end])
        if not self._conditions:
            if not heard.silent:
                context.previous = ()
            return
        waiting = _tokens(pending)
        if heard.decoded.temperature > _HOT and not heard.silent:
            context.previous, context.n_open, context.doubted = (), 0, bool(waiting)
            return
        settled = context.previous[: len(context.previous) - context.n_open]
        said = () if context.doubted else _tokens(final)
        context.previous = (*settled, *said, *waiting)[-_MOST_TOKENS:]
        context.n_open, context.doubted = len(waiting), False


def _tokens(segments: Sequence[Segment]) -> tuple[int, ...]:
    return tuple(token for segment in segments for token in segment.tokens)
