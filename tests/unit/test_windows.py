import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.shapes import TINY
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.windows import WindowPlan, consecutive


def test_default_is_ten_seconds_with_one_kept_free() -> None:
    plan = WindowPlan.make(TINY)
    assert (plan.window_s, plan.margin_s) == (10.0, 1.0)
    assert (plan.window_samples, plan.content_samples) == (160_000, 144_000)


def test_a_full_window_takes_all_its_audio_unless_told_otherwise() -> None:
    assert WindowPlan.make(TINY, 30).margin_s == 0.0
    assert WindowPlan.make(TINY, 30, 1).content_samples == 29 * SAMPLE_RATE_HZ


def test_very_short_windows_keep_half_for_audio() -> None:
    assert WindowPlan.make(TINY, 1.0).margin_s == 0.5


@pytest.mark.parametrize("window_s", [0.0, -1.0, 30.02, 1e9, 5.001, float("nan")])
def test_impossible_windows_are_refused(window_s: float) -> None:
    with pytest.raises(OptionError, match="--window is"):
        WindowPlan.make(TINY, window_s)


@pytest.mark.parametrize("margin_s", [-0.1, 10.0, 11.0, float("nan")])
def test_impossible_margins_are_refused(margin_s: float) -> None:
    with pytest.raises(OptionError, match="--margin-s is"):
        WindowPlan.make(TINY, 10, margin_s)


@given(st.lists(st.integers(1, 5000), min_size=0, max_size=20))
def test_windows_follow_each_other_without_gap_or_overlap(sizes: list[int]) -> None:
    blocks = [np.zeros(size, dtype=np.float32) for size in sizes]
    windows = list(consecutive(blocks))
    assert sum(window.audio.size for window in windows) == sum(sizes)
    edges = [0.0] + [window.end_s for window in windows]
    assert [window.start_s for window in windows] == pytest.approx(edges[:-1])
