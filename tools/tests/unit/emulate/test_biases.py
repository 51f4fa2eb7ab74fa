"""Correction of biases: means that rounding shifted come back, layer by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tools.tests.unit.emulate import graphs
from whisper_hailo_tools.emulate.biases import correct_biases, corrects_biases
from whisper_hailo_tools.emulate.make import emulate_part
from whisper_hailo_tools.emulate.network import read_network
from whisper_hailo_tools.emulate.rewrite import (
    LayerPrecision,
    PrecisionPlan,
    emulated,
)
from whisper_hailo_tools.emulate.statistics import collect
from whisper_hailo_tools.options import EmulateOptions

RNG = np.random.default_rng(0)
WINDOWS = [
    {"x": (1 + RNG.standard_normal((1, 2, 2))).astype(np.float32)} for _ in range(40)
]
NARROW = LayerPrecision(reads=8, weights=4)
"""Weights of 4 bits, whose errors are large and the same for every input."""


def two_products() -> object:
    """`y = (x @ WEIGHT + BIAS) @ WEIGHT`."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["first"], "first"),
        helper.make_node("Add", ["first", "b"], ["linear"], "linear"),
        helper.make_node("MatMul", ["linear", "w2"], ["y"], "second"),
    ]
    second = graphs.WEIGHT + 0.07
    weights = {"w": graphs.WEIGHT, "b": graphs.BIAS, "w2": second}
    return graphs.model_of(nodes, weights)


@pytest.mark.parametrize("make", [graphs.residual, two_products])
def test_correct_biases_restores_the_means(make: object) -> None:
    model = make()  # type: ignore[operator]
    network = read_network(model)
    plan = PrecisionPlan("w4", {"conv1": NARROW, "conv2": NARROW})
    rounded = emulated(model, network, plan, collect(model, network, WINDOWS))
    before = rounded.SerializeToString()
    corrected = correct_biases(model, rounded, network, WINDOWS, threads=1)
    assert rounded.SerializeToString() == before
    errors = {}
    for name, graph in (("rounded", rounded), ("corrected", corrected)):
        differences = [
            graphs.run(graph, feeds["x"]) - graphs.run(model, feeds["x"])
            for feeds in WINDOWS
        ]
        errors[name] = np.abs(np.concatenate(differences).mean(axis=(0, 1)))
    step = 0.05  # of the rounded output, whose own rounding comes after the correction
    assert (errors["corrected"] < step).all()
    assert errors["corrected"].max() < errors["rounded"].max() / 4


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", False),
        ("model_optimization_flavor(optimization_level=0)", False),
        ("model_optimization_flavor(optimization_level=1, compression_level=0)", True),
        ("model_optimization_flavor(optimization_level=2)", False),
        (
            "model_optimization_flavor(optimization_level=1)\n"
            "post_quantization_optimization(finetune, policy=enabled)",
            False,
        ),
        ("post_quantization_optimization(bias_correction, policy=enabled)", True),
        ("# post_quantization_optimization(bias_correction, policy=enabled)", False),
        (
            "model_optimization_flavor(optimization_level=1)\n"
            "post_quantization_optimization(bias_correction, policy=disabled)",
            False,
        ),
    ],
)
def test_corrects_biases_follows_level_and_policy(script: str, expected: bool) -> None:
    assert corrects_biases(script) is expected


@pytest.mark.slow
def test_emulate_with_corrected_biases_is_less_noisy(
    micro: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    snr_db = {}
    for policy in ("disabled", "enabled"):
        script = tmp_path / f"{policy}.alls"
        script.write_text(
            f"post_quantization_optimization(bias_correction, policy={policy})\n"
        )
        options = EmulateOptions(script=script, calibration=sets["encoder"], threads=1)
        (output,) = emulate_part(micro, options).noise.outputs
        snr_db[policy] = output.snr_db
    assert snr_db["enabled"] > snr_db["disabled"]
