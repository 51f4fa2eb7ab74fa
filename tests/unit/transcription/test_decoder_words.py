"""What is known of a window when its words are looked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.shapes import TOY_TOKENS
from tests.unit.transcription.made_up_words import TOKENIZER, Words, window
from tests.unit.transcription.test_decoder_engine import N_POSITIONS, Rows, State
from whisper_hailo.core.timing import StageClock
from whisper_hailo.decoding.options import DecodingOptions, TokenLimits, WordOptions
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.window import Encoded, WindowRequest, WindowResult

TIMED = DecodingOptions(words=WordOptions())
ODD = np.full((1, 1, 1), 3, np.float32)
"""Audio that Rows takes for the second language."""


def hear(
    decoder: Rows,
    options: DecodingOptions,
    tokenizer: Tokenizer = TOKENIZER,
    last_speech_s: float = 0.0,
) -> WindowResult:
    engine = DecoderEngine(decoder, tokenizer, options, 30.0)  # type: ignore[arg-type]
    context = engine.context()
    context.last_speech_s = last_speech_s
    (heard,) = run_steps(
        engine.steps(Encoded(ODD, StageClock()), [WindowRequest(window(9), context)])
    )
    return heard


@pytest.mark.parametrize("task", ["transcribe", "translate"])
def test_words_are_looked_for_as_they_were_decoded(task: str) -> None:
    decoder = Rows()
    hear(decoder, replace(TIMED, task=task))
    ids = {"transcribe": TOY_TOKENS.transcribe, "translate": TOY_TOKENS.translate}
    prefix = [TOY_TOKENS.sot, TOY_TOKENS.languages["de"], ids[task], TOY_TOKENS.no_timestamps]
    assert decoder.fed[1][0] == prefix, "behind the look at its language"
    assert decoder.fed[-1] == [[*prefix, 3, 3, TOY_TOKENS.eot]]


class Unspaced(Words):
    """No word begins with a blank."""

    def decode(self, ids: Any, **_: object) -> str:
        return "".join(f"w{token}" for token in ids)


@pytest.mark.parametrize(("code", "n_words"), [("de", 1), ("zh", 2)])
def test_words_are_those_of_the_language_that_was_heard(code: str, n_words: int) -> None:
    """Nobody told it: where no blanks are written each token is a word."""
    tokens = replace(TOY_TOKENS, languages={"en": 12, code: 13})
    tokenizer = Tokenizer(Unspaced(), tokens)  # type: ignore[arg-type]
    (segment,) = hear(Rows(), TIMED, tokenizer).segments
    assert segment.language == code
    assert len(segment.words) == n_words


class Eyes(Rows):
    """Three words of 0.4, 0.16 and 0.16 s."""

    def _eyes(self, tokens: np.ndarray, state: State) -> np.ndarray:
        eyes = np.full((1, 1, tokens.shape[1], N_POSITIONS), 1e-6, np.float32)
        edges = {3: (0, 20), 4: (20, 28), 5: (28, 36), 6: (36, N_POSITIONS)}
        for at in range(tokens.shape[1]):
            begin, end = edges.get(at, (0, N_POSITIONS))
            eyes[0, 0, at, begin:end] = 1 / (end - begin)
        return eyes


@pytest.mark.parametrize(("last_speech_s", "start_s"), [(9.0, 9.0), (8.0, 9.08)])
def test_a_long_first_word_is_shortened_where_its_recording_paused_before_it(
    last_speech_s: float, start_s: float
) -> None:
    """To twice the median, if it ends more than four medians behind the window before."""
    (segment,) = hear(Eyes(n_tokens=3), TIMED, last_speech_s=last_speech_s).segments
    first = segment.words[0]
    assert (first.start_s, first.end_s) == pytest.approx((start_s, 9.4))


def test_a_limit_of_tokens_per_second_is_that_of_the_window_s_audio() -> None:
    """Of one second, in a window of thirty."""
    heard = hear(Rows(n_tokens=9), DecodingOptions(limits=TokenLimits(max_per_second=4.0)))
    assert heard.decoded.tokens == (3, 3, 3, 3)
