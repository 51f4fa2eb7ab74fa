"""What a decoder is asked for a window, and what it is spared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.shapes import TOY_TOKENS
from tests.unit.transcription.made_up_words import TOKENIZER, Words, window
from tests.unit.transcription.test_decoder_engine import Rows, Spelling, State, transcribe
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray, Word
from whisper_hailo.decoding.options import (
    DecodingOptions,
    PromptOptions,
    SearchOptions,
    WordOptions,
)
from whisper_hailo.decoding.search.draft_decoder import Costs, DraftStats
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.draft_model import DraftModel
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.window import Encoded, WindowRequest, WindowResult

ENGLISH = DecodingOptions("en")
EOT = TOY_TOKENS.eot
SPELLING = Tokenizer(Spelling(), TOY_TOKENS)  # type: ignore[arg-type]
COSTS = Costs(0.1, 0.05)


def number(value: int) -> FloatArray:
    """Audio features that this number is heard in."""
    return np.full((1, 1, 1), value, np.float32)


def engine(
    decoder: Rows,
    options: DecodingOptions = ENGLISH,
    tokenizer: Tokenizer = TOKENIZER,
    draft: DraftModel | None = None,
) -> DecoderEngine:
    return DecoderEngine(decoder, tokenizer, options, 30.0, draft)  # type: ignore[arg-type]


def hear(own: DecoderEngine, request: WindowRequest, ahead: int | None = None) -> WindowResult:
    encoded = Encoded(number(2), StageClock(), None if ahead is None else number(ahead))
    (heard,) = run_steps(own.steps(encoded, [request]))
    return heard


class Reading(Rows):
    """Says what it says behind a draft of it, too, all in one pass."""

    def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any) -> Any:
        output, after = super().step(tokens, state, positions, **named)
        for look, position in enumerate(positions):
            said = state.audio[0] if position - 3 < self.n_tokens else EOT
            output.logits[0, look] = -9.0
            output.logits[0, look, said] = 9.0
        return output, after


def test_what_a_row_s_text_begins_with_is_its_own_engine_s() -> None:
    decoder = Rows()
    prefixed = replace(ENGLISH, prompts=PromptOptions(prefix="a bb"))
    engines = [engine(decoder, ENGLISH, SPELLING), engine(decoder, prefixed, SPELLING)]
    requests = [WindowRequest(window(2), one.context()) for one in engines]
    features = np.full((2, 1, 1), 2, np.float32)
    run_steps(engines[0].steps(Encoded(features, StageClock()), requests))
    plain, begun = decoder.fed[0]
    assert begun[-2:] == [1, 2]
    assert begun[-3] == plain[-1] == TOY_TOKENS.no_timestamps


def test_running_audio_is_shown_what_is_to_come_before_it() -> None:
    decoder = Rows()
    own = engine(decoder, replace(ENGLISH, prompts=PromptOptions(initial_prompt="a bb")), SPELLING)
    audio = np.zeros(16_000, np.float32)
    heard = hear(own, PartialBuffer(audio, Draft()).request(own.context(), audio.size))
    assert heard.kept_tokens(TOY_TOKENS.eot) == [2, 2]
    assert decoder.fed[0][0][:3] == [TOY_TOKENS.sot_prev, 1, 2]


def test_doubtful_text_of_running_audio_is_not_tried_again() -> None:
    """It repeats itself; more audio comes anyway."""
    options = replace(ENGLISH, search=SearchOptions((0.0, 0.4), retry_beam_size=1))
    whole, running = Rows(n_tokens=20), Reading(n_tokens=20)
    request = WindowRequest(window(2), engine(whole, options).context())
    assert hear(engine(whole, options), request).silent, "no try brought anything else"
    heard = hear(engine(running, options), replace(request, draft=Draft((2, 2))))
    assert (heard.silent, heard.decoded.temperature) == (False, 0.0)
    begun = [[fed[0][0] for fed in decoder.fed] for decoder in (whole, running)]
    assert [first.count(TOY_TOKENS.sot) for first in begun] == [2, 1]


def test_what_nobody_asks_of_running_audio_is_not_done() -> None:
    """Nothing is held back, no word has a time."""
    own = engine(Reading())
    heard = hear(own, WindowRequest(window(2), own.context(), Draft((2, 2))))
    assert (heard.kept_tokens(TOY_TOKENS.eot), heard.words) == ([2, 2], ())


def test_what_is_made_up_of_running_silence_has_no_words() -> None:
    """It would end at once, were it let."""

    class Silent(Reading):
        def step(self, tokens: np.ndarray, state: State, *rest: Any, **named: Any) -> Any:
            output, after = super().step(tokens, state, *rest, **named)
            if state.n_fed == 0 and not named.get("alignment"):
                output.logits[0, 0] = -9.0  # at start-of-transcript
                output.logits[0, 0, TOY_TOKENS.no_speech] = 9.0
                output.logits[0, 1, EOT] = 10.0
            return output, after

    own = engine(Silent())
    heard = hear(own, WindowRequest(window(2), own.context(), Draft(), word_times=True))
    assert heard.decoded.tokens[:2] == (2, 2)
    assert (heard.silent, heard.words) == (True, ())


@pytest.mark.parametrize(
    ("hold_back_s", "kept"),
    [
        *((0.0, (2, 2)), (0.58, (2, 2)), (0.585, (2, 2)), (0.595, (2,)), (0.6, (2,))),
        *((0.98, (2,)), (1.0, ()), (9.0, ())),
    ],
)
def test_what_is_chosen_looking_at_the_last_seconds_is_held_back(
    hold_back_s: float, kept: tuple[int, ...]
) -> None:
    """The first word is chosen looking at position 0 of 50, the second at 20, or 0.4 s."""
    engine = DecoderEngine(Reading(), TOKENIZER, DecodingOptions("en"), 30.0)  # type: ignore[arg-type]
    request = WindowRequest(window(2), engine.context(), Draft((2, 2)), hold_back_s=hold_back_s)
    features = np.full((1, 1, 1), 2, np.float32)
    (heard,) = run_steps(engine.steps(Encoded(features, StageClock()), [request]))
    assert heard.decoded.tokens == kept


@pytest.mark.parametrize("hold_back_s", [0.0, 0.5])
def test_a_decoder_is_asked_where_it_looks_only_where_something_is_held_back(
    hold_back_s: float,
) -> None:
    asked: list[bool] = []

    class Looking(Reading):
        def step(self, *fed: Any, **named: Any) -> Any:
            asked.append(named.get("alignment", False))
            return super().step(*fed, **named)

    engine = DecoderEngine(Looking(), TOKENIZER, DecodingOptions("en"), 30.0)  # type: ignore[arg-type]
    request = WindowRequest(window(2), engine.context(), Draft((2, 2)), hold_back_s=hold_back_s)
    features = np.full((1, 1, 1), 2, np.float32)
    run_steps(engine.steps(Encoded(features, StageClock()), [request]))
    assert set(asked) == {hold_back_s > 0}


def test_a_decoder_without_eyes_holds_nothing_back() -> None:
    decoder = Reading(aligns=False)
    blind = DecoderEngine(decoder, TOKENIZER, DecodingOptions("en"), 30.0)  # type: ignore[arg-type]
    request = WindowRequest(window(2), blind.context(), Draft((2, 2)), hold_back_s=9.0)
    features = np.full((1, 1, 1), 2, np.float32)
    (heard,) = run_steps(blind.steps(Encoded(features, StageClock()), [request]))
    assert heard.decoded.tokens == (2, 2)


class Asked(Rows):
    """Notes whether it is asked where it looks, and for single rows; one alone is not selected."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: list[bool] = []
        self.n_selected = 0

    def step(self, *fed: Any, **named: Any) -> Any:
        self.looked.append(named.get("alignment", False))
        return super().step(*fed, **named)

    def select(self, state: State, rows: np.ndarray) -> State:
        assert len(state.audio) > 1, "a copy of all keys and values, for nothing"
        self.n_selected += 1
        return super().select(state, rows)


class Mute(Words):
    """No id is a word."""

    def decode(self, ids: Any, **_: object) -> str:
        return " "


def test_where_nothing_was_said_no_words_are_looked_for() -> None:
    decoder, timed = Asked(), replace(ENGLISH, words=WordOptions())
    own = engine(decoder, timed, Tokenizer(Mute(), TOY_TOKENS))  # type: ignore[arg-type]
    requests = [WindowRequest(window(2), own.context()) for _ in range(2)]
    features = np.full((2, 1, 1), 2, np.float32)
    silent = run_steps(own.steps(Encoded(features, StageClock()), requests))
    assert [one.segments for one in silent] == [(), ()]
    assert (any(decoder.looked), decoder.n_selected) == (False, 0)
    (heard,), _ = transcribe(decoder, [2], timed)
    assert [word.text for word in heard.segments[0].words] == [" w2", " w2"]
    assert decoder.looked.count(True) == 1


def test_of_two_rows_each_is_aligned_alone() -> None:
    timed = replace(ENGLISH, words=WordOptions())
    together, _ = transcribe(Asked(), [3, 1], timed)
    alone = [transcribe(Asked(), [one], timed)[0][0] for one in (3, 1)]
    assert [one.segments for one in together] == [one.segments for one in alone]


class Commas(Words):
    """Id 2 is a comma."""

    def decode(self, ids: Any, **_: object) -> str:
        return "".join("," if token == 2 else f" w{token}" for token in ids)


@pytest.mark.parametrize(
    ("words", "texts"),
    [(WordOptions(), [",,"]), (WordOptions(prepended="", appended=""), [",", ","])],
)
def test_marks_belong_to_words_as_asked_for(words: WordOptions, texts: list[str]) -> None:
    commas = Tokenizer(Commas(), TOY_TOKENS)  # type: ignore[arg-type]
    own = engine(Rows(), replace(ENGLISH, words=words), commas)
    heard = hear(own, WindowRequest(window(2), own.context()))
    assert [word.text for word in heard.segments[0].words] == texts


def drafting(small: Rows) -> DraftModel:
    return DraftModel("toy", None, small, DraftStats(COSTS, always=2))  # type: ignore[arg-type]


def test_a_draft_model_that_was_left_out_meanwhile_is_not_asked() -> None:
    """It heard the window when it paid; the window before made it no gain."""
    small = Rows()
    own = engine(Rows(), draft=drafting(small))
    context = own.context()
    context.tally = DraftStats(COSTS, n_tokens=99, n_passes=99, n_fed=99, n_steps=9)
    assert not context.tally.is_profitable
    heard = hear(own, WindowRequest(window(2), context), ahead=2)
    assert (heard.segments[0].text, small.fed) == ("w2 w2", [])


def test_what_running_audio_was_heard_as_is_its_draft_beside_a_draft_model_too() -> None:
    own = engine(Reading(), draft=drafting(Reading()))
    request = WindowRequest(window(2), own.context(), Draft((2, 2), n_fixed=1))
    decoded = hear(own, request, ahead=2).decoded
    assert decoded.tokens == (2, 2)
    assert decoded.drafted is not None
    assert decoded.drafted.n_fixed == 1


def test_what_the_window_before_said_of_the_shared_seconds_is_a_draft() -> None:
    """The draft model hears another word, so that what is right is the window before's."""
    small = Reading()
    own = engine(Reading(), draft=drafting(small))
    context = own.context()
    context.last_words = (Word(2.0, 2.5, " w2", 0.9, (2,)), Word(2.5, 3.0, " w2", 0.9, (2,)))
    decoded = hear(own, WindowRequest(window(2), context), ahead=3).decoded
    assert decoded.tokens == (2, 2)
    assert decoded.drafted is not None
    assert decoded.drafted.n_passes == 1
    assert [padding.pad_to for padding in small.paddings] == [1500], "it hears what the other does"
