"""Each rule fires on a graph that breaks it, and on none of ours; broken files are one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from tests.unit.convert.hailo.shapes import MODELS, Weightless, inferred
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.graphs import onnx_file
from whisper_hailo.convert.hailo.decoder import hailo_decoder_graph
from whisper_hailo.convert.hailo.encoder import hailo_encoder_graph
from whisper_hailo.convert.hailo.sizes import FixedSizes
from whisper_hailo.convert.hailo.write import decoder_form, encoder_form
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.spec import SPEC_FILE
from whisper_hailo.hailo_tools.check import graph_rules
from whisper_hailo.hailo_tools.check.finding import Severity
from whisper_hailo.hailo_tools.check.report import Report, check_file
from whisper_hailo.hailo_tools.check.sizes import TINY_ENCODER_WEIGHTS

F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741
HAILO = ConvertOptions("none", hailo=HailoOptions(window_s=2, decoder_length=7))
Shape = Sequence[int | str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("check")
    checkpoint = write_checkpoint(directory / "toy", random_arrays(TOY), config=config_of(TOY))
    convert_checkpoint(checkpoint, directory / "model", HAILO)
    return directory / "model"


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Write a graph from input `x` to output `y`."""

    def write(  # noqa: PLR0917
        nodes: list[NodeProto],
        shape: Shape = (1, 4, 8),
        dtype: int = F,
        weights: dict[str, np.ndarray] | None = None,
        opset: int = 17,
        ir_version: int = 9,
    ) -> Path:
        graph = helper.make_graph(
            nodes,
            "foreign",
            [helper.make_tensor_value_info("x", dtype, shape)],
            [helper.make_tensor_value_info("y", F, None)],
            [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
        )
        domains = sorted({"", *(node.domain for node in nodes)})
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid(d, opset if not d else 1) for d in domains]
        )
        model.ir_version = ir_version
        path = tmp_path / "foreign.onnx"
        onnx.save(model, path)
        return path

    return write


def _rules(report: Report) -> set[tuple[str, str]]:
    return {(finding.severity.value, finding.rule) for finding in report.findings}


def _only(report: Report, rule: str) -> str:
    (finding,) = [finding for finding in report.findings if finding.rule == rule]
    assert finding.source
    assert finding.mend
    return finding.got


@pytest.mark.parametrize("arch", ["hailo8", "hailo8l", "hailo10h"])
@pytest.mark.parametrize("file", ["encoder-2s", "decoder-2s-7"])
def test_our_own_forms_pass(model: Path, file: str, arch: str) -> None:
    report = check_file(model / "hailo" / f"{file}.onnx", arch)
    notes = {"window", "host-positions"}  # the toy's width is nobody's
    assert {finding.rule for finding in report.findings} <= notes
    assert not report.blocked
    assert report.recorded


def test_the_decoders_section_leaves_lookup_and_concatenation_out(model: Path) -> None:
    report = check_file(model / "hailo" / "decoder-2s-7.onnx", "hailo8l")
    assert not {"Gather", "Unsqueeze", "Concat"} & report.operators.keys()
    assert report.entries == {
        "encoder_hidden_states": "(1, 100, 64)", "embedded.nchw": "(1, 64, 7, 1)",
    }  # fmt: skip
    assert report.chip_inputs["embedded.nchw"] == "(1, 7, 1, 64)"
    assert report.chip_inputs["encoder_hidden_states"] == "(1, 1, 100, 64)"
    whole = check_file(model / "hailo" / "decoder-2s-7.onnx", "hailo8l", ends=["logits"])
    assert {("blocks", "table-lookup"), ("blocks", "element-type")} <= _rules(whole)


def test_our_dynamic_graphs_are_blocked(model: Path) -> None:
    encoder = _rules(check_file(model / "encoder.onnx", "hailo8l"))
    rules = ("conv1d", "dynamic-shape", "dynamic-operator")
    assert {("blocks", rule) for rule in rules} <= encoder
    decoder = _rules(check_file(model / "decoder.onnx", "hailo8l"))
    rules = ("table-lookup", "fused-attention")
    assert {("blocks", rule) for rule in rules} <= decoder


def test_a_cut_at_the_wrong_place_is_found(model: Path) -> None:
    path = model / "hailo" / "decoder-2s-7.onnx"
    ends = ["/MatMul"]
    after = check_file(path, "hailo8", ["encoder_hidden_states", "embedded.turned"], ends)
    assert "(1, 64, 7)" in _only(after, "layout")
    missing = check_file(path, "hailo8", ["/Reshape"], ends)
    assert "encoder_hidden_states" in _only(missing, "cut")
    unused = check_file(path, "hailo8", ["encoder_hidden_states"], ["embedded"])
    assert {("blocks", "cut")} <= _rules(unused)
    assert {finding.node for finding in unused.findings if finding.rule == "cut"} == {
        "decoder_input_ids", "encoder_hidden_states",
    }  # fmt: skip


def test_unknown_names_are_refused_with_near_ones(model: Path) -> None:
    path = model / "hailo" / "decoder-2s-7.onnx"
    with pytest.raises(OptionError, match=r"--end /MatMul_9: .* did you mean one of: /MatMul"):
        check_file(path, "hailo8", ends=["/MatMul_9"])
    with pytest.raises(OptionError, match="--start nothing"):
        check_file(path, "hailo8", starts=["nothing"])
    with pytest.raises(OptionError, match=r"--arch is 'hailo9', expected one of: hailo8, hailo8l"):
        check_file(path, "hailo9")


Save = Callable[..., Path]


def test_fused_attention_and_foreign_domains(save: Save) -> None:
    node = helper.make_node
    fused = node("MultiHeadAttention", ["x", "x", "x"], ["y"], domain="com.microsoft", num_heads=2)
    assert _rules(check_file(save([fused]), "hailo8")) == {("blocks", "fused-attention")}
    gelu = node("FastGelu", ["x"], ["y"], domain="com.microsoft")
    assert _rules(check_file(save([gelu]), "hailo8")) == {("blocks", "foreign-domain")}


def test_conv1d(save: Save) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    report = check_file(save([conv], weights={"w": np.ones((2, 4, 3), np.float32)}), "hailo8")
    assert "(2, 4, 3)" in _only(report, "conv1d")
    weights = {"w": np.ones((2, 4, 1, 3), np.float32)}
    assert not check_file(save([conv], (1, 4, 1, 8), weights=weights), "hailo8").findings


def test_token_lookup_and_its_ids(save: Save) -> None:
    gather = helper.make_node("Gather", ["table", "x"], ["y"])
    path = save([gather], (1, 3), I, {"table": np.ones((5, 4), np.float32)})
    report = check_file(path, "hailo8l")
    assert _rules(report) == {("blocks", "table-lookup"), ("blocks", "element-type")}
    assert "int64" in _only(report, "element-type")


def test_shape_arithmetic_on_fixed_sizes_is_only_a_note(save: Save) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("Cast", ["n"], ["f"], to=F),
        helper.make_node("Mul", ["flat", "f"], ["y"]),
    ]
    weights = {"zero": np.array(1), "target": np.array([1, 32])}
    assert _rules(check_file(save(nodes, weights=weights), "hailo8")) == {
        ("note", "constant-subgraph")
    }
    dynamic = _rules(check_file(save(nodes, (1, "n", 8), weights=weights), "hailo8"))
    assert {("blocks", "dynamic-operator"), ("blocks", "dynamic-shape")} <= dynamic


def test_control_flow_and_masks(save: Save) -> None:
    where = [
        helper.make_node("Greater", ["x", "zero"], ["mask"]),
        helper.make_node("Where", ["mask", "x", "zero"], ["y"], name="where"),
    ]
    report = check_file(save(where, weights={"zero": np.float32([0])}), "hailo8")
    assert ("blocks", "broadcast-scaffolding") in _rules(report)
    assert ("unknown", "unseen-operator") in _rules(report)  # Greater
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value_float=1.0)],
        "branch",
        [],
        [helper.make_tensor_value_info("c", F, ())],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["b"], to=TensorProto.BOOL),
        helper.make_node("If", ["b"], ["y"], then_branch=branch, else_branch=branch),
    ]
    assert ("blocks", "dynamic-operator") in _rules(check_file(save(nodes), "hailo8"))


@pytest.mark.parametrize(
    ("n_columns", "arch", "expected"),
    [
        (12_967, "hailo8", set()),
        (20_000, "hailo8", {("unknown", "wide-product")}),
        (51_864, "hailo8", {("blocks", "wide-product")}),
        (51_865, "hailo8l", {("blocks", "wide-product")}),
        (51_865, "hailo10h", {("unknown", "wide-product")}),
    ],
)
def test_wide_products(
    save: Save, n_columns: int, arch: str, expected: set[tuple[str, str]]
) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = save([node], weights={"w": np.ones((8, n_columns), np.float32)})
    assert _rules(check_file(path, arch)) == expected


def test_wide_products_of_turned_tables(save: Save) -> None:
    nodes = [
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["y"]),
    ]
    path = save(nodes, weights={"table": np.ones((51_865, 8), np.float32)})
    rules = {("blocks", "wide-product"), ("note", "constant-subgraph")}
    assert _rules(check_file(path, "hailo8")) == rules


def test_versions(save: Save) -> None:
    relu = [helper.make_node("Mul", ["x", "x"], ["y"])]
    assert not check_file(save(relu, opset=13), "hailo8").findings
    assert _rules(check_file(save(relu, opset=18), "hailo8")) == {("unknown", "opset")}
    report = check_file(save(relu, ir_version=10), "hailo8")
    assert "IR version 10" in _only(report, "file-format")
    norm = [helper.make_node("LayerNormalization", ["x", "w"], ["y"])]
    weights = {"w": np.ones(8, np.float32)}
    assert ("blocks", "unfit-opset") in _rules(
        check_file(save(norm, opset=13, weights=weights), "hailo8")
    )
    assert not check_file(save(norm, weights=weights), "hailo8").findings


def test_batches_and_many_axes(save: Save) -> None:
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    weights = {"target": np.array([2, 1, 4, 2, 4])}
    report = check_file(save([node], (2, 4, 8), weights=weights), "hailo8")
    assert _rules(report) == {("unknown", "batch"), ("unknown", "many-axes")}


@pytest.mark.parametrize(
    ("name", "window_s", "arch", "expected"),
    [
        ("tiny", 10, "hailo8l", None),
        ("tiny", 11, "hailo8l", Severity.UNKNOWN),
        ("base", 5, "hailo8", None),
        ("base", 10, "hailo8", Severity.BLOCKS),
        ("base", 10, "hailo10h", None),
        ("small", 5, "hailo8", Severity.UNKNOWN),
    ],
)
def test_windows(name: str, window_s: int, arch: str, expected: Severity | None) -> None:
    dims = MODELS[name]
    form = encoder_form(dims, FixedSizes(window_s, 32))
    found = [finding.severity for finding in graph_rules.check_form(form, dims, arch)]
    assert found == ([] if expected is None else [expected])


def _saved_without_weights(model: onnx.ModelProto, path: Path) -> None:
    """The graph as a file whose large weights lie in a data file that holds none of them."""
    for item in model.graph.initializer:
        if item.data_location == TensorProto.EXTERNAL:
            del item.external_data[:]
            item.external_data.add(key="location", value="sparse.bin")
    onnx.save(model, path)
    (path.parent / "sparse.bin").touch()


@pytest.mark.parametrize(
    "name", ["tiny", "base", "small", pytest.param("turbo", marks=pytest.mark.slow)]
)
def test_nothing_blocks_at_true_sizes(name: str, tmp_path: Path) -> None:
    dims, narrow = MODELS[name], name == "tiny"
    sizes = FixedSizes(10, 32) if narrow else FixedSizes(5, 24)
    forms = encoder_form(dims, sizes), decoder_form(dims, sizes, name)
    graphs = hailo_encoder_graph, hailo_decoder_graph
    for form, graph in zip(forms, graphs, strict=True):
        path = tmp_path / f"{form.part}.onnx"
        _saved_without_weights(inferred(graph(Weightless(dims), sizes)), path)
        for arch in ("hailo8", "hailo10h"):
            report = check_file(path, arch, form.start_nodes, form.end_nodes)
            assert not report.blocked
            assert {finding.rule for finding in report.findings} <= {"wide-product"}
            found = graph_rules.check_form(form, dims, arch)
            assert not [finding for finding in found if finding.severity == "blocks"]


def test_the_reference_point_is_tinys_encoder(tmp_path: Path) -> None:
    dims = MODELS["tiny"]
    model = inferred(hailo_encoder_graph(Weightless(dims), FixedSizes(10, 32)))
    _saved_without_weights(model, tmp_path / "tiny.onnx")
    report = check_file(tmp_path / "tiny.onnx", "hailo8l")
    assert report.weights.count == TINY_ENCODER_WEIGHTS
    assert report.weights.contexts == 9
    assert report.weights.nbytes(4) == TINY_ENCODER_WEIGHTS // 2
    assert not report.findings
    assert check_file(tmp_path / "tiny.onnx", "hailo8").weights.contexts is None


def test_the_report_is_json(model: Path) -> None:
    raw = json.loads(json.dumps(check_file(model / "decoder.onnx", "hailo8l").to_dict()))
    assert raw["blocked"] is True
    assert {"rule", "severity", "node", "operator", "got", "mend", "source"} == set(
        raw["findings"][0]
    )


def test_an_older_model_json_is_a_warning(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hailo").mkdir()
    path = tmp_path / "hailo" / "encoder-2s.onnx"
    path.write_bytes((model / "hailo" / "encoder-2s.onnx").read_bytes())
    (tmp_path / SPEC_FILE).write_text('{"version": 1}')
    assert not check_file(path, "hailo8").recorded
    assert "convert the checkpoint again" in caplog.text


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a graph", b"\x00" * 100, b"{}"])
def test_files_that_are_no_graph(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"x\.onnx (is no ONNX file|holds no ONNX graph)"):
        check_file(path, "hailo8")
    with pytest.raises(ModelError, match="is a directory"):
        check_file(tmp_path, "hailo8")
    with pytest.raises(ModelError, match="does not exist"):
        check_file(tmp_path / "absent.onnx", "hailo8")


def test_damaged_graphs_are_refused_or_judged_but_never_crash(model: Path, tmp_path: Path) -> None:
    whole = (model / "hailo" / "encoder-2s.onnx").read_bytes()
    path = tmp_path / "x.onnx"
    for length in np.linspace(1, len(whole) - 1, 25).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            check_file(path, "hailo8")
    rng = np.random.default_rng(0)
    for _ in range(40):
        damaged = bytearray(whole)
        for place in rng.integers(0, 20_000, 3):  # the nodes come first
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        with suppress(ModelError):
            assert check_file(path, "hailo8").to_dict()["nodes"]


def test_data_files(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "PROTOBUF_LIMIT_BYTES", 1000)
    checkpoint = write_checkpoint(tmp_path / "toy", random_arrays(TOY), config=config_of(TOY))
    convert_checkpoint(checkpoint, tmp_path / "model", HAILO)
    path = tmp_path / "model" / "hailo" / "encoder-2s.onnx"
    inline = check_file(model / "hailo" / "encoder-2s.onnx", "hailo8l")
    outside = check_file(path, "hailo8l")
    assert replace(outside, path=inline.path) == inline
    data = path.with_name(path.name + ".data")
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"onnx\.data, which has \d+ bytes, expected"):
        check_file(path, "hailo8")
    data.unlink()
    with pytest.raises(ModelError, match=r"onnx\.data, which is missing"):
        check_file(path, "hailo8")


def test_dangling_values_are_a_broken_graph(save: Save) -> None:
    path = save([helper.make_node("Mul", ["x", "ghost"], ["y"], name="mul")])
    with pytest.raises(ModelError, match="mul reads ghost"):
        check_file(path, "hailo8")
