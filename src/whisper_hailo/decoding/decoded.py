"""What is left of a window when its decoding is done."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.decoding.option_groups import Thresholds
from whisper_hailo.decoding.repetition import ends_in_loop


@dataclass(frozen=True, slots=True)
class Drafted:
    """What became of a draft.

    Attributes:
        probabilities: of each token among those allowed at its step; 1 where taken for granted.
        n_fixed: so many tokens were taken for granted.
        n_passes: decoder passes.
        n_fed: tokens fed in all passes together, those of the prompt not counted.
        n_accepted: ids of the draft that were confirmed, those taken for granted not counted.
        guess: ids at which the text was held back; empty where it ends with end-of-transcript. They
            often come true, so the draft of the next buffer does well to end with them.
    """

    probabilities: tuple[float, ...]
    n_fixed: int
    n_passes: int
    n_fed: int
    n_accepted: int
    guess: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """The tokens of one window.

    Attributes:
        tokens: generated ids, without the prefix and without end-of-transcript.
        avg_logprob: mean natural-log probability of the ids among those allowed at their step,
            end-of-transcript counted, before any repetition penalty.
        no_speech_prob: probability in [0, 1] of the no-speech id at start-of-transcript; 0 for
            models that have none.
        runaway: the budget was used up without an end-of-transcript.
        temperature: at which these tokens were found.
        compression_ratio: of the text, see `decoding.text.compression_ratio`; 0 without text.
        ends_at_once: before any rule end-of-transcript was the likeliest first id.
        made_up: every try failed, and none came near to speech.
        drafted: what became of the draft, where there was one.
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
        """Whether the window holds no speech, so that its tokens are made up.

        Whisper may not begin with end-of-transcript, so it says something even of silence, and a
        small model says it without a doubt. What it would have said of its own accord tells.

        Source: OpenAI Whisper's `no_speech_threshold` and `logprob_threshold`; that a text which
        would have ended before it began is silence whatever its probability is ours.
        """
        if self.made_up:
            return True
        if thresholds.no_speech is None or self.no_speech_prob <= thresholds.no_speech:
            return False
        if self.ends_at_once:
            return True
        return thresholds.logprob is None or self.avg_logprob <= thresholds.logprob

    def is_doubtful(self, thresholds: Thresholds) -> bool:
        """Whether a higher temperature should be tried: text that repeats itself or is unlikely.

        Source: OpenAI Whisper, `decode_with_fallback`: silence is no reason to try again.
        """
        unlikely = thresholds.logprob is not None and self.avg_logprob < thresholds.logprob
        silent = thresholds.no_speech is not None and self.no_speech_prob > thresholds.no_speech
        return (self.repeats_itself(thresholds) or unlikely) and not (silent and unlikely)

    def is_unsure(self, thresholds: Thresholds, logprob: float) -> bool:
        """Whether a wider search may find better words than this text's."""
        return not self.is_silence(thresholds) and (
            self.is_doubtful(thresholds) or self.avg_logprob < logprob
        )

    def repeats_itself(self, thresholds: Thresholds) -> bool:
        """Whether the text compresses better than speech does, or ran into a loop."""
        limit = thresholds.compression_ratio
        if limit is None:
            return False
        return self.compression_ratio > limit or (self.runaway and ends_in_loop(self.tokens))
