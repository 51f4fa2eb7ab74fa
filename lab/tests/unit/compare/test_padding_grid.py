"""Settings of the grid against repetition, and the options that they become."""

from __future__ import annotations

import pytest

from whisper_hailo.decoding.options import PRESETS, TokenLimits
from whisper_hailo_lab.compare.padding_grid import (
    BASELINE,
    PaddingGrid,
    parse_numbers,
    parse_whole_numbers,
)
from whisper_hailo_lab.systems.ours import anti_repetition, token_limits


def test_padding_grid_begins_with_the_baseline() -> None:
    grid = PaddingGrid(
        pad_to=(0, 700),
        repetition_penalty=(1.0, 1.1),
        eot_boost=(0.0,),
        no_repeat_ngram=(3,),
        zero_rows=(700,),
        vad=True,
    )
    settings = grid.settings()
    assert next(iter(settings)) == BASELINE
    assert len(settings) == len(PRESETS) + 4 + 1 + 1 + 1
    assert settings["speech only"]["vad"]
    zeros = settings["real zeros to 700"]
    assert anti_repetition(zeros, PRESETS[BASELINE]).pad_to == 0
    blocked = settings["no 3-gram twice, unpadded"]
    assert token_limits(blocked, TokenLimits()).no_repeat_ngram == 3


def test_parse_numbers_refuses_other_text() -> None:
    assert parse_numbers("1,1.1,") == (1.0, 1.1)
    assert parse_whole_numbers("0,500") == (0, 500)
    for text in ("inf", "1,nan", "1;2"):
        with pytest.raises(ValueError, match="numbers"):
            parse_numbers(text)
