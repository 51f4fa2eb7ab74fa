import pytest

from tests.unit.shapes import TINY
from whisper_hailo.core.errors import OptionError
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
            r"--repetition-penalty is 1000000000\.0, expected 1 \(off\) to 1000",
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
    with pytest.raises(OptionError, match="token budget is 0"):
        DecodingOptions(max_new_tokens=0)
