"""Which windows are tried again, at which temperatures, and whose audio they then decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.unit.decoding.search.scripted import EOT, PREFIX, Scripted, State, decode
from tests.unit.shapes import TOY, TOY_TOKENS
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.option_groups import SearchOptions, Thresholds
from whisper_hailo.decoding.options import Cures, DecodingOptions
from whisper_hailo.decoding.search.fallback import decode_with_fallback
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.text.tokenizer import Tokenizer


class Letters:
    """Id 0 is `a`, and so on."""

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return "".join(chr(97 + token) for token in ids)


TOKENIZER = Tokenizer(Letters(), TOY_TOKENS)  # type: ignore[arg-type]


@dataclass
class Torn(Scripted):
    """Each row says three tokens of its own, torn between two of them, then ends.

    Attributes:
        shares: of each row, the probability of the likelier one.
        no_speech: of each row, the probability of no speech.
    """

    shares: Sequence[float] = ()
    no_speech: Mapping[int, float] = field(default_factory=dict)

    def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any) -> Any:
        self.fed.append(tokens.tolist())
        odds = np.full((len(state.rows), len(positions), TOY.n_vocab), 1e-9)
        for row, of in enumerate(state.rows):
            if state.step == 3:
                odds[row, -1, EOT] = 1.0
            else:
                odds[row, -1, 2 * of] = self.shares[of]
                odds[row, -1, 2 * of + 1] = 1 - self.shares[of]
            if state.step == 0:  # at start-of-transcript, where all else is id 1
                silent = self.no_speech.get(of, 1e-9)
                odds[row, 0, [TOY_TOKENS.no_speech, 1]] = silent, 1 - silent
        logits = np.log(odds).astype(np.float32)
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits, sums), State(state.step + 1, state.rows)


def tried(
    decoder: Torn,
    temperatures: tuple[float, ...] = (0.0, 0.4, 0.8),
    thresholds: Thresholds | None = None,
) -> tuple[Decoded, ...]:
    """Windows decoded until their mean log-probability is above -0.3."""
    options = DecodingOptions(
        search=SearchOptions(temperatures=temperatures, best_of=2),
        thresholds=thresholds or Thresholds(logprob=-0.3),
        max_new_tokens=6,
    )
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    tasks = [DecodingTask(PREFIX, key=row) for row in range(len(decoder.shares))]
    return decode_with_fallback(
        loop,
        decoder,  # type: ignore[arg-type]
        TOKENIZER,
        options,
        state=decoder.start(),
        tasks=tasks,
    )


def torn(*shares: float, **named: Any) -> Torn:
    return Torn([[0]] * len(shares), shares=shares, **named)


def test_only_windows_in_doubt_are_tried_again_and_each_keeps_its_own_audio() -> None:
    """Row 0 is sure of what it hears; 1 and 2 are torn and go hotter, as rows 0 and 1."""
    sure, *doubtful = tried(torn(0.99, 0.5, 0.5))
    assert (sure.tokens, sure.temperature) == ((0, 0, 0), 0.0)
    assert [one.temperature for one in doubtful] == [0.8, 0.8]
    assert set(doubtful[0].tokens) <= {2, 3}
    assert set(doubtful[1].tokens) <= {4, 5}


def test_a_window_in_a_batch_is_tried_as_it_is_alone() -> None:
    shares = (0.99, 0.5, 0.5)
    batch = tried(torn(*shares))
    for row in (1, 2):
        only = [0.99] * 3
        only[row] = shares[row]
        assert tried(torn(*only))[row] == batch[row]


def test_nothing_is_tried_again_where_nothing_is_in_doubt() -> None:
    decoder = torn(0.99, 0.99)
    assert [one.temperature for one in tried(decoder)] == [0.0, 0.0]
    assert len(decoder.fed) == 4


def test_a_window_that_passes_when_hotter_is_not_tried_again() -> None:
    """The gate opens between the temperatures: what is at 0.4 is taken."""

    class Settled(Torn):
        def step(self, tokens: np.ndarray, *args: Any, **named: Any) -> Any:
            if len(self.fed) == 4:  # the first text took four passes
                self.shares = (0.999,)
            return super().step(tokens, *args, **named)

    decoder = Settled([[0]], shares=(0.5,))
    (decoded,) = tried(decoder)
    assert decoded.temperature == 0.4
    assert len(decoder.fed) == 8


def test_the_last_temperature_s_text_is_taken_as_it_is() -> None:
    (decoded,) = tried(torn(0.5), (0.0,))
    assert decoded.temperature == 0.0
    assert decoded.avg_logprob == pytest.approx(3 * np.log(0.5) / 4, abs=1e-4)


def test_text_of_audio_that_goes_on_is_taken_as_it_is() -> None:
    """It is soon transcribed again anyway."""
    options = DecodingOptions(search=SearchOptions((0.0, 0.4)), thresholds=Thresholds(logprob=-0.3))
    decoder = torn(0.5)
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    (decoded,) = decode_with_fallback(
        loop,
        decoder,  # type: ignore[arg-type]
        TOKENIZER,
        options,
        state=decoder.start(),
        tasks=[DecodingTask(PREFIX, is_running=True)],
    )
    assert decoded.is_doubtful(options.thresholds)
    assert (decoded.tokens, decoded.temperature, len(decoder.fed)) == ((0, 0, 0), 0.0, 4)


def test_close_choices_of_all_tries_are_counted_together() -> None:
    options = DecodingOptions(search=SearchOptions(best_of=2), max_new_tokens=6)
    in_each = [decode(torn(0.5), options, temperature=t)[0].near_ties for t in (0.0, 0.4, 0.8)]
    assert in_each[0] == 3
    (whole,) = tried(torn(0.5))
    assert whole.near_ties == sum(in_each)
    (once,) = tried(torn(0.5), (0.0,))
    assert once.near_ties == in_each[0]


@dataclass
class Louder(Torn):
    """All of its logits are higher by three, which changes no probability."""

    def step(self, *fed: Any, **named: Any) -> Any:
        output, after = super().step(*fed, **named)
        return StepOutput(output.logits + 3.0, output.logsumexp + 3.0), after


@pytest.mark.parametrize("make", [Torn, Louder])
@pytest.mark.parametrize(
    ("search", "temperature"),
    [
        *((SearchOptions(best_of=1, seed=seed), 1.5) for seed in range(4)),
        (SearchOptions(), 0.0),
        (SearchOptions(beam_size=3), 0.0),
    ],
)
def test_a_text_has_the_probability_of_its_tokens(
    make: type[Torn], search: SearchOptions, temperature: float
) -> None:
    """The model's own, whatever the temperature; the end is certain and counts as one more."""
    decoder = make([[0]], shares=(0.75,))
    (decoded,) = decode(decoder, DecodingOptions(search=search), temperature=temperature)
    logprobs = [np.log(0.25 if token else 0.75) for token in decoded.tokens]
    assert decoded.avg_logprob == pytest.approx(sum(logprobs) / 4, abs=1e-5)
    assert decoded.no_speech_prob == pytest.approx(0.0, abs=1e-6)


def test_silence_is_not_tried_again() -> None:
    """Its text is as unlikely as that of the window beside it, which holds speech."""
    spoken, silent = tried(torn(0.5, 0.5, no_speech={1: 0.9}), thresholds=Thresholds(logprob=-0.3))
    assert (spoken.temperature, silent.temperature) == (0.8, 0.0)
    assert silent.no_speech_prob == pytest.approx(0.9, abs=1e-3)


def test_the_compression_ratio_is_that_of_the_text() -> None:
    """15 letters that are one: zlib makes 11 bytes of `aaa...`; 3 letters it cannot shorten."""
    (decoded,) = tried(torn(0.99))
    assert decoded.compression_ratio == pytest.approx(3 / 11)


@pytest.mark.parametrize(
    ("logprob", "ratio", "no_speech", "doubtful"),
    [
        (-1.1, 1.0, 0.1, True),
        (-1.0, 1.0, 0.1, False),
        (-0.1, 2.5, 0.1, True),
        (-0.1, 2.4, 0.1, False),
        (-1.1, 1.0, 0.7, False),  # silence
        (-1.1, 9.0, 0.7, False),  # silence, whatever it repeats
        (-0.1, 9.0, 0.7, True),  # likely text is no silence
        (-1.1, 1.0, 0.6, True),
    ],
)
def test_doubt_is_a_matter_of_three_gates(
    logprob: float, ratio: float, no_speech: float, doubtful: bool
) -> None:
    one = Decoded((1,), logprob, no_speech, runaway=False, compression_ratio=ratio)
    assert one.is_doubtful(Thresholds()) is doubtful


@pytest.mark.parametrize(
    ("thresholds", "doubtful"),
    [
        (Thresholds(logprob=None), True),
        (Thresholds(compression_ratio=None), True),
        (Thresholds(logprob=None, compression_ratio=None), False),
        (Thresholds(no_speech=None), True),
    ],
)
def test_a_gate_that_is_off_raises_no_doubt(thresholds: Thresholds, doubtful: bool) -> None:
    spoken = Decoded((1,), -5.0, 0.1, runaway=False, compression_ratio=9.0)
    assert spoken.is_doubtful(thresholds) is doubtful
    # Without a threshold for silence nothing is silent, so that all unlikely text is tried again.
    silent = Decoded((1,), -5.0, 0.99, runaway=False)
    assert silent.is_doubtful(thresholds) is (thresholds.no_speech is None)


@pytest.mark.parametrize(("logprob", "silent"), [(None, True), (-1.0, True), (-1.1, False)])
def test_likely_text_is_no_silence(logprob: float | None, silent: bool) -> None:
    one = Decoded((1,), -1.0, 0.7, runaway=False)
    assert one.is_silence(Thresholds(logprob=logprob)) is silent


class Flat(Scripted):
    """Every id is as likely as any other."""

    def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any) -> Any:
        logits = np.zeros((len(state.rows), len(positions), TOY.n_vocab), np.float32)
        sums = np.full(logits.shape[:2], np.log(TOY.n_vocab), np.float32)
        return StepOutput(logits, sums), State(state.step + 1, state.rows)


def test_every_temperature_draws_anew() -> None:
    """Where all is even the temperature changes nothing: only other numbers give other texts."""
    options = DecodingOptions(search=SearchOptions(best_of=1), max_new_tokens=12)
    drawn = {decode(Flat([[0]]), options, temperature=t)[0].tokens for t in (0.2, 0.4, 0.6)}
    assert len(drawn) == 3


def test_the_best_of_several_draws_is_taken() -> None:
    """The first of five is the one that is drawn alone, so that five are as good or better."""

    def score(best_of: int, seed: int) -> float:
        options = DecodingOptions(
            search=SearchOptions(best_of=best_of, seed=seed), max_new_tokens=6
        )
        return decode(torn(0.7), options, temperature=1.0)[0].avg_logprob

    gained = [score(5, seed) - score(1, seed) for seed in range(10)]
    assert min(gained) == 0.0
    assert sum(gain > 0.1 for gain in gained) > 3


@pytest.mark.parametrize(("temperature", "share"), [(0.5, 0.9), (1.0, 0.75), (2.0, 0.634)])
def test_temperature_is_what_logits_are_divided_by(temperature: float, share: float) -> None:
    """Odds of 3 to 1 become 9 to 1 at half the temperature, and the root of 3 at twice it."""
    options = DecodingOptions(search=SearchOptions(best_of=1), max_new_tokens=1)
    n_taken = 0
    for seed in range(400):
        loop = DecodingLoop(torn(0.75), TOY_TOKENS, options)  # type: ignore[arg-type]
        (decoded,) = loop.run(State(0, (0,)), [DecodingTask(PREFIX, key=seed)], temperature)
        n_taken += decoded.tokens == (0,)
    assert n_taken / 400 == pytest.approx(share, abs=0.06)


def test_a_boost_ends_a_draw_that_end_of_transcript_nearly_leads() -> None:
    """The end has odds of 1 to 3 with the best: within a boost of 1.5, not within one of 1."""

    class Ending(Torn):
        def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any) -> Any:
            output, after = super().step(tokens, state, positions)
            output.logits[:, -1, EOT] = np.log(0.33)
            return output, after

    def tokens(boost: float) -> tuple[int, ...]:
        options = DecodingOptions(
            search=SearchOptions(best_of=1), cures=Cures(eot_boost=boost), max_new_tokens=3
        )
        decoder = Ending([[0]], shares=(0.99,))
        return decode(decoder, options, temperature=0.01)[0].tokens

    assert tokens(1.5) == (0,)  # the first token may not be end-of-transcript
    assert tokens(1.0) == (0, 0, 0)
