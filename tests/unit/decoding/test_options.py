import math

import pytest

from tests.unit.shapes import TINY
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import SearchOptions, Thresholds, TokenLimits, WordOptions
from whisper_hailo.decoding.options import PRESETS, Cures, DecodingOptions, preset


def test_presets_are_those_of_the_study() -> None:
    figures = {
        name: (cures.padding(TINY).pad_to, cures.repetition_penalty, cures.eot_boost)
        for name, cures in PRESETS.items()
    }
    assert figures == {
        "conservative": (1500, 1.0, 0.0),
        "balanced": (700, 1.1, 0.2),
        "aggressive": (500, 1.2, 0.5),
    }


def test_conservative_is_the_default() -> None:
    assert DecodingOptions().cures is PRESETS["conservative"]


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(OptionError, match="expected one of: conservative, balanced, aggressive"):
        preset("bold")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pad_to": -1}, "--pad-to is -1"),
        ({"repetition_penalty": 0.9}, "--repetition-penalty is 0.9"),
        ({"repetition_penalty": float("nan")}, "--repetition-penalty is nan"),
        ({"repetition_penalty": float("inf")}, "--repetition-penalty is inf"),
        (
            {"repetition_penalty": 1e9},
            r"--repetition-penalty is 1e\+09, expected 1 \(off\) to 1000",
        ),
        ({"eot_boost": 1e40}, r"--eot-boost is 1e\+40, expected 0 \(off\) to 1000"),
        ({"eot_boost": -0.1}, "--eot-boost is -0.1"),
        ({"eot_boost": float("nan")}, "--eot-boost is nan"),
    ],
)
def test_cures_out_of_range_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Cures(**values)  # type: ignore[arg-type]


def test_padding_zero_is_none_and_targets_over_the_context_are_refused() -> None:
    assert Cures(pad_to=0).padding(TINY).zero_rows(500) == 0
    with pytest.raises(OptionError, match="trained on 1500 positions"):
        Cures(pad_to=1501).padding(TINY)


def test_padding_never_cuts() -> None:
    assert Cures(pad_to=500).padding(TINY).zero_rows(1500) == 0
    assert Cures(pad_to=700).padding(TINY).zero_rows(500) == 200


def test_budget_is_half_the_text_context_and_never_past_its_end() -> None:
    assert DecodingOptions().budget(TINY, 4) == 224
    assert DecodingOptions(max_new_tokens=28).budget(TINY, 4) == 28
    assert DecodingOptions(max_new_tokens=1000).budget(TINY, 4) == 444
    with pytest.raises(OptionError, match="--max-new-tokens is 0, expected 1 or more"):
        DecodingOptions(max_new_tokens=0)


ACCEPTED_AND_REFUSED: list[tuple[type, str, list[object], list[object]]] = [
    (SearchOptions, "beam_size", [1, 64], [0, 65]),
    (SearchOptions, "best_of", [1, 64], [0, 65]),
    (SearchOptions, "patience", [0.01, 1.0, 100.0], [0.0, -1.0, 100.1, math.nan]),
    (SearchOptions, "length_penalty", [None, 0.0, 1.0], [-0.1, 1.1, math.nan]),
    (SearchOptions, "seed", [0, 1], [-1]),
    (
        SearchOptions,
        "temperatures",
        [(0.0,), (2.0,), (0.0, 1.0)],
        [(), (-0.1,), (2.1,), (0.0, 9.0)],
    ),
    (Thresholds, "no_speech", [None, 0.0, 1.0], [math.nan, math.inf]),
    (Thresholds, "logprob", [None, -9.0], [math.nan, -math.inf]),
    (Thresholds, "compression_ratio", [None, 2.4], [math.nan, math.inf]),
    (TokenLimits, "no_repeat_ngram", [0, 3], [-1]),
    (TokenLimits, "max_per_second", [None, 0.1], [0.0, -1.0, math.inf, math.nan]),
    (WordOptions, "hallucination_silence_s", [None, 0.1], [0.0, -1.0, math.inf, math.nan]),
    (Cures, "pad_to", [None, 0, 1500], [-1]),
    (Cures, "repetition_penalty", [1.0, 9.0], [0.99]),
    (Cures, "eot_boost", [0.0, 9.0], [-0.01]),
    (DecodingOptions, "max_initial_timestamp_s", [None, 0.0, 30.0], [-0.1, math.nan, math.inf]),
    (DecodingOptions, "max_new_tokens", [None, 1, 9], [0, -1]),
]


@pytest.mark.parametrize(
    ("group", "name", "values", "fits"),
    [
        (group, name, values, fits)
        for group, name, accepted, refused in ACCEPTED_AND_REFUSED
        for values, fits in ((accepted, True), (refused, False))
    ],
)
def test_options_end_where_they_are_said_to(
    group: type, name: str, values: list[object], fits: bool
) -> None:
    for value in values:
        if fits:
            assert getattr(group(**{name: value}), name) == value
        else:
            with pytest.raises(OptionError):
                group(**{name: value})


@pytest.mark.parametrize(
    ("per_second", "content_s", "tokens"),
    [(2.0, 1.5, 3), (2.0, 1.6, 4), (0.1, 1.0, 1), (1000.0, 30.0, 224), (2.0, None, 224)],
)
def test_tokens_per_second_bound_the_budget(
    per_second: float, content_s: float | None, tokens: int
) -> None:
    """Rounded up, one at least, and never more than there is without them."""
    options = DecodingOptions(limits=TokenLimits(max_per_second=per_second))
    assert options.budget(TINY, 4, content_s) == tokens


@pytest.mark.parametrize(
    ("search", "name"),
    [
        (SearchOptions(), "greedy"),
        (SearchOptions(beam_size=5), "beam 5"),
        (SearchOptions(temperatures=(0.4,), best_of=3), "best of 3 at 0.4"),
        (SearchOptions(temperatures=(0.0, 0.2, 1.0)), "greedy, then 0.2, 1"),
    ],
)
def test_a_search_is_named_by_what_it_does(search: SearchOptions, name: str) -> None:
    assert search.name == name
