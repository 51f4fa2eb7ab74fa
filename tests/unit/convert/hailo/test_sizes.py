import math
from dataclasses import replace

import pytest

from tests.unit.convert.hailo.shapes import MODELS
from whisper_hailo.convert.hailo.pieces import FixedSizes, fixed_sizes
from whisper_hailo.convert.options import HailoOptions
from whisper_hailo.core.errors import OptionError

TINY = MODELS["tiny"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("tiny", (10, 32)), ("tiny.en", (10, 32)), ("base", (5, 24)), ("small", (5, 24))],
)
def test_each_size_has_its_defaults(name: str, expected: tuple[int, int]) -> None:
    assert fixed_sizes(HailoOptions(), MODELS[name]) == FixedSizes(*expected)


@pytest.mark.parametrize(
    ("name", "expected"), [("tiny", (10, 32)), ("base", (10, 64)), ("small", (5, 24))]
)
def test_hailo_10h_has_defaults_of_its_own(name: str, expected: tuple[int, int]) -> None:
    options = HailoOptions(arch="hailo10h")
    assert fixed_sizes(options, MODELS[name]) == FixedSizes(*expected)
    assert fixed_sizes(replace(options, window_s=3), MODELS[name]).window_s == 3


@pytest.mark.parametrize(
    ("d_model", "arch", "expected"),
    [
        (383, None, (10, 32)),
        (385, None, (5, 24)),
        (385, "hailo10h", (10, 64)),
        (511, "hailo10h", (10, 64)),
        (513, "hailo10h", (5, 24)),
    ],
)
def test_widths_between_get_what_is_known_of_the_next_larger(
    d_model: int, arch: str | None, expected: tuple[int, int]
) -> None:
    dims = replace(TINY, d_model=d_model, n_encoder_heads=1, n_decoder_heads=1)
    assert fixed_sizes(HailoOptions(arch=arch), dims) == FixedSizes(*expected)


def test_the_smallest_models_that_have_such_a_form() -> None:
    dims = replace(TINY, n_audio_ctx=50, n_vocab=4)
    assert fixed_sizes(HailoOptions(), dims) == FixedSizes(window_s=1, length=32)


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(OptionError, match="--arch is 'hailo9', expected one of: hailo8, "):
        HailoOptions(arch="hailo9")


def test_defaults_fit_small_contexts() -> None:
    dims = replace(TINY, n_audio_ctx=150, n_text_ctx=20)
    assert fixed_sizes(HailoOptions(), dims) == FixedSizes(window_s=3, length=20)


@pytest.mark.parametrize("window_s", [1, 2.0, 7, 30])
def test_any_whole_second_is_accepted(window_s: float) -> None:
    sizes = fixed_sizes(HailoOptions(window_s=window_s), TINY)
    assert (sizes.window_s, sizes.n_frames, sizes.n_positions) == (
        window_s, 100 * window_s, 50 * window_s,
    )  # fmt: skip
    assert isinstance(sizes.window_s, int)


@pytest.mark.parametrize("window_s", [0, -1, 0.5, 2.5, 31, 1e9, math.nan, math.inf, -math.inf])
def test_other_windows_are_refused(window_s: float) -> None:
    with pytest.raises(OptionError, match=r"--window is .*, expected a whole number .* 1 to 30"):
        fixed_sizes(HailoOptions(window_s=window_s), TINY)


def test_a_short_context_limits_the_window() -> None:
    with pytest.raises(OptionError, match=r"--window is 4, expected .* 1 to 3 "):
        fixed_sizes(HailoOptions(window_s=4), replace(TINY, n_audio_ctx=150))


@pytest.mark.parametrize("length", [1, 24, 448])
def test_any_length_within_the_context_is_accepted(length: int) -> None:
    assert fixed_sizes(HailoOptions(decoder_length=length), TINY).length == length


@pytest.mark.parametrize("length", [0, -3, 449])
def test_other_lengths_are_refused(length: int) -> None:
    with pytest.raises(OptionError, match=rf"--decoder-length is {length}, expected 1 to 448"):
        fixed_sizes(HailoOptions(decoder_length=length), TINY)


@pytest.mark.parametrize("change", [{"n_audio_ctx": 49}, {"n_vocab": 3}])
def test_models_that_have_no_such_form_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="has no Hailo form"):
        fixed_sizes(HailoOptions(), replace(TINY, **change))
