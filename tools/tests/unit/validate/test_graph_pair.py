"""Two graphs, node by node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from whisper_hailo.core.errors import ModelError
from whisper_hailo_tools.validate.graph_pair import compare_graphs


@pytest.fixture
def graph(toy_model: Path) -> Path:
    return toy_model / "hailo" / "encoder-2s.onnx"


def _changed(graph: Path, tmp_path: Path, name: str) -> Path:
    """The graph with another weight."""
    model = onnx.load(graph)
    item = next(item for item in model.graph.initializer if item.name == name)
    array = numpy_helper.to_array(item).copy()
    array[3] += 0.5
    item.CopyFrom(numpy_helper.from_array(array, item.name))
    path = tmp_path / "changed.onnx"
    onnx.save(model, path)
    return path


def test_compare_graphs_of_one_file_is_equal(graph: Path) -> None:
    pair = compare_graphs(graph, graph)
    assert pair.values
    assert all(value.difference.max_abs == 0 for value in pair.values)
    assert [value.difference.snr_db for value in pair.outputs] == [np.inf]
    assert all(count == other for count, other in pair.operators.values())


def test_compare_graphs_finds_the_changed_layer(graph: Path, tmp_path: Path) -> None:
    other = _changed(graph, tmp_path, "encoder.layers.0.fc2.bias")
    pair = compare_graphs(graph, other)
    differing = [v.name for v in pair.values if v.difference.max_abs > 0]
    equal = [v.name for v in pair.values if v.difference.max_abs == 0]
    assert "encoder.layers.0.self_attn.residual" in equal
    assert "encoder.layers.0.out" in differing
    assert pair.outputs[0].difference.snr_db < 60


def test_compare_graphs_of_two_layouts_matches_outputs(
    graph: Path, toy_model: Path
) -> None:
    """The directory's own encoder takes any window, and has other axes."""
    pair = compare_graphs(graph, toy_model / "encoder.onnx")
    assert pair.outputs[0].difference.snr_db > 80
    assert any(count != other for count, other in pair.operators.values())


def test_compare_graphs_of_two_parts_is_refused(graph: Path, toy_model: Path) -> None:
    decoder = next((toy_model / "hailo").glob("decoder*.onnx"))
    with pytest.raises(ModelError, match="inputs"):
        compare_graphs(graph, decoder)
