"""Windows whose text ends before their speech does are decoded further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES, SileroDetector, SpeechDetector, quiet_gain
from whisper_hailo.core.protocols import AnyDecoder, DecoderState
from whisper_hailo.core.types import SAMPLE_RATE_HZ, SECONDS_PER_TIMESTAMP, FloatArray
from whisper_hailo.decoding.decoded import Decoded, compression_ratio
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, Steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.window import WindowRequest

_MIN_TAIL_S: Final = 1.0
"""Less audio after the text is the end of its last word."""

_MIN_SPEECH_S: Final = 0.6
_THRESHOLD: Final = 0.5
_LEAD_S: Final = 0.2
"""Kept before speech: detectors miss soft first sounds."""

_MAX_ROUNDS: Final = 3


@dataclass(slots=True)
class SpeechCompleter:
    """Completes windows whose text ends too early.

    Whisper was trained on windows whose last sentence may be cut: it leaves that sentence to the
    next window, and sometimes all that follows a pause. OpenAI Whisper seeks back to the end of the
    text. Windows cut in advance are completed instead: the decoder gets its own text and the time
    at which speech goes on, and may not end there.
    """

    loop: DecodingLoop
    decoder: AnyDecoder
    tokenizer: Tokenizer
    options: DecodingOptions
    detector: SpeechDetector | None = None

    def complete(
        self,
        state: DecoderState,
        requests: Sequence[WindowRequest],
        tasks: Sequence[DecodingTask],
        decoded: Sequence[Decoded],
    ) -> Steps[tuple[Decoded, ...]]:
        """Return the windows' tokens, with those of missed speech; `state` has a row per window."""
        results = list(decoded)
        for row, (request, task) in enumerate(zip(requests, tasks, strict=True)):
            if request.draft is not None or request.window.is_sought:
                continue
            for _ in range(_MAX_ROUNDS):
                audio = request.window.audio
                longer = yield from self._resume(state, row, audio, task, results[row])
                if longer is None:
                    break
                results[row] = longer
        return tuple(results)

    def _resume(
        self, state: DecoderState, row: int, audio: FloatArray, task: DecodingTask, decoded: Decoded
    ) -> Steps[Decoded | None]:
        """Return a window's tokens with those of missed speech; `None` without any."""
        begin, thresholds = self.tokenizer.special.timestamp_begin, self.options.thresholds
        tokens = decoded.tokens
        if not self.options.timestamps or begin is None:
            return None
        if not tokens or tokens[-1] < begin or decoded.is_silence(thresholds):
            return None
        start_s = self._find_speech(audio, (tokens[-1] - begin) * SECONDS_PER_TIMESTAMP)
        if start_s is None:
            return None
        is_pair = len(tokens) > 1 and tokens[-2] >= begin
        start = begin + round(start_s / SECONDS_PER_TIMESTAMP)
        settled = (*(tokens[:-1] if is_pair else tokens), start)
        draft = Draft(settled, n_fixed=len(settled), goes_on=True)
        alone = self.decoder.select(state, np.array([row], dtype=np.int64))
        again = replace(task, draft=draft)
        (found,) = yield from self.loop.steps(alone, [again], beam_size=1)
        rest = found.tokens[len(settled) :]
        text = self.tokenizer.decode(rest).strip()
        rest_only = replace(found, tokens=rest, compression_ratio=compression_ratio(text))
        if not text or found.runaway or rest_only.is_doubtful(thresholds):
            return None
        sum_logprob = decoded.avg_logprob * len(tokens) + found.avg_logprob * len(rest)
        return replace(
            decoded,
            tokens=found.tokens,
            avg_logprob=sum_logprob / (len(tokens) + len(rest)),
            compression_ratio=compression_ratio(self.tokenizer.decode(found.tokens).strip()),
        )

    def _find_speech(self, audio: FloatArray, end_s: float) -> float | None:
        """Return where speech goes on after `end_s` in the window, in seconds, or `None`."""
        tail = audio[round(end_s * SAMPLE_RATE_HZ) :]
        if tail.size < _MIN_TAIL_S * SAMPLE_RATE_HZ:
            return None
        if self.detector is None:
            self.detector = SileroDetector()
        self.detector.reset()
        tail = quiet_gain(tail) * tail
        frames = tail[: tail.size // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
        is_speech = [self.detector.probability(frame) > _THRESHOLD for frame in frames]
        if sum(is_speech) * FRAME_SAMPLES < _MIN_SPEECH_S * SAMPLE_RATE_HZ:
            return None
        onset_s = is_speech.index(True) * FRAME_SAMPLES / SAMPLE_RATE_HZ
        return end_s + max(0.0, onset_s - _LEAD_S)
