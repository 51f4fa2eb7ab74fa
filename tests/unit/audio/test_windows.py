from dataclasses import replace

import numpy as np
import pytest

from tests.fakes.model_sizes import TINY
from whisper_hailo.audio.windows import PackedPiece, Window, WindowPlan
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ


def test_window_plan_default_is_20_s_with_1_s_margin() -> None:
    plan = WindowPlan.make(TINY)
    assert (plan.window_s, plan.margin_s) == (20.0, 1.0)
    assert (plan.window_samples, plan.content_samples) == (320_000, 304_000)
    short = WindowPlan.make(replace(TINY, n_audio_ctx=200))
    assert (short.window_s, short.margin_s) == (4.0, 0.0)


def test_window_plan_shorter_window_keeps_1_s_margin() -> None:
    plan = WindowPlan.make(TINY, 10)
    assert plan.margin_s == 1.0
    assert (plan.window_samples, plan.content_samples) == (160_000, 144_000)


def test_window_plan_full_window_has_no_margin_by_default() -> None:
    assert WindowPlan.make(TINY, 30).margin_s == 0.0
    assert WindowPlan.make(TINY, 30, 1).content_samples == 29 * SAMPLE_RATE_HZ


def test_window_plan_short_window_keeps_half_for_audio() -> None:
    assert WindowPlan.make(TINY, 1.0).margin_s == 0.5


@pytest.mark.parametrize(
    "window_s", [0.0, 1e-9, 0.01, -1.0, 30.02, 1e9, 5.001, float("nan")]
)
def test_window_plan_impossible_window_is_refused(window_s: float) -> None:
    with pytest.raises(OptionError, match="--window"):
        WindowPlan.make(TINY, window_s)


def test_window_plan_shortest_is_one_encoder_position() -> None:
    plan = WindowPlan.make(TINY, 0.02)
    assert (plan.window_samples, plan.content_samples) == (320, 160)


def test_window_plan_all_margin_takes_one_sample() -> None:
    assert WindowPlan.make(TINY, 10, 9.99999).content_samples == 1


def test_window_plan_rounds_to_nearest_sample() -> None:
    """2.3 s less 0.3 s is a hair less than 2 s, as numbers of a computer are subtracted."""
    plan = WindowPlan.make(TINY, 2.3, 0.3)
    assert (plan.window_samples, plan.content_samples) == (36_800, 32_000)


@pytest.mark.parametrize("margin_s", [-0.1, 10.0, 11.0, float("nan")])
def test_window_plan_impossible_margin_is_refused(margin_s: float) -> None:
    with pytest.raises(OptionError, match="margin-s"):
        WindowPlan.make(TINY, 10, margin_s)


def test_window_locate_packed_time_is_time_of_recording() -> None:
    pieces = (PackedPiece(0.0, 10.0, 2.0), PackedPiece(2.0, 50.0, 3.0))
    three = Window(
        np.zeros(96_000, np.float32), 10.0, (*pieces, PackedPiece(5.0, 70.0, 1.0))
    )
    assert (three.locate(4.5), three.locate(5.5), three.end_s) == (52.5, 70.5, 71.0)
    window = Window(np.zeros(80_000, np.float32), 10.0, pieces)
    assert [window.locate(0.0, is_start=is_start) for is_start in (True, False)] == [
        10.0,
        10.0,
    ]
    assert window.locate(1.0) == 11.0
    assert (window.locate(2.0), window.locate(2.0, is_start=True)) == (12.0, 50.0)
    assert (window.locate(4.5), window.end_s) == (52.5, 53.0)
    behind = [window.locate(5.5, is_start=is_start) for is_start in (True, False)]
    assert behind == [53.0, 53.0], "a time after all of the audio is its end"


@pytest.mark.parametrize(
    ("audio_s", "trimmed_s"),
    [(0.01, 3.0), (1.0, 3.0), (1.01, 4.0), (7.0, 9.0), (8.5, 10.0)],
)
def test_window_plan_trimmed_window_is_whole_seconds(
    audio_s: float, trimmed_s: float
) -> None:
    n_samples = round(audio_s * SAMPLE_RATE_HZ)
    plan = WindowPlan.make(TINY, 10)
    assert plan.samples_for(n_samples) == plan.window_samples
    assert replace(plan, trim_window=True).samples_for(n_samples) == round(
        trimmed_s * SAMPLE_RATE_HZ
    )


@pytest.mark.parametrize("margin_s", [0.0, 0.5, 1.0, 2.0])
def test_window_plan_trimmed_window_keeps_2_s_of_silence(margin_s: float) -> None:
    """An encoder takes no window of nothing, either."""
    plan = replace(WindowPlan.make(TINY, margin_s=margin_s), trim_window=True)
    assert plan.samples_for(0) == 2 * SAMPLE_RATE_HZ
    assert plan.samples_for(1) == plan.samples_for(SAMPLE_RATE_HZ) == 3 * SAMPLE_RATE_HZ
    assert plan.samples_for(SAMPLE_RATE_HZ + 1) == 4 * SAMPLE_RATE_HZ
    assert plan.samples_for(29 * SAMPLE_RATE_HZ + 1) == plan.window_samples


def test_window_plan_trimmed_window_keeps_longer_margin() -> None:
    plan = replace(WindowPlan.make(TINY, margin_s=3.0), trim_window=True)
    assert plan.samples_for(SAMPLE_RATE_HZ) == 4 * SAMPLE_RATE_HZ
