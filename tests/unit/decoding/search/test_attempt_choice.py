"""Attempts of a window: the one that is taken, and when its text counts as made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.scripted_decoder import TOKENIZER
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.search.attempt_choice import choose_attempt, choose_or_cut

CALM = 1.0
LOOP = 9.0
"""Compression ratios of speech and of text that repeats itself."""


def attempt(
    logprob: float, n_tokens: int = 10, ratio: float = CALM, **named: Any
) -> Decoded:
    return Decoded(
        (1,) * n_tokens, logprob, 0.1, runaway=False, compression_ratio=ratio, **named
    )


def test_choose_attempt_takes_the_likeliest_that_passed() -> None:
    attempts = [attempt(-1.2), attempt(-0.6), attempt(-0.4), attempt(-0.1, ratio=LOOP)]
    assert choose_attempt(attempts, Thresholds()) == attempts[2]


def test_choose_attempt_without_passed_takes_calm() -> None:
    attempts = [attempt(-0.1, ratio=LOOP), attempt(-1.4), attempt(-1.1), attempt(-1.3)]
    assert choose_attempt(attempts, Thresholds()) == attempts[2]


@pytest.mark.parametrize(("n_tokens", "chosen"), [(8, 0), (9, 1)])
def test_choose_attempt_drops_much_shorter_attempts(n_tokens: int, chosen: int) -> None:
    """A hypothesis of less than nine tenths of the longest one's tokens."""
    attempts = [attempt(-0.6, 10), attempt(-0.2, n_tokens), attempt(-0.9, 10)]
    assert choose_attempt(attempts, Thresholds()) == attempts[chosen]


def test_choose_attempt_compares_lengths_of_passed_ones() -> None:
    """Text that repeats itself is long, and says nothing about what was left out."""
    attempts = [attempt(-0.1, 200, LOOP), attempt(-0.6, 10), attempt(-1.2, 50)]
    assert choose_attempt(attempts, Thresholds()) == attempts[1]


def test_choose_attempt_keeps_repeating_text_that_ends() -> None:
    """A telephone menu does, and a song."""
    loop = replace(attempt(-0.1, ratio=LOOP), runaway=True)
    attempts = [attempt(-0.3, ratio=LOOP), loop, attempt(-0.2, ratio=LOOP)]
    assert choose_attempt(attempts, Thresholds()) == attempts[2]


def test_choose_attempt_of_loops_alone_is_made_up() -> None:
    attempts = [replace(attempt(p, ratio=LOOP), runaway=True) for p in (-0.3, -0.2)]
    chosen = choose_attempt(attempts, Thresholds())
    assert chosen == replace(attempts[1], made_up=True)
    assert chosen.is_silence(Thresholds())
    assert not attempts[1].is_silence(Thresholds())


@pytest.mark.parametrize(("logprob", "made_up"), [(-1.49, False), (-1.51, True)])
def test_choose_attempt_of_hopeless_ones_is_made_up(
    logprob: float, made_up: bool
) -> None:
    """Half as unlikely again as the threshold allows."""
    chosen = choose_attempt([attempt(-2.0), attempt(logprob)], Thresholds())
    assert (chosen.avg_logprob, chosen.made_up) == (logprob, made_up)
    without = choose_attempt(
        [attempt(-2.0), attempt(logprob)], Thresholds(logprob=None)
    )
    assert not without.made_up


@pytest.mark.parametrize("only", [attempt(-9.0), attempt(-0.1, ratio=LOOP)])
def test_choose_attempt_of_one_takes_it(only: Decoded) -> None:
    """A caller that sets one temperature gets its text."""
    assert choose_attempt([only], Thresholds()) == only


def test_choose_attempt_ignores_abandoned_ones() -> None:
    """Also among one text that was tried again: what fails every time is made up."""
    abandoned = replace(attempt(-0.1), abandoned=True)
    assert choose_attempt([attempt(-1.2), abandoned], Thresholds()) == attempt(-1.2)
    loop = replace(attempt(-0.3, ratio=LOOP), runaway=True)
    assert choose_attempt([loop, abandoned], Thresholds()).made_up


def looping(n_calm: int, n_loop: int, logprob: float) -> Decoded:
    """Return a text that ends in a loop of one token."""
    calm = tuple(index % 7 for index in range(n_calm - 1))
    tokens = (*calm, *(8,) * n_loop)
    return Decoded(tokens, logprob, 0.1, runaway=True, compression_ratio=CALM)


def test_choose_or_cut_keeps_text_before_a_loop() -> None:
    attempts = [looping(40, 60, -0.3), attempt(-2.0)]
    chosen = choose_or_cut(attempts, TOKENIZER, Thresholds(compression_ratio=None))
    assert chosen == attempts[0], "loops are allowed"
    chosen = choose_or_cut(attempts, TOKENIZER, Thresholds(compression_ratio=9.0))
    assert chosen.tokens == attempts[0].tokens[:40]
    assert chosen.avg_logprob == pytest.approx(-0.3 * 100 / 41)
    assert not chosen.made_up


@pytest.mark.parametrize(
    "loop",
    [looping(23, 60, -0.2), looping(40, 60, -0.5)],
    ids=["a few syllables", "unlikely where the loop's tokens are certain"],
)
def test_choose_or_cut_drops_loops_with_little_else(loop: Decoded) -> None:
    thresholds = Thresholds(compression_ratio=9.0)
    assert choose_or_cut([loop, attempt(-2.0)], TOKENIZER, thresholds).made_up
