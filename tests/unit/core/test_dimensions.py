"""Sizes of a model, and those that none has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import AudioForm, Dimensions, HailoForm

SMALL = Dimensions(
    n_mels=80, n_audio_ctx=1500, d_model=60, n_encoder_layers=4, n_encoder_heads=6,
    n_decoder_layers=2, n_decoder_heads=5, n_text_ctx=448, n_vocab=51865,
)  # fmt: skip
FORM = HailoForm(
    "encoder", "hailo/e.onnx", 10, None, 13, {"mel": (1, 80, 1000)}, {"out": (1, 500, 60)},
    ("a",), ("b",), ((1, 1, 1000, 80),),
)  # fmt: skip
LARGEST = {
    "n_mels": 1024, "n_audio_ctx": 65_536, "n_encoder_layers": 256, "n_decoder_layers": 256,
    "n_text_ctx": 65_536, "n_vocab": 1_048_576,
}  # fmt: skip


def test_sizes_follow_from_the_others() -> None:
    assert (SMALL.head_size, SMALL.encoder_head_size, SMALL.cache_head_size) == (12, 10, 16)
    assert replace(SMALL, n_decoder_heads=60).cache_head_size == 8  # of heads that are 1 wide
    assert replace(SMALL, d_model=192, n_decoder_heads=3).cache_head_size == 64
    half = replace(SMALL, n_audio_ctx=750)
    assert (half.max_frames, half.max_window_s) == (1500, 15.0)


@pytest.mark.parametrize("name", LARGEST)
def test_a_size_is_a_whole_number_up_to_its_largest(name: str) -> None:
    for good in (1, LARGEST[name]):
        assert getattr(replace(SMALL, **{name: good}), name) == good
    bad: Any
    for bad in (0, -1, LARGEST[name] + 1, 1.5, 2.0, True, "4", None):
        with pytest.raises(ModelError, match=f"^{name} is .*, expected a whole number from 1 to"):
            replace(SMALL, **{name: bad})


def test_a_width_is_split_into_its_heads() -> None:
    assert replace(SMALL, d_model=16_384, n_encoder_heads=256, n_decoder_heads=256).head_size == 64
    for change in ({"d_model": 16_385}, {"n_encoder_heads": 257}, {"n_decoder_heads": 257}):
        with pytest.raises(ModelError, match="expected a whole number from 1 to"):
            replace(SMALL, **change)
    for change in ({"n_encoder_heads": 7}, {"n_decoder_heads": 7}):
        with pytest.raises(ModelError, match="d_model 60 cannot be split into 7 heads"):
            replace(SMALL, **change)


@pytest.mark.parametrize(
    ("quantized", "half", "width", "form"),
    [
        (False, False, 64, AudioForm.FLOAT),
        (False, True, 64, AudioForm.FLOAT),
        (True, False, 64, AudioForm.CODES),
        (True, True, 64, AudioForm.HALF),
        (True, True, 60, AudioForm.FLOAT),
        (True, False, 8, AudioForm.CODES),
    ],
)
def test_how_audio_is_held(quantized: bool, half: bool, width: int, form: AudioForm) -> None:
    dims = replace(SMALL, d_model=width, n_encoder_heads=1, n_decoder_heads=1)
    assert dims.audio_form(quantized=quantized, half=half) is form


@pytest.mark.parametrize(
    "change",
    [
        {"part": "middle"}, {"window_s": 0}, {"opset": 0}, {"length": 0},
        {"inputs": {"mel": (1, 0)}}, {"outputs": {"out": (1, (1 << 20) + 1)}},
        {"chip_inputs": ((1, -1, 1, 1),)},
    ],
)  # fmt: skip
def test_a_form_that_no_chip_takes_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"e\.onnx is part '.*' with sizes .* expected encoder or"):
        replace(FORM, **change)


def test_a_form_may_be_as_large_as_that_and_has_one_that_is_emulated() -> None:
    large = replace(FORM, outputs={"out": (1, 1 << 20)}, part="decoder", length=1)
    assert large.emulated_file == "hailo/e-emulated.onnx"
    assert (FORM.assets, FORM.length) == ({}, None)
