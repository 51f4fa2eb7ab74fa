"""Intervals of rates, and ratios of pairs of files, compared with arithmetic by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from lab.tests.unit.small_run import OURS_FILES, RIVAL, RIVAL_FILES
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


def draw_rates(
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


def test_resample_rates_draws_corpus_rates() -> None:
    """Files with 1 of 2 and 3 of 10 errors have four draws of two, and no other rate."""
    rates = draw_rates([[1, 3], [2, 0]], [2, 10], 0.9, 400, 1)
    assert rates.shape == (2, 400)
    evaluation = {(round(a, 6), round(b, 6)) for a, b in rates.T}
    assert evaluation == {(0.5, 1.0), (0.3, 0.0), (round(4 / 12, 6), round(2 / 12, 6))}
    mixed = np.mean(np.isclose(rates[0], 4 / 12))
    # Each file is drawn as often as the other.
    assert mixed == pytest.approx(0.5, abs=0.1)


def test_resample_rates_leaves_out_draws_without_reference() -> None:
    rates = draw_rates([[5, 1]], [0, 4], 0.9, 200, 0)
    assert 100 < rates.shape[1] < 200
    assert np.isfinite(rates).all()
    assert set(rates[0]) == {0.25, 1.5}
    single = draw_rates([[2, 1]], [0, 1], 0.9, 200, 0)
    assert set(single[0]) == {1.0, 3.0}, "one word of a reference is enough"


@pytest.mark.parametrize(
    ("level", "low", "high"), [(0.5, 25.0, 75.0), (0.9, 5.0, 95.0)]
)
def test_percentile_interval_has_its_share_in_the_middle(
    level: float, low: float, high: float
) -> None:
    assert percentile_interval(np.arange(101.0), level) == pytest.approx((low, high))


def test_confidence_interval_defaults_to_95_percent() -> None:
    scores = [Score(substitutions=n % 4, hits=10 + n) for n in range(12)]
    interval = confidence_interval(scores, level=0.95, n_resamples=1000, seed=0)
    assert confidence_interval(scores) == interval
    assert confidence_interval(scores, seed=1) != interval
    evaluation = Evaluation(
        "simple",
        "en",
        tuple(score_file("a b c d", "a b x", "simple") for _ in range(3)),
    )
    assert evaluation.wer_interval() == (0.5, 0.5)


def test_difference_interval_defaults_to_95_percent() -> None:
    scores = [Score(substitutions=n % 4, hits=3 * n + 7 - n % 4) for n in range(40)]
    others = [Score(substitutions=n % 3, hits=3 * n + 7 - n % 3) for n in range(40)]
    interval = difference_interval(scores, others, level=0.95, n_resamples=1000, seed=0)
    assert difference_interval(scores, others) == interval
    assert difference_interval(scores, others, seed=1) != interval
    words = [Score(substitutions=n % 7, hits=3 * n + 7) for n in range(40)]
    files = tuple(FileScore("", "", file, Score()) for file in words)
    assert Evaluation("simple", "en", files).wer_interval() == confidence_interval(
        words
    )


def test_confidence_interval_without_files_is_zero() -> None:
    assert confidence_interval([]) == (0.0, 0.0)
    assert difference_interval([], []) == (0.0, 0.0)


def test_summary_missing_word_is_a_deletion() -> None:
    """The recogniser missed `three` of `One two three four.`."""
    words = summarise_case(RIVAL, RIVAL_FILES[:1]).simple.words
    assert words == Score(deletions=1, hits=3)


def test_wer_interval_passes_its_settings_on() -> None:
    pairs = [("a b c d", "a b c d"), ("a b", "x y"), ("a b c d e f", "a b c")]
    evaluation = score_texts(pairs, "simple")
    words = [file.words for file in evaluation.files]
    for interval_settings in ({"level": 0.5}, {"n_resamples": 10}, {"seed": 3}):
        assert evaluation.wer_interval(**interval_settings) == confidence_interval(
            words, **interval_settings
        )  # type: ignore[arg-type]
    settings = [{}, {"level": 0.3}, {"n_resamples": 7}, {"n_resamples": 7, "seed": 5}]
    assert (
        len(
            {
                evaluation.wer_interval(**interval_settings)
                for interval_settings in settings
            }
        )
        == 4
    )  # type: ignore[arg-type]


def test_confidence_interval_of_one_draw_is_its_rate() -> None:
    assert confidence_interval([Score(substitutions=1, hits=3)], n_resamples=1) == (
        0.25,
        0.25,
    )


def test_score_texts_counts_deletions_and_insertions() -> None:
    """The reference comes first: a word that the hypothesis lacks is a deletion."""
    missing = score_texts([("one two three", "one three")], "simple")
    assert missing.words == Score(deletions=1, hits=2)
    assert missing.characters == Score(deletions=4, hits=9)
    more = score_texts([("one three", "one two three")], "simple")
    assert more.words == Score(insertions=1, hits=2)
    assert more.characters == Score(insertions=4, hits=9)
    assert more.words.rate == 1 / 2
    assert more.characters.rate == 4 / 9


def test_score_texts_keeps_texts_form_and_language() -> None:
    evaluation = score_texts([("Ein Haus.", "ein Haus")], "normalised", "de")
    assert evaluation.form == "normalised"
    assert evaluation.language == "de"
    assert evaluation.files[0].reference == "Ein Haus."
    assert evaluation.files[0].hypothesis == "ein Haus"
    assert evaluation.words.rate == 0.0


def test_score_texts_default_form_is_normalised_english() -> None:
    assert score_texts([("It's two.", "it is 2")]).words.errors == 0
    assert score_file("It's two.", "it is 2").words.errors == 0
    assert normalise_text(" It's two.", "normalised") == "it is 2"


def test_score_texts_corpus_and_mean_rates_differ() -> None:
    """1 of 2 and 0 of 8 words; 1 of 3 and 0 of 15 characters."""
    evaluation = score_texts([("a b", "a c"), ("a b c d e f g h",) * 2], "simple")
    assert evaluation.words.rate == 0.1
    assert evaluation.mean_wer == 0.25
    assert evaluation.characters.rate == 1 / 18
    assert evaluation.mean_cer == 1 / 6


def test_paired_ratio_is_the_median_of_files() -> None:
    """100/10, 400/20, 100/30: the median is 10; a tenth of each is the mel."""
    assert paired_ratio(RIVAL_FILES, OURS_FILES) == pytest.approx(10.0)
    assert paired_ratio(OURS_FILES, RIVAL_FILES) == pytest.approx(0.1)
    twice = [
        replace(file, stages_ms={"encode": 2 * file.stages_ms["encode"], "decode": 0.0})
        for file in OURS_FILES
    ]
    assert paired_ratio(twice, OURS_FILES, "encoder") == pytest.approx(2.0)
    assert paired_ratio(twice, OURS_FILES, "decoder") == 0.0


def test_paired_ratio_without_times_is_none() -> None:
    failed = [replace(file, error="broken") for file in OURS_FILES]
    assert paired_ratio(failed, RIVAL_FILES) is None
    assert paired_ratio(RIVAL_FILES, failed) is None
    assert paired_ratio(OURS_FILES, RIVAL_FILES[:1]) == pytest.approx(0.1)
    at_once = [replace(file, total_ms=0.0) for file in RIVAL_FILES]
    assert paired_ratio(OURS_FILES, at_once) is None
    without_stages = [replace(file, stages_ms={}) for file in OURS_FILES]
    assert paired_ratio(without_stages, OURS_FILES, "encoder") is None
    assert paired_ratio(OURS_FILES, without_stages, "encoder") is None


@pytest.mark.parametrize(
    ("what", "ms"), [("total", 10.0), ("encoder", 3.0), ("decoder", 6.0)]
)
def test_stage_ms_of_decoder_includes_cross_kv(what: str, ms: float) -> None:
    assert stage_ms(OURS_FILES[0], what) == pytest.approx(ms)
    assert stage_ms(replace(OURS_FILES[0], stages_ms={}), what) == (
        10.0 if what == "total" else None
    )
