"""Each rule fires on a foreign graph that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from whisper_hailo.core.errors import ModelError
from whisper_hailo_tools.check.report import Report, check_file

F = TensorProto.FLOAT
I = TensorProto.INT64  # noqa: E741
Shape = Sequence[int | str]


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
            [
                numpy_helper.from_array(array, name)
                for name, array in (weights or {}).items()
            ],
        )
        domains = sorted({"", *(node.domain for node in nodes)})
        model = helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid(d, opset if not d else 1) for d in domains
            ],
        )
        model.ir_version = ir_version
        path = tmp_path / "foreign.onnx"
        onnx.save(model, path)
        return path

    return write


Save = Callable[..., Path]


def test_rules_block_fused_attention_and_foreign_domains(save: Save) -> None:
    node = helper.make_node
    fused = node(
        "MultiHeadAttention",
        ["x", "x", "x"],
        ["y"],
        domain="com.microsoft",
        num_heads=2,
    )
    assert rules_of(check_file(save([fused]), "hailo8")) == {
        ("blocks", "fused-attention")
    }
    gelu = node("FastGelu", ["x"], ["y"], domain="com.microsoft")
    assert rules_of(check_file(save([gelu]), "hailo8")) == {
        ("blocks", "foreign-domain")
    }


def test_rules_block_conv1d(save: Save) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    report = check_file(
        save([conv], weights={"w": np.ones((2, 4, 3), np.float32)}), "hailo8"
    )
    assert "(2, 4, 3)" in only_finding(report, "conv1d")
    weights = {"w": np.ones((2, 4, 1, 3), np.float32)}
    assert not check_file(
        save([conv], (1, 4, 1, 8), weights=weights), "hailo8"
    ).findings


def test_rules_block_token_lookup_and_ids(save: Save) -> None:
    gather = helper.make_node("Gather", ["table", "x"], ["y"])
    path = save([gather], (1, 3), I, {"table": np.ones((5, 4), np.float32)})
    report = check_file(path, "hailo8l")
    assert rules_of(report) == {("blocks", "table-lookup"), ("blocks", "element-type")}
    assert "int64" in only_finding(report, "element-type")


def test_rules_note_foldable_shape_arithmetic(save: Save) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("Cast", ["n"], ["f"], to=F),
        helper.make_node("Mul", ["flat", "f"], ["y"]),
    ]
    weights = {"zero": np.array(1), "target": np.array([1, 32])}
    assert rules_of(check_file(save(nodes, weights=weights), "hailo8")) == {
        ("note", "constant-subgraph")
    }
    dynamic = rules_of(check_file(save(nodes, (1, "n", 8), weights=weights), "hailo8"))
    assert {("blocks", "dynamic-operator"), ("blocks", "dynamic-shape")} <= dynamic


def test_rules_block_control_flow_and_masks(save: Save) -> None:
    places = [
        helper.make_node("Greater", ["x", "zero"], ["mask"]),
        helper.make_node("Where", ["mask", "x", "zero"], ["y"], name="where"),
    ]
    report = check_file(save(places, weights={"zero": np.float32([0])}), "hailo8")
    assert ("blocks", "broadcast-scaffolding") in rules_of(report)
    assert ("unknown", "unseen-operator") in rules_of(report)  # Greater
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
    assert ("blocks", "dynamic-operator") in rules_of(check_file(save(nodes), "hailo8"))


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
def test_rules_judge_wide_products(
    save: Save, n_columns: int, arch: str, expected: set[tuple[str, str]]
) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = save([node], weights={"w": np.ones((8, n_columns), np.float32)})
    assert rules_of(check_file(path, arch)) == expected


def test_rules_judge_wide_products_of_transposed_tables(save: Save) -> None:
    nodes = [
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["y"]),
    ]
    path = save(nodes, weights={"table": np.ones((51_865, 8), np.float32)})
    rules = {("blocks", "wide-product"), ("note", "constant-subgraph")}
    assert rules_of(check_file(path, "hailo8")) == rules


def test_rules_judge_versions(save: Save) -> None:
    relu = [helper.make_node("Mul", ["x", "x"], ["y"])]
    assert not check_file(save(relu, opset=13), "hailo8").findings
    assert rules_of(check_file(save(relu, opset=18), "hailo8")) == {
        ("unknown", "opset")
    }
    report = check_file(save(relu, ir_version=10), "hailo8")
    assert "IR version 10" in only_finding(report, "file-format")
    norm = [helper.make_node("LayerNormalization", ["x", "w"], ["y"])]
    weights = {"w": np.ones(8, np.float32)}
    assert ("blocks", "unfit-opset") in rules_of(
        check_file(save(norm, opset=13, weights=weights), "hailo8")
    )
    assert not check_file(save(norm, weights=weights), "hailo8").findings


def test_rules_judge_batches_and_many_axes(save: Save) -> None:
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    weights = {"target": np.array([2, 1, 4, 2, 4])}
    report = check_file(save([node], (2, 4, 8), weights=weights), "hailo8")
    assert rules_of(report) == {("unknown", "batch"), ("unknown", "many-axes")}


def test_check_file_of_dangling_values_is_refused(save: Save) -> None:
    path = save([helper.make_node("Mul", ["x", "ghost"], ["y"], name="mul")])
    with pytest.raises(ModelError, match="ghost"):
        check_file(path, "hailo8")


def rules_of(report: Report) -> set[tuple[str, str]]:
    return {(finding.severity.value, finding.rule) for finding in report.findings}


def only_finding(report: Report, rule: str) -> str:
    (finding,) = [finding for finding in report.findings if finding.rule == rule]
    assert finding.source
    assert finding.mend
    return finding.got
