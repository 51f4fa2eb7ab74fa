"""The decoded tokens of a window, and tests for silence and doubt."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.repetition import ends_in_loop


@dataclass(frozen=True, slots=True)
class Drafted:
    """The result of decoding with a draft.

    Attributes:
        probabilities: of each token among those allowed at its step; 1 for settled tokens.
        n_fixed: settled tokens, which were not decoded.
        n_passes: decoder passes.
        guess: ids that were held back, empty where the text ends with end-of-transcript; they end
            the draft of the next buffer.
        places: of each token that was decoded, the encoder position that the decoder attended to
            most; empty for complete text, and for decoders without alignment.
    """

    probabilities: tuple[float, ...]
    n_fixed: int
    n_passes: int
    guess: tuple[int, ...] = ()
    places: tuple[int, ...] = ()

    @property
    def all_places(self) -> tuple[int, ...]:
        """Return `places` with 0 for each settled token before them."""
        return (0,) * self.n_fixed + self.places if self.places else ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """The tokens of one window.

    Attributes:
        tokens: generated ids, without the prefix and end-of-transcript.
        avg_logprob: mean natural-log probability of the ids among those allowed at their step,
            end-of-transcript counted, before any repetition penalty.
        no_speech_prob: probability in [0, 1] of the no-speech id at start-of-transcript; 0 for
            models without one.
        runaway: the budget was used up without an end-of-transcript.
        temperature: that gave these tokens.
        compression_ratio: of the text; 0 without text.
        ends_at_once: end-of-transcript was the likeliest first id before any rule.
        made_up: every attempt failed, and none resembles speech.
        drafted: result of the draft, if there was one.
    """

    tokens: tuple[int, ...]
    avg_logprob: float
    no_speech_prob: float
    runaway: bool
    temperature: float = 0.0
    compression_ratio: float = 0.0
    ends_at_once: bool = False
    made_up: bool = False
    drafted: Drafted | None = None

    def is_silence(self, thresholds: Thresholds) -> bool:
        """Return whether the window holds no speech, so that its tokens are made up.

        Rules forbid Whisper to start with end-of-transcript, so it writes something even for
        silence, and a small model does so with confidence. Its unrestricted first choice shows it.

        Source: OpenAI Whisper's `no_speech_threshold` and `logprob_threshold`; `ends_at_once` is
        ours.
        """
        if self.made_up:
            return True
        if thresholds.no_speech is None or self.no_speech_prob <= thresholds.no_speech:
            return False
        if self.ends_at_once:
            return True
        return thresholds.logprob is None or self.avg_logprob <= thresholds.logprob

    def is_doubtful(self, thresholds: Thresholds) -> bool:
        """Return whether to retry at a higher temperature: the text repeats itself or is unlikely.

        Source: OpenAI Whisper, `decode_with_fallback`; silence is not retried.
        """
        unlikely = thresholds.logprob is not None and self.avg_logprob < thresholds.logprob
        silent = thresholds.no_speech is not None and self.no_speech_prob > thresholds.no_speech
        return (self.repeats_itself(thresholds) or unlikely) and not (silent and unlikely)

    def is_unsure(self, thresholds: Thresholds, logprob: float) -> bool:
        """Return whether a beam search may find better words."""
        return not self.is_silence(thresholds) and (
            self.is_doubtful(thresholds) or self.avg_logprob < logprob
        )

    def repeats_itself(self, thresholds: Thresholds) -> bool:
        """Return whether the text compresses better than speech does, or ends in a loop."""
        limit = thresholds.compression_ratio
        if limit is None:
            return False
        return self.compression_ratio > limit or (self.runaway and ends_in_loop(self.tokens))
