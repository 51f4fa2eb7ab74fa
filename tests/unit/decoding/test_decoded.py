"""Decoded text: repetition, loops, echoes of the prompt, and silence."""

from __future__ import annotations

import zlib

import pytest

from whisper_hailo.decoding.decoded import (
    Decoded,
    compression_ratio,
    cut_loop,
    ends_in_loop,
    repeats_prompt,
)
from whisper_hailo.decoding.options import (
    Thresholds,
)
from whisper_hailo.decoding.search.attempt_checks import is_doubtful


def test_compression_ratio_of_repetition_is_high() -> None:
    assert compression_ratio("and then " * 40) > 2.4
    assert compression_ratio("Every word here differs from the next.") < 1.5
    assert compression_ratio("") == 0.0


def test_compression_ratio_counts_each_letter_once() -> None:
    """In UTF-8 Cyrillic has twice the bytes of the same text in Latin letters."""
    latin, cyrillic = (
        compression_ratio(text * 30) for text in ("abcde fgh ", "абвгд ежз ")
    )
    assert latin == 300 / len(zlib.compress(b"abcde fgh " * 30))
    assert cyrillic == pytest.approx(latin, rel=0.1)


def test_ends_in_loop_needs_many_repeats() -> None:
    varied = list(range(60))
    assert not ends_in_loop(varied)
    assert not ends_in_loop([1] * 24)
    assert ends_in_loop([1] * 25)
    assert ends_in_loop([*varied, *[5, 6, 7] * 10])
    assert not ends_in_loop([*[5, 6, 7] * 10, 8])
    assert ends_in_loop((*range(12),) * 7)
    assert not ends_in_loop((*range(13),) * 9), "longer than a phrase"


@pytest.mark.parametrize(
    ("logprob", "silent"), [(None, True), (-1.0, True), (-1.1, False)]
)
def test_is_silence_of_likely_text_is_false(
    logprob: float | None, silent: bool
) -> None:
    decoded = Decoded((1,), -1.0, 0.7, runaway=False)
    assert decoded.is_silence(Thresholds(logprob=logprob)) is silent


def test_repeats_prompt_needs_six_tokens_in_a_row() -> None:
    shown = (17, 5, 1, 2, 3, 4, 0)
    assert repeats_prompt((9, 5, 1, 2, 3, 4, 0), shown)
    assert not repeats_prompt((9, 1, 2, 3, 4, 0), shown)
    assert not repeats_prompt((5, 1, 2, 9, 3, 4, 0), shown)
    assert not repeats_prompt((), shown)


@pytest.mark.parametrize(
    ("tokens", "n_kept"),
    [
        ((1, 2, 3), 3),
        ((5, *(1, 2) * 20), 3),
        ((5, 2, *(1, 2) * 20), 3),
        ((1,) * 30, 1),
        ((*range(10), *(1,) * 23), 33),
    ],
)
def test_cut_loop_keeps_the_phrase_once(tokens: tuple[int, ...], n_kept: int) -> None:
    assert cut_loop(tokens) == n_kept


def test_decoded_defaults_raise_no_doubt() -> None:
    """Fields that a decoder does not set: temperature and repetition are neutral."""
    decoded = Decoded((1,), -0.1, 0.0, runaway=False)
    assert (decoded.temperature, decoded.compression_ratio) == (0.0, 0.0)
    assert not is_doubtful(decoded, Thresholds(compression_ratio=0.5))


@pytest.mark.parametrize(
    ("no_speech_prob", "avg_logprob", "silence"),
    [(0.61, -1.0, True), (0.6, -3.0, False), (0.99, -0.99, False), (0.0, -9.0, False)],
)
def test_is_silence_needs_no_speech_and_unlikely_text(
    no_speech_prob: float, avg_logprob: float, silence: bool
) -> None:
    decoded = Decoded((1,), avg_logprob, no_speech_prob, runaway=False)
    assert decoded.is_silence(Thresholds()) is silence


@pytest.mark.parametrize(("no_speech_prob", "silence"), [(0.61, True), (0.6, False)])
def test_is_silence_of_text_ending_at_once_is_true(
    no_speech_prob: float, silence: bool
) -> None:
    decoded = Decoded((1,), -0.01, no_speech_prob, runaway=False, ends_at_once=True)
    assert decoded.is_silence(Thresholds()) is silence
    assert not decoded.is_silence(Thresholds(no_speech=None))
