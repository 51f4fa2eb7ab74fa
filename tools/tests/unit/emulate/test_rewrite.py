"""The rounding itself, on graphs small enough to work out by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, checker, helper, numpy_helper

from tests.fakes.model_sizes import MODELS, Weightless, inferred
from tools.tests.unit.emulate import graphs
from whisper_hailo.convert.hailo_forms import (
    FixedSizes,
    decoder_form,
    encoder_form,
    hailo_decoder_graph,
    hailo_encoder_graph,
)
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import HailoForm, ModelSource, ModelSpec, SpecialTokens
from whisper_hailo_tools.emulate.make import generated_script
from whisper_hailo_tools.emulate.network import EmulatedNetwork, read_network
from whisper_hailo_tools.emulate.rewrite import (
    PRESETS,
    LayerPrecision,
    PrecisionPlan,
    plan_of_script,
    tensor_bits,
)
from whisper_hailo_tools.emulate.rewrite import emulated as emulated_network
from whisper_hailo_tools.emulate.statistics import rounded_weights, scale_of

X = np.array([[[0.31, -0.9], [1.7, 0.05]]], np.float32)
RANGES = {"x": (-1.0, 2.0), "linear": (-1.5, 2.5), "y": (-2.0, 5.0)}


def emulated(model: onnx.ModelProto, *given: Any) -> onnx.ModelProto:
    return emulated_network(model, read_network(model), *given)


def by_hand(bits_of_add: int) -> np.ndarray:
    """Compute `x + (x @ w + b)`: the product at 8 bits, the sum's inputs at `bits_of_add`."""
    stored = scale_of(*RANGES["x"], bits_of_add).rounded(X)
    step = np.float32(3 / 255)  # -1 to 2 in 255 steps, zero point 85
    levels = np.clip(np.round(stored / step), -85, 170)
    read = levels.astype(np.float32) * step
    weight = rounded_weights(graphs.WEIGHT, 8, axis=1)
    linear = read @ weight + graphs.BIAS
    linear_scale = scale_of(*RANGES["linear"], bits_of_add)
    summed = stored + linear_scale.rounded(linear)
    return scale_of(*RANGES["y"], 8).rounded(summed)


def plan(script: str) -> PrecisionPlan:
    model = graphs.residual()
    return plan_of_script("p", script, read_network(model))


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize(
    ("script", "bits"),
    [("", 8), ("quantization_param({ew_add*}, precision_mode=a16_w16)", 16)],
)
def test_emulated_rounding_equals_a_hand_calculation(
    script: str, bits: int, optimize: bool
) -> None:
    model = graphs.residual()
    result = emulated(model, plan(script), graphs.statistics(**RANGES))
    checker.check_model(result, full_check=True)
    computed = graphs.run(result, X, optimize=optimize)
    np.testing.assert_allclose(computed, by_hand(bits), rtol=0, atol=1e-6)
    assert np.abs(by_hand(bits) - graphs.run(model, X)).max() > 1e-3
    assert not np.array_equal(by_hand(8), by_hand(16))


def test_emulated_keeps_names_shapes_and_the_original() -> None:
    model = graphs.residual()
    before = model.SerializeToString(deterministic=True)
    result = emulated(model, PrecisionPlan("all8"), graphs.statistics(**RANGES))
    assert model.SerializeToString(deterministic=True) == before
    assert list(result.graph.input) == list(model.graph.input)
    assert list(result.graph.output) == list(model.graph.output)
    assert list(result.opset_import) == list(model.opset_import)
    given = {name for node in result.graph.node for name in node.output}
    assert {"linear", "y"} <= given
    biases = {item.name: item for item in result.graph.initializer}
    assert np.array_equal(np.frombuffer(biases["b"].raw_data, np.float32), graphs.BIAS)


def test_emulated_narrow_reader_rounds_again() -> None:
    wide = plan("quantization_param({ew_add*}, precision_mode=a16_w16)")
    result = emulated(graphs.residual(), wide, graphs.statistics(**RANGES))
    nodes = {node.output[0]: node for node in result.graph.node}
    assert nodes["product"].input[0] == "x.a8"
    assert nodes["x.a8/divided"].input[0] == "x.rounded"
    assert nodes["x.rounded/divided"].input[0] == "x"
    assert list(nodes["y.exact"].input) == ["x.rounded", "linear"]
    assert nodes["linear/divided"].input[0] == "linear.exact"


def test_emulated_norm_reads_all_bits_of_its_tensor() -> None:
    """The compiler splits norms into parts of the bits."""
    model = graphs.normed()
    script = "quantization_param({ew_add*}, precision_mode=a16_w16)"
    wide = plan_of_script("p", script, read_network(model))
    ranges = graphs.statistics(x=(-1, 2), normed=(-2, 2), y=(-3, 4))
    result = emulated(model, wide, ranges)
    nodes = {node.output[0]: node for node in result.graph.node}
    assert str(wide.of("layer_normalization1")) == "a8_w8"
    assert nodes["normed.exact"].input[0] == "x.rounded"


def test_tensor_bits_before_a_norm_are_those_of_the_sum() -> None:
    network = read_network(graphs.normed_sum())
    script = "quantization_param({ew_add*}, precision_mode=a16_w16)"
    wide = plan_of_script("p", script, network)
    assert tensor_bits(network, wide)["sum"] == 16
    assert tensor_bits(network, PrecisionPlan("all8"))["sum"] == 8


def test_tensor_bits_follow_the_widest_reader() -> None:
    network = read_network(graphs.residual(), (), ())
    assert [layer.name for layer in network.layers] == [
        "input_layer1",
        "conv1",
        "ew_add1",
        "output_layer1",
    ]
    assert network.tensors == ("x", "linear", "y")
    wide = plan("quantization_param(ew_add1, precision_mode=a16_w16)")
    assert tensor_bits(network, wide) == {"x": 16, "linear": 16, "y": 8}
    first = plan("quantization_param(conv1, precision_mode=a16_w16)")
    assert tensor_bits(network, first) == {"x": 16, "linear": 8, "y": 8}, (
        "the widest reader's"
    )
    input_plan = plan("quantization_param(conv1, precision_mode=a8_w8_a16)")
    assert tensor_bits(network, input_plan) == {"x": 8, "linear": 16, "y": 8}
    out = plan("quantization_param({output_layer*}, precision_mode=a16_w16)")
    assert tensor_bits(network, out) == {"x": 8, "linear": 8, "y": 16}


def test_emulated_weights_have_their_own_bits() -> None:
    for mode, bits in (("a16_w4", 4), ("a8_w16", 16), ("a16_w8", 8)):
        script = f"quantization_param(conv1, precision_mode={mode})"
        result = emulated(graphs.residual(), plan(script), graphs.statistics(**RANGES))
        (rounded_weight,) = (
            item for item in result.graph.initializer if item.name == "w"
        )
        expected = rounded_weights(graphs.WEIGHT, bits, axis=1)
        np.testing.assert_array_equal(numpy_helper.to_array(rounded_weight), expected)


def test_emulated_maker_continues_with_the_exact_tensor() -> None:
    """The product's own activation reads what it is before rounding, another product what is left.

    `linear = x @ WEIGHT + BIAS`, `y = relu(linear) + linear @ WEIGHT`.
    """
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "product"),
        helper.make_node("Add", ["product", "b"], ["linear"], "linear"),
        helper.make_node("Relu", ["linear"], ["kept"], "kept"),
        helper.make_node("MatMul", ["linear", "v"], ["twice"], "twice"),
        helper.make_node("Add", ["kept", "twice"], ["y"], "sum"),
    ]
    weights = {"w": graphs.WEIGHT, "b": graphs.BIAS, "v": graphs.WEIGHT}
    spans = {
        "x": (-1.0, 2.0),
        "linear": (-2.0, 9.0),
        "kept": (0.0, 2.5),
        "twice": (-3.0, 4.1),
    }
    spans["y"] = (-4.0, 7.3)
    model = graphs.model_of(nodes, weights)
    result = emulated(model, PrecisionPlan("all8"), graphs.statistics(**spans))
    rounded = {name: scale_of(*span, 8).rounded for name, span in spans.items()}
    rounded_weight = rounded_weights(graphs.WEIGHT, 8, axis=1)
    linear = rounded["x"](X) @ rounded_weight + graphs.BIAS
    kept = rounded["kept"](np.maximum(linear, 0))
    read = rounded["linear"](linear)
    twice = rounded["twice"](read @ rounded_weight)
    expected = rounded["y"](kept + twice)
    np.testing.assert_allclose(graphs.run(result, X), expected, rtol=0, atol=1e-6)
    kept_after_rounding = rounded["kept"](np.maximum(read, 0))
    other = rounded["y"](kept_after_rounding + twice)
    assert np.abs(other - expected).max() > 0.02


def test_emulated_constant_operand_is_an_activation() -> None:
    model = graphs.positions()
    network = read_network(model, (), ())
    assert [layer.kind for layer in network.layers] == [
        "input_layer",
        "ew_add",
        "output_layer",
    ]
    result = emulated(
        model, PrecisionPlan("all8"), graphs.statistics(x=(-1, 2), y=(-2, 4))
    )
    positions = scale_of(-1.0, 2.0, 8).rounded(graphs.POSITIONS)
    read = scale_of(-1, 2, 8).rounded(X)
    expected = scale_of(-2, 4, 8).rounded(read + positions)
    np.testing.assert_allclose(graphs.run(result, X), expected, atol=1e-6)


def test_emulated_with_other_statistics_is_refused() -> None:
    with pytest.raises(ModelError, match="'linear'"):
        emulated(
            graphs.residual(),
            PrecisionPlan("all8"),
            graphs.statistics(x=(0, 1), y=(0, 1)),
        )


@pytest.mark.parametrize("ends", [{"starts": ("nowhere",)}, {"ends": ("nowhere",)}])
def test_read_network_of_unknown_nodes_is_refused(ends: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="nowhere"):
        read_network(graphs.residual(), **ends)


def test_read_network_of_constant_node_is_refused() -> None:
    value = numpy_helper.from_array(graphs.BIAS)
    nodes = [
        helper.make_node("Constant", [], ["b"], "made", value=value),
        helper.make_node("Add", ["x", "b"], ["y"], "sum"),
    ]
    with pytest.raises(ModelError, match="'made'"):
        read_network(graphs.model_of(nodes, {}), (), ())


@pytest.mark.parametrize(
    ("bits", "code"),
    [(8, TensorProto.UINT8), (16, TensorProto.UINT16)],
    ids=["8", "16"],
)
def test_emulated_rounding_equals_quantizelinear(bits: int, code: int) -> None:
    """QuantizeLinear and DequantizeLinear with a zero point give the very same bits."""
    scale = scale_of(-7.3, 9.1, bits)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["y"]),
    ]
    model = graphs.model_of(nodes, {"step": np.float32(scale.step)}, opset=21)
    model.graph.initializer.append(helper.make_tensor("zero", code, [], [-scale.low]))
    x = (np.random.default_rng(4).standard_normal((1, 400, 500)) * 3).astype(np.float32)
    expected = graphs.run(model, x, optimize=False)
    assert expected.min() >= scale.low * np.float32(scale.step)
    np.testing.assert_array_equal(scale.rounded(x), expected)


WIDE = LayerPrecision(16, 16)


def network_of(size: str, part: str) -> tuple[ModelSpec, HailoForm, EmulatedNetwork]:
    dims = MODELS[size]
    sizes = FixedSizes(5, 24)
    languages = {} if size.endswith(".en") else {"en": 2}
    tokens = SpecialTokens(sot=1, eot=0, languages=languages)
    spec = ModelSpec(size, dims, tokens, "none", "none", (), ModelSource(size))
    checkpoint = Weightless(dims)
    if part == "encoder":
        form = encoder_form(dims, sizes)
        graph = hailo_encoder_graph(checkpoint, sizes)
    else:
        form = decoder_form(dims, sizes, size)
        graph = hailo_decoder_graph(checkpoint, sizes)
    model = onnx.ModelProto()
    model.CopyFrom(inferred(graph))
    return spec, form, read_network(model, form.start_nodes, form.end_nodes)


@pytest.mark.parametrize("size", ["tiny", "base", "tiny.en", "base.en"])
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_plan_of_script_has_the_scripts_bits(size: str, part: str) -> None:
    spec, form, network = network_of(size, part)
    text = generated_script(spec, form, "hailo8l", network)
    plan = plan_of_script("script", text, network)
    expected: dict[str, str] = {}
    for pattern, mode in re.findall(
        r"quantization_param\((.*?), precision_mode=(\w+)\)", text
    ):
        for layer in network.layers:
            if fnmatchcase(layer.name, pattern.strip("{}")):
                expected[layer.name] = mode
    computed = {layer.name: str(plan.of(layer.name)) for layer in network.layers}
    assert computed == {
        layer.name: expected.get(layer.name, "a8_w8") for layer in network.layers
    }
    commands = len(text.splitlines())
    assert len(plan.ignored) == commands - text.count("quantization_param")


def test_read_network_numbers_layers_as_the_vendor() -> None:
    _, _, network = network_of("tiny", "encoder")
    by_name = {layer.name: layer for layer in network.layers}
    assert [name for name in by_name if name.startswith("conv")] == [
        f"conv{i}" for i in range(1, 19)
    ]
    fused = [layer.name for layer in network.layers if "qkv" in (layer.weight or "")]
    assert fused == ["conv3", "conv7", "conv11", "conv15"]
    # A convolution's weights have their outputs first, a product's have them last.
    assert by_name["conv1"].weight_axis == 0
    assert by_name["conv3"].weight_axis == 1
    assert by_name["ew_add1"].gives == ("encoder.embedded",)
    assert sum(layer.kind == "ew_add" for layer in network.layers) == 9
    assert sum(layer.kind == "layer_normalization" for layer in network.layers) == 9
    assert sum(layer.kind == "matmul" for layer in network.layers) == 8
    # Product, bias, GELU.
    assert by_name["conv5"].nodes[-1] - by_name["conv5"].nodes[0] == 6


def test_read_network_of_decoder_begins_behind_lookup() -> None:
    _, _, network = network_of("tiny", "decoder")
    kinds = [layer.kind for layer in network.layers]
    assert kinds.count("conv") == 8 * 4 + 4
    # Three a layer, written out, and the last.
    assert kinds.count("layer_normalization") == 13
    assert kinds.count("ew_add") == 12
    assert kinds.count("softmax") == 8
    assert set(kinds) == {
        "input_layer",
        "output_layer",
        "conv",
        "matmul",
        "ew_add",
        "softmax",
        "normalization",
        "layer_normalization",
    }
    assert network.entries == ("encoder_hidden_states", "embedded.nchw")
    outputs = [
        layer.slots[0].origin
        for layer in network.layers
        if layer.kind == "output_layer"
    ]
    assert len(outputs) == 4
    masked = next(layer for layer in network.layers if layer.name == "softmax1")
    # The mask itself has no scale.
    assert masked.slots[0].origin.endswith("self_attn.scores")


@pytest.mark.parametrize("size", ["tiny", "base"])
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_plan_of_script_presets_set_adds_and_norms(size: str, part: str) -> None:
    _, _, network = network_of(size, part)
    for name, kinds in {
        "all8": set(),
        "adds16": {"ew_add"},
        "norms16": {"ew_add", "layer_normalization"},
    }.items():
        plan = plan_of_script(name, PRESETS[name], network)
        wide = {layer.kind for layer in network.layers if plan.of(layer.name) == WIDE}
        assert wide == kinds
        assert all(
            (plan.of(layer.name) == WIDE) == (layer.kind in kinds)
            for layer in network.layers
        )


def test_plan_of_script_later_commands_override() -> None:
    network = read_network(graphs.residual(), (), ())

    def bits(text: str) -> dict[str, str]:
        plan = plan_of_script("p", text, network)
        return {name: str(value) for name, value in plan.precisions.items()}

    everything = "quantization_param({*}, precision_mode=a16_w16)\n"
    back = "quantization_param(ew_add1, precision_mode=a8_w8)"
    assert bits(everything + back)["ew_add1"] == "a8_w8"
    assert bits(back + "\n" + everything)["ew_add1"] == "a16_w16"
    assert bits(
        "quantization_param([net/conv1, ew_add1], precision_mode=a16_w8) # note"
    ) == {
        "conv1": "a16_w8",
        "ew_add1": "a16_w8",
    }
    assert bits("quantization_param(conv1, precision_mode=a8_w4_a16)") == {
        "conv1": "a8_w4_a16"
    }
    assert bits("# nothing\n\nmodel_optimization_flavor(optimization_level=2)") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantization_param(conv9, precision_mode=a16_w16)", "'conv9'"),
        ("quantization_param(conv1, precision_mode=a12_w8)", "a12_w8"),
    ],
)
def test_plan_of_script_of_unknown_modes_is_refused(text: str, message: str) -> None:
    network = read_network(graphs.residual(), (), ())
    with pytest.raises(ModelError, match=message):
        plan_of_script("p", text, network)


def test_generated_script_of_unknown_network_is_refused() -> None:
    spec, form, network = network_of("tiny", "encoder")
    fewer = replace(
        network, layers=tuple(x for x in network.layers if x.name != "conv18")
    )
    with pytest.raises(ModelError, match="15"):
        generated_script(spec, form, "hailo8l", fewer)
