"""Noise on cases where it is known beforehand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tools.tests.unit.emulate import graphs
from whisper_hailo.core.errors import ModelError
from whisper_hailo_tools.emulate.make import measure_noise
from whisper_hailo_tools.emulate.network import read_network
from whisper_hailo_tools.emulate.rewrite import PrecisionPlan, emulated
from whisper_hailo_tools.emulate.statistics import collect, scale_of

RNG = np.random.default_rng(5)
WINDOWS = [{"x": RNG.standard_normal((1, 2, 2)).astype(np.float32)} for _ in range(40)]


def test_collect_gives_statistics_of_the_tensors() -> None:
    model = graphs.residual()
    network = read_network(model, (), ())
    statistics = collect(model, network, WINDOWS)
    x = np.stack([window["x"] for window in WINDOWS])
    linear = x @ graphs.WEIGHT + graphs.BIAS
    assert set(statistics) == {"x", "linear", "y"}
    for name, values in {"x": x, "linear": linear, "y": x + linear}.items():
        histogram = statistics[name]
        assert histogram.n_values == values.size
        assert histogram.low == pytest.approx(values.min(), rel=1e-5)
        assert histogram.high == pytest.approx(values.max(), rel=1e-5)


def test_measure_noise_is_that_of_the_rounding() -> None:
    model = graphs.positions()
    network = read_network(model, (), ())
    statistics = graphs.statistics(x=(-4, 4), y=(-6, 6))
    rounded = emulated(model, network, PrecisionPlan("all8"), statistics)
    noise = measure_noise(model, rounded, network, WINDOWS)
    assert [entry.layer for entry in noise.layers] == ["input_layer1", "ew_add1"]
    assert [entry.layer for entry in noise.outputs] == ["output_layer1"]
    assert noise.n_windows == 40
    x = np.stack([window["x"] for window in WINDOWS])
    read = scale_of(-4, 4, 8).rounded(x)
    y = scale_of(-6, 6, 8).rounded(read + scale_of(-1, 2, 8).rounded(graphs.POSITIONS))
    for entry, true, emulated_values in zip(
        noise.layers, (x, x + graphs.POSITIONS), (read, y), strict=True
    ):
        snr_db = 10 * math.log10(
            np.sum(np.square(true)) / np.sum(np.square(true - emulated_values))
        )
        assert entry.snr_db == pytest.approx(snr_db, abs=0.01)
    assert noise.outputs[0].snr_db == noise.layers[1].snr_db
    assert noise.layers[0].snr_db > noise.layers[1].snr_db


def test_measure_noise_without_windows_is_refused() -> None:
    model = graphs.residual()
    network = read_network(model, (), ())
    with pytest.raises(ModelError):
        collect(model, network, [])
    rounded = emulated(
        model, network, PrecisionPlan("all8"), collect(model, network, WINDOWS)
    )
    with pytest.raises(ModelError, match="windows"):
        measure_noise(model, rounded, network, [])


def test_collect_of_another_networks_windows_is_refused() -> None:
    model = graphs.residual()
    network = read_network(model, (), ())
    with pytest.raises(ModelError, match="mel"):
        collect(model, network, [{"mel": np.zeros((1, 2, 2), np.float32)}])
    with pytest.raises(ModelError, match="failed"):
        collect(model, network, [{"x": np.zeros((1, 5, 2), np.float32)}])


def test_measure_noise_compares_the_given_tensors_only() -> None:
    model = graphs.residual()
    network = read_network(model, (), ())
    plan = PrecisionPlan("all8")
    rounded = emulated(model, network, plan, collect(model, network, WINDOWS))
    whole = measure_noise(model, rounded, network, WINDOWS)
    some = measure_noise(model, rounded, network, WINDOWS, tensors=("linear",))
    assert [entry.tensor for entry in some.layers] == ["linear"]
    assert some.layers == tuple(
        entry for entry in whole.layers if entry.tensor == "linear"
    )
    assert some.outputs == ()
