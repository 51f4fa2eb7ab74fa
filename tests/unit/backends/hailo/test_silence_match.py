"""Silence of a chip beside that of the CPU, and the bias that is taken away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.hailo.conftest import Hefs, mel_of
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.backends.hailo.silence_match import (
    NEAR_DB,
    emulated_bias,
    match_silence,
)
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import select
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray

BIAS = np.resize(np.array([1.5, -1.5], np.float32), 64)
"""Of the stand-in's answer `bias`."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def cpu(hailo_directory: Path, spec: ModelSpec) -> Iterator[OnnxEncoder]:
    with OnnxEncoder(hailo_directory, spec, 1) as opened:
        yield opened


class ChipLike:
    """The CPU's encoder with a window of 2 s, and an error that is added to its features."""

    name = "chip-like"
    n_frames = 200

    def __init__(self, cpu: OnnxEncoder, error: Any) -> None:
        self._cpu = cpu
        self.spec = cpu.spec
        self._error = error
        self.mels: list[FloatArray] = []

    def open(self) -> ChipLike:
        return self

    def close(self) -> None:
        pass

    def __enter__(self) -> ChipLike:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def encode(self, mel: FloatArray) -> FloatArray:
        self.mels.append(mel)
        features = self._cpu.encode(mel)
        error = self._error(features) if callable(self._error) else self._error
        return features + error


@pytest.mark.parametrize(("size", "is_near"), [(0.2, True), (0.6, False)])
def test_match_silence_of_noise_has_no_shift(
    cpu: OnnxEncoder, size: float, is_near: bool
) -> None:
    rng = np.random.default_rng(0)

    def noise(features: FloatArray) -> FloatArray:
        values = rng.standard_normal(features.shape).astype(np.float32)
        return values * features.std() * size

    chip = ChipLike(cpu, noise)
    silence = match_silence(chip, cpu)
    assert (silence.snr_db >= NEAR_DB) is is_near
    assert silence.shift == ()
    assert [mel.shape for mel in chip.mels] == [(1, 80, 200)] * 2


def test_match_silence_of_bias_is_the_bias(cpu: OnnxEncoder) -> None:
    silence = match_silence(ChipLike(cpu, BIAS), cpu)
    assert silence.snr_db < NEAR_DB
    np.testing.assert_allclose(silence.shift, BIAS, atol=1e-5)


def test_match_silence_of_equal_features_is_finite(
    cpu: OnnxEncoder,
) -> None:
    """JSON has no infinity."""
    silence = match_silence(ChipLike(cpu, 0), cpu)
    assert np.isfinite(silence.snr_db)
    assert silence.shift == ()


def test_emulated_bias_is_measured_once(
    cpu: OnnxEncoder, hailo_directory: Path, spec: ModelSpec, tmp_path: Path
) -> None:
    graph = tmp_path / "graph.onnx"
    graph.write_bytes(b"a graph")
    chip = ChipLike(cpu, BIAS)
    bias = emulated_bias(graph, chip, hailo_directory, spec, 1)
    assert bias is not None
    np.testing.assert_allclose(bias, BIAS, atol=1e-5)
    n_windows = len(chip.mels)
    again = emulated_bias(graph, chip, hailo_directory, spec, 1)
    np.testing.assert_array_equal(again, bias)
    assert len(chip.mels) == n_windows
    graph.write_bytes(b"another graph")
    emulated_bias(graph, chip, hailo_directory, spec, 1)
    assert len(chip.mels) == 2 * n_windows


@pytest.mark.parametrize("answers", ["", "bias"])
def test_select_takes_the_bias_of_a_chip_away(
    *,
    trial_machine: Any,
    hefs: Hefs,
    hailo_directory: Path,
    spec: ModelSpec,
    cpu: OnnxEncoder,
    answers: str,
) -> None:
    trial_machine.set(answers=answers)
    options = EngineOptions(encoder=hefs.encoder)
    for _ in range(2):  # measured, and from the cache
        engine = select(hailo_directory, spec, options, 1)
        assert isinstance(engine.encoder, HefEncoder)
        assert (engine.encoder.bias is not None) is (answers == "bias")
        with engine.encoder:
            features = engine.encoder.encode(mel_of(3))
        np.testing.assert_allclose(features, cpu.encode(mel_of(3)), atol=5e-3)
