"""Plans: what a model script says is what the layers get."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase

import onnx
import pytest

from tests.unit.convert.hailo.shapes import MODELS, Weightless, inferred
from tests.unit.tools.emulate import graphs
from whisper_hailo.convert.hailo.decoder import hailo_decoder_graph
from whisper_hailo.convert.hailo.encoder import hailo_encoder_graph
from whisper_hailo.convert.hailo.pieces import FixedSizes
from whisper_hailo.convert.hailo.write import decoder_form, encoder_form
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.spec import HailoForm, ModelSource, ModelSpec, SpecialTokens
from whisper_hailo_tools.emulate.make import generated_script
from whisper_hailo_tools.emulate.network import EmulatedNetwork, read_network
from whisper_hailo_tools.emulate.rewrite import LayerPrecision, plan_of_script, preset

WIDE = LayerPrecision(16, 16)


def network_of(size: str, part: str) -> tuple[ModelSpec, HailoForm, EmulatedNetwork]:
    dims, sizes = MODELS[size], FixedSizes(5, 24)
    languages = {} if size.endswith(".en") else {"en": 2}
    tokens = SpecialTokens(sot=1, eot=0, languages=languages)
    spec = ModelSpec(size, dims, tokens, "none", "none", (), ModelSource(size))
    checkpoint = Weightless(dims)
    if part == "encoder":
        form, graph = encoder_form(dims, sizes), hailo_encoder_graph(checkpoint, sizes)
    else:
        form, graph = decoder_form(dims, sizes, size), hailo_decoder_graph(checkpoint, sizes)
    model = onnx.ModelProto()
    model.CopyFrom(inferred(graph))
    return spec, form, read_network(model, form.start_nodes, form.end_nodes)


@pytest.mark.parametrize("size", ["tiny", "base", "tiny.en", "base.en"])
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_the_plan_is_the_scripts(size: str, part: str) -> None:
    spec, form, network = network_of(size, part)
    text = generated_script(spec, form, "hailo8l", network)
    plan = plan_of_script("script", text, network, form.start_nodes, form.end_nodes)
    expected: dict[str, str] = {}
    for pattern, mode in re.findall(r"quantization_param\((.*?), precision_mode=(\w+)\)", text):
        for layer in network.layers:
            if fnmatchcase(layer.name, pattern.strip("{}")):
                expected[layer.name] = mode
    got = {layer.name: str(plan.of(layer.name)) for layer in network.layers}
    assert got == {layer.name: expected.get(layer.name, "a8_w8") for layer in network.layers}
    commands = len(text.splitlines())
    assert len(plan.ignored) == commands - text.count("quantization_param")
    assert (plan.starts, plan.ends) == (form.start_nodes, form.end_nodes)


def test_layers_are_numbered_as_in_the_vendors_scripts() -> None:
    _, _, network = network_of("tiny", "encoder")
    by_name = {layer.name: layer for layer in network.layers}
    assert [name for name in by_name if name.startswith("conv")] == [
        f"conv{i}" for i in range(1, 19)
    ]
    fused = [layer.name for layer in network.layers if "qkv" in (layer.weight or "")]
    assert fused == ["conv3", "conv7", "conv11", "conv15"]
    # A convolution's weights have their outputs first, a product's have them last.
    assert (by_name["conv1"].weight_axis, by_name["conv3"].weight_axis) == (0, 1)
    assert by_name["ew_add1"].gives == ("encoder.embedded",)
    assert sum(layer.kind == "ew_add" for layer in network.layers) == 9
    assert sum(layer.kind == "layer_normalization" for layer in network.layers) == 9
    assert sum(layer.kind == "matmul" for layer in network.layers) == 8
    assert by_name["conv5"].nodes[-1] - by_name["conv5"].nodes[0] == 6  # product, bias, GELU


def test_a_decoders_layers_begin_behind_the_token_lookup() -> None:
    _, _, network = network_of("tiny", "decoder")
    kinds = [layer.kind for layer in network.layers]
    assert kinds.count("conv") == 8 * 4 + 4
    assert kinds.count("layer_normalization") == 13  # three a layer, written out, and the last
    assert kinds.count("ew_add") == 12
    assert kinds.count("softmax") == 8
    assert set(kinds) == {
        "input_layer", "output_layer", "conv", "matmul", "ew_add", "softmax", "normalization",
        "layer_normalization",
    }  # fmt: skip
    assert network.entries == ("encoder_hidden_states", "embedded.nchw")
    outputs = [layer.slots[0].origin for layer in network.layers if layer.kind == "output_layer"]
    assert len(outputs) == 4
    masked = next(layer for layer in network.layers if layer.name == "softmax1")
    assert masked.slots[0].origin.endswith("self_attn.scores")  # the mask itself has no scale


@pytest.mark.parametrize("size", ["tiny", "base"])
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_presets_name_the_adds_and_the_norms(size: str, part: str) -> None:
    _, form, network = network_of(size, part)
    for name, kinds in {
        "all8": set(),
        "adds16": {"ew_add"},
        "norms16": {"ew_add", "layer_normalization"},
    }.items():
        plan = plan_of_script(name, preset(name), network, form.start_nodes, form.end_nodes)
        wide = {layer.kind for layer in network.layers if plan.of(layer.name) == WIDE}
        assert wide == kinds
        assert all(
            (plan.of(layer.name) == WIDE) == (layer.kind in kinds) for layer in network.layers
        )


def test_later_commands_overrule_and_names_have_many_forms() -> None:
    network = read_network(graphs.residual(), (), ())

    def bits(text: str) -> dict[str, str]:
        plan = plan_of_script("p", text, network, (), ())
        return {name: str(value) for name, value in plan.precisions.items()}

    everything = "quantization_param({*}, precision_mode=a16_w16)\n"
    back = "quantization_param(ew_add1, precision_mode=a8_w8)"
    assert bits(everything + back)["ew_add1"] == "a8_w8"
    assert bits(back + "\n" + everything)["ew_add1"] == "a16_w16"
    assert bits("quantization_param([net/conv1, ew_add1], precision_mode=a16_w8) # note") == {
        "conv1": "a16_w8", "ew_add1": "a16_w8",
    }  # fmt: skip
    assert bits("quantization_param(conv1, precision_mode=a8_w4_a16)") == {"conv1": "a8_w4_a16"}
    assert bits("# nothing\n\nmodel_optimization_flavor(optimization_level=2)") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantization_param(conv9, precision_mode=a16_w16)", r"no layer 'conv9'"),
        ("quantization_param(conv1, precision_mode=a12_w8)", r"known are precision modes a8"),
    ],
)
def test_scripts_that_mean_nothing_here_are_refused(text: str, message: str) -> None:
    network = read_network(graphs.residual(), (), ())
    with pytest.raises(ModelError, match=message):
        plan_of_script("p", text, network, (), ())
    with pytest.raises(OptionError, match="--plan is 'all4', expected one of: all8"):
        preset("all4")


def test_a_network_that_the_recipe_does_not_know_is_refused() -> None:
    spec, form, network = network_of("tiny", "encoder")
    fewer = replace(network, layers=tuple(x for x in network.layers if x.name != "conv18"))
    with pytest.raises(ModelError, match=r"15 linear products"):
        generated_script(spec, form, "hailo8l", fewer)
