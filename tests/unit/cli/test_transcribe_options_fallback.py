"""Temperatures by the command line's options."""

import math

import pytest

from whisper_hailo.cli.transcribe_options import Fallback
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.decoding.options import (
    DEFAULT_TEMPERATURES,
    FALLBACK_STEP,
    DecodingOptions,
)


def temperatures(flags: Fallback, step: float) -> tuple[float, ...]:
    options = flags.apply(PartialOptions(DecodingOptions), DecodingOptions(), step)
    return options.search.temperatures


def test_fallback_default_step_gives_default_temperatures() -> None:
    assert temperatures(Fallback(), FALLBACK_STEP) == DEFAULT_TEMPERATURES


@pytest.mark.parametrize(
    ("given", "temperature", "expected"),
    [
        (None, 0.0, (0.0,)),  # a decoder that has no fallback of its own accord
        (0.0, 0.0, (0.0,)),
        (0.5, 0.0, (0.0, 0.5, 1.0)),
        (0.5, 0.4, (0.4, 0.9)),
        (0.2, 1.5, (1.5,)),
    ],
)
def test_fallback_step_sets_temperatures(
    given: float | None, temperature: float, expected: tuple[float, ...]
) -> None:
    flags = Fallback(fallback=given, temperature=temperature)
    assert temperatures(flags, 0.0) == expected


def test_fallback_0_is_off_for_all_decoders() -> None:
    assert temperatures(Fallback(fallback=0.0), FALLBACK_STEP) == (0.0,)


@pytest.mark.parametrize("step", [-0.1, 1e-9, 1.1, float("nan")])
def test_fallback_impossible_step_is_refused(step: float) -> None:
    with pytest.raises(
        OptionError,
        match=r"--fallback .*\b0\.01 to 1",
    ):
        temperatures(Fallback(fallback=step), 0.0)


@pytest.mark.parametrize("temperature", [-1.0, 3.0, float("nan")])
def test_fallback_impossible_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(OptionError, match=rf"--temperature .*{temperature:g}"):
        temperatures(Fallback(temperature=temperature), FALLBACK_STEP)


@pytest.mark.parametrize("temperature", [math.inf, -math.inf, math.nan, 99.0])
def test_fallback_infinite_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(OptionError, match="temperature"):
        temperatures(Fallback(temperature=temperature), FALLBACK_STEP)
