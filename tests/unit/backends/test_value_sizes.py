"""Graphs of other programs that ask for more memory than there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from whisper_hailo.backends.onnx_file import LARGEST_VALUE_BYTES, read_signature
from whisper_hailo.core.errors import ModelError

ROW_BYTES = 4096
MOST_ROWS = LARGEST_VALUE_BYTES // ROW_BYTES


def graph(folder: Path, rows: int, *, weights: int = 1, axis: int | str = 1) -> Path:
    """One that repeats a row of 4 KiB."""
    row = helper.make_tensor_value_info("row", TensorProto.FLOAT, [axis, ROW_BYTES // 4])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [None, None])
    shape = numpy_helper.from_array(np.array([rows, 1], np.int64), "shape")
    unused = numpy_helper.from_array(np.zeros((weights, 1024), np.float32), "weight")
    nodes = [
        helper.make_node("Expand", ["row", "shape"], ["many"]),
        helper.make_node("ReduceMax", ["many"], ["out"], keepdims=1),
    ]
    made = helper.make_graph(nodes, "g", [row], [out], [shape, unused])
    path = folder / "g.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_what_is_as_large_as_whisper_s_largest_is_read(tmp_path: Path) -> None:
    signature = read_signature(graph(tmp_path, MOST_ROWS))
    assert set(signature.inputs) == {"row"}


def test_a_value_that_is_larger_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"makes a value of 512 MiB \(many\), expected at most 256"
    ):
        read_signature(graph(tmp_path, 2 * MOST_ROWS, weights=2))


def test_axes_of_any_length_are_not_judged(tmp_path: Path) -> None:
    assert read_signature(graph(tmp_path, 1, axis="n")).inputs["row"].shape[0] == "n"
