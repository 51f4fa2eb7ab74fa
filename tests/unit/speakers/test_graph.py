"""Graphs of speaker models, whatever their input and output are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from whisper_hailo.core.errors import ModelError
from whisper_hailo.speakers.graph import SpeakerGraph


def write_sums(path: Path, inputs: list[str], outputs: list[str]) -> Path:
    """Write a graph whose outputs are all the sum of its inputs, `(n,)` float32."""
    total = inputs[0]
    nodes = []
    for name in inputs[1:]:
        nodes.append(helper.make_node("Add", [total, name], [f"{name}.sum"]))
        total = f"{name}.sum"
    nodes += [helper.make_node("Identity", [total], [name]) for name in outputs]
    graph = helper.make_graph(
        nodes,
        "sums",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
            for name in inputs
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
            for name in outputs
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("input_name", "output_name"), [("feats", "embs"), ("x", "embedding")]
)
def test_speaker_graph_takes_any_names(
    tmp_path: Path, input_name: str, output_name: str
) -> None:
    """The same weights are published under several names."""
    path = write_sums(tmp_path / "model.onnx", [input_name], [output_name])
    array = np.arange(3, dtype=np.float32)
    with SpeakerGraph(path, 1, "voice prints") as graph:
        np.testing.assert_array_equal(graph.run(array), array)


@pytest.mark.parametrize(
    ("inputs", "outputs"), [(["a", "b"], ["c"]), (["a"], ["b", "c"])]
)
def test_speaker_graph_of_another_model_is_refused(
    tmp_path: Path, inputs: list[str], outputs: list[str]
) -> None:
    path = write_sums(tmp_path / "model.onnx", inputs, outputs)
    graph = SpeakerGraph(path, 1, "voice prints")
    with pytest.raises(ModelError) as caught:
        graph.open()
    assert "--speaker-models" in str(caught.value)
    write_sums(path, ["a"], ["b"])
    with graph:  # the refused one was not kept
        assert graph.run(np.ones(1, np.float32)).tolist() == [1.0]


def test_speaker_graph_without_its_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        SpeakerGraph(tmp_path / "missing.onnx", 1, "voice prints").open()


def test_speaker_graph_can_be_opened_again(tmp_path: Path) -> None:
    path = write_sums(tmp_path / "model.onnx", ["a"], ["b"])
    graph = SpeakerGraph(path, 1, "voice prints")
    for _ in range(2):
        with graph:
            assert graph.run(np.ones(2, np.float32)).tolist() == [1.0, 1.0]
