"""Intervals of rates, and ratios of pairs of files, where they can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from lab.tests.unit.small_run import OURS_FILES, RIVAL, RIVAL_FILES
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.rates import (
    Score,
    confidence_interval,
    difference_interval,
    percentile_interval,
    resample_rates,
)
from whisper_hailo_lab.runs.summary import paired_ratio, stage_ms, summarise_case
from whisper_hailo_lab.score import (
    Evaluation,
    FileScore,
    normalise_text,
    score_file,
    score_texts,
)


def drawn(
    errors: list[list[int]],
    counts: list[int],
    level: float,
    n_resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    sides = [
        [
            Score(insertions=wrong, hits=count)
            for wrong, count in zip(side, counts, strict=True)
        ]
        for side in errors
    ]
    return resample_rates(sides, level, n_resamples, seed)


def test_every_draw_is_a_corpus_rate_of_as_many_files() -> None:
    """Of files with 1 of 2 and 3 of 10 errors: all four draws of two, and no other rate."""
    rates = drawn([[1, 3], [2, 0]], [2, 10], 0.9, 400, 1)
    assert rates.shape == (2, 400)
    found = {(round(a, 6), round(b, 6)) for a, b in rates.T}
    assert found == {(0.5, 1.0), (0.3, 0.0), (round(4 / 12, 6), round(2 / 12, 6))}
    mixed = np.mean(np.isclose(rates[0], 4 / 12))
    # Each file is drawn as often as the other.
    assert mixed == pytest.approx(0.5, abs=0.1)


def test_draws_without_a_reference_are_left_out() -> None:
    rates = drawn([[5, 1]], [0, 4], 0.9, 200, 0)
    assert 100 < rates.shape[1] < 200
    assert np.isfinite(rates).all()
    assert set(rates[0]) == {0.25, 1.5}
    single = drawn([[2, 1]], [0, 1], 0.9, 200, 0)
    assert set(single[0]) == {1.0, 3.0}, "one word of a reference is enough"


@pytest.mark.parametrize(
    ("level", "low", "high"), [(0.5, 25.0, 75.0), (0.9, 5.0, 95.0)]
)
def test_interval_holds_its_share_in_the_middle(
    level: float, low: float, high: float
) -> None:
    assert percentile_interval(np.arange(101.0), level) == pytest.approx((low, high))


def test_interval_leaves_out_95_percent_of_a_thousand_draws() -> None:
    scores = [Score(substitutions=n % 4, hits=10 + n) for n in range(12)]
    told = confidence_interval(scores, level=0.95, n_resamples=1000, seed=0)
    assert confidence_interval(scores) == told
    assert confidence_interval(scores, seed=1) != told
    evaluation = Evaluation(
        "simple",
        "en",
        tuple(score_file("a b c d", "a b x", "simple") for _ in range(3)),
    )
    assert evaluation.wer_interval() == (0.5, 0.5)


def test_hidden_parts_are_the_same_for_differences_and_rates() -> None:
    scores = [Score(substitutions=n % 4, hits=3 * n + 7 - n % 4) for n in range(40)]
    others = [Score(substitutions=n % 3, hits=3 * n + 7 - n % 3) for n in range(40)]
    told = difference_interval(scores, others, level=0.95, n_resamples=1000, seed=0)
    assert difference_interval(scores, others) == told
    assert difference_interval(scores, others, seed=1) != told
    words = [Score(substitutions=n % 7, hits=3 * n + 7) for n in range(40)]
    files = tuple(FileScore("", "", one, Score()) for one in words)
    assert Evaluation("simple", "en", files).wer_interval() == confidence_interval(
        words
    )


def test_without_files_there_is_nothing_to_draw() -> None:
    assert confidence_interval([]) == (0.0, 0.0)
    assert difference_interval([], []) == (0.0, 0.0)


def test_case_s_reference_is_what_its_hypothesis_is_held_against() -> None:
    """Of `One two three four.` it heard all but `three`."""
    words = summarise_case(RIVAL, RIVAL_FILES[:1]).simple.words
    assert words == Score(deletions=1, hits=3)


def test_interval_of_an_evaluation_is_asked_for_as_any_other() -> None:
    pairs = [("a b c d", "a b c d"), ("a b", "x y"), ("a b c d e f", "a b c")]
    evaluation = score_texts(pairs, "simple")
    words = [file.words for file in evaluation.files]
    for asked in ({"level": 0.5}, {"n_resamples": 10}, {"seed": 3}):
        assert evaluation.wer_interval(**asked) == confidence_interval(words, **asked)  # type: ignore[arg-type]
    settings = [{}, {"level": 0.3}, {"n_resamples": 7}, {"n_resamples": 7, "seed": 5}]
    assert len({evaluation.wer_interval(**asked) for asked in settings}) == 4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("level", "n_resamples"), [(0.0, 10), (1.0, 10), (-0.1, 10), (1.1, 10), (0.5, 0)]
)
def test_no_interval_without_a_level_or_a_draw(level: float, n_resamples: int) -> None:
    with pytest.raises(OptionError, match="level"):
        confidence_interval([Score(hits=1)], level=level, n_resamples=n_resamples)


def test_one_draw_is_an_interval_of_its_rate() -> None:
    assert confidence_interval([Score(substitutions=1, hits=3)], n_resamples=1) == (
        0.25,
        0.25,
    )


def test_words_and_characters_that_are_missing_or_too_many() -> None:
    """The reference comes first: what it has and the hypothesis lacks is a deletion."""
    missing = score_texts([("one two three", "one three")], "simple")
    assert (missing.words, missing.characters) == (
        Score(deletions=1, hits=2),
        Score(deletions=4, hits=9),
    )
    more = score_texts([("one three", "one two three")], "simple")
    assert (more.words, more.characters) == (
        Score(insertions=1, hits=2),
        Score(insertions=4, hits=9),
    )
    assert (more.words.rate, more.characters.rate) == (1 / 2, 4 / 9)


def test_every_file_keeps_its_texts_and_the_evaluation_its_form() -> None:
    found = score_texts([("Ein Haus.", "ein Haus")], "normalised", "de")
    assert (found.form, found.language) == ("normalised", "de")
    assert (found.files[0].reference, found.files[0].hypothesis) == (
        "Ein Haus.",
        "ein Haus",
    )
    assert found.words.rate == 0.0


def test_normalised_form_is_default_and_english_its_language() -> None:
    assert score_texts([("It's two.", "it is 2")]).words.errors == 0
    assert score_file("It's two.", "it is 2").words.errors == 0
    assert normalise_text(" It's two.", "normalised") == "it is 2"


def test_rates_of_files_and_of_the_corpus_part_where_lengths_do() -> None:
    """1 of 2 and 0 of 8 words; 1 of 3 and 0 of 15 characters."""
    found = score_texts([("a b", "a c"), ("a b c d e f g h",) * 2], "simple")
    assert (found.words.rate, found.mean_wer) == (0.1, 0.25)
    assert (found.characters.rate, found.mean_cer) == (1 / 18, 1 / 6)


def test_one_case_s_times_by_another_s_are_taken_file_by_file() -> None:
    """100/10, 400/20, 100/30: the median is 10; a tenth of each is the mel."""
    assert paired_ratio(RIVAL_FILES, OURS_FILES) == pytest.approx(10.0)
    assert paired_ratio(OURS_FILES, RIVAL_FILES) == pytest.approx(0.1)
    twice = [
        replace(one, stages_ms={"encode": 2 * one.stages_ms["encode"], "decode": 0.0})
        for one in OURS_FILES
    ]
    assert paired_ratio(twice, OURS_FILES, "encoder") == pytest.approx(2.0)
    assert paired_ratio(twice, OURS_FILES, "decoder") == 0.0


def test_files_that_failed_or_took_no_time_have_no_ratio() -> None:
    failed = [replace(one, error="broken") for one in OURS_FILES]
    assert paired_ratio(failed, RIVAL_FILES) is None
    assert paired_ratio(RIVAL_FILES, failed) is None
    assert paired_ratio(OURS_FILES, RIVAL_FILES[:1]) == pytest.approx(0.1)
    at_once = [replace(one, total_ms=0.0) for one in RIVAL_FILES]
    assert paired_ratio(OURS_FILES, at_once) is None
    untold = [replace(one, stages_ms={}) for one in OURS_FILES]
    assert paired_ratio(untold, OURS_FILES, "encoder") is None
    assert paired_ratio(OURS_FILES, untold, "encoder") is None


@pytest.mark.parametrize(
    ("what", "ms"), [("total", 10.0), ("encoder", 3.0), ("decoder", 6.0)]
)
def test_decoder_s_time_counts_cross_keys_and_values(what: str, ms: float) -> None:
    assert stage_ms(OURS_FILES[0], what) == pytest.approx(ms)
    assert stage_ms(replace(OURS_FILES[0], stages_ms={}), what) == (
        10.0 if what == "total" else None
    )
