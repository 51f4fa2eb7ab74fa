"""Every way to run a part gives the same for every row; chips of other sizes are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.validate import runs
from whisper_hailo_tools.validate.runs import (
    cached_decoder,
    cached_encoder,
    hailo_decoder_run,
    hailo_encoder_run,
    hef_decoder,
    hef_encoder,
)

RNG = np.random.default_rng(1)
ATOL = 1e-4


def test_encoder_runs_read_each_window(toy_model: Path) -> None:
    mel = RNG.standard_normal((2, 80, 200)).astype(np.float32)
    expected = cached_encoder(toy_model).encode(mel)
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    features = hailo_encoder_run(toy_model / "hailo" / "encoder-2s.onnx").encode(mel)
    np.testing.assert_allclose(features, expected, atol=ATOL)


def test_decoder_runs_read_each_rows_features(toy_model: Path) -> None:
    tokens = RNG.integers(0, 200, (2, 9))
    features = RNG.standard_normal((2, 100, 64)).astype(np.float32)
    bare = cached_decoder(toy_model, 0)
    padded = cached_decoder(toy_model)
    assert bare.pad_to == 0
    assert padded.pad_to == 150
    assert cached_decoder(toy_model, 120).pad_to == 120
    expected = bare.logits(tokens, features)
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    hailo = hailo_decoder_run(toy_model / "hailo" / "decoder-2s-9.onnx")
    assert hailo.pad_to == 0
    np.testing.assert_allclose(hailo.logits(tokens, features), expected, atol=ATOL)
    silence = np.zeros((2, 50, 64), np.float32)
    real = bare.logits(tokens, np.concatenate([features, silence], axis=1))
    np.testing.assert_allclose(padded.logits(tokens, features), real, atol=ATOL)


class Chip:
    """A HEF's encoder or decoder, as far as its sizes are asked for."""

    n_frames = 200
    n_positions = 100
    length = 9

    def __init__(self, path: Path, spec: ModelSpec, assets: Path | None = None) -> None:
        self.made_of = path, spec, assets

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def encode(self, mel: Any) -> Any:
        assert mel.shape[0] == 1
        return mel * 2


def test_hef_runs_of_other_sizes_are_refused(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "HefEncoder", Chip)
    monkeypatch.setattr(runs, "HefRunner", Chip)
    spec = ModelSpec.load(toy_model)
    path = Path("net.hef")
    encoder = hef_encoder(path, spec, 200)
    assert not isinstance(encoder, str)
    mel = RNG.standard_normal((2, 80, 200)).astype(np.float32)
    np.testing.assert_array_equal(encoder.encode(mel), mel * 2)
    reason = str(hef_encoder(path, spec, 100))
    assert "200 frames" in reason
    assert "100" in reason
    assert not isinstance(hef_decoder(path, spec, toy_model, (100, 9)), str)
    for sizes in ((100, 8), (50, 9)):
        reason = hef_decoder(path, spec, toy_model, sizes)
        assert "net.hef" in str(reason)
        assert f"{sizes[0]} and {sizes[1]}" in str(reason)
