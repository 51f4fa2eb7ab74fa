"""ONNX files of any content, parsed as messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.onnx_file import load_message, parse_message
from whisper_hailo.core.errors import ModelError


def test_load_message_of_non_text_names_is_refused(
    model_directory: Path, tmp_path: Path
) -> None:
    """The library gives bytes for them, which sort, join and print as no text does."""
    path = tmp_path / "encoder.onnx"
    whole = (model_directory / "encoder.onnx").read_bytes()
    for name in (b"LayerNormalization", b"audio_features", b"encoder.conv1.bias"):
        assert name in whole
        path.write_bytes(whole.replace(name, b"\xff" + name[1:]))
        with pytest.raises(ModelError, match=r"encoder\.onnx .*\(b'\\xff"):
            load_message(path)
    path.write_bytes(whole)
    assert load_message(path).graph.node


def test_load_message_of_pipe_is_refused(tmp_path: Path) -> None:
    for name in ("a.onnx", "a.hef"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(ModelError, match=r"a\.onnx .*regular file"):
        load_message(tmp_path / "a.onnx")
    with pytest.raises(ModelError, match="is a pipe"):
        read_hef(tmp_path / "a.hef")


@pytest.mark.parametrize(
    ("operator", "opset"), [("MatMul", 17), ("MatMul", 2**40), ("Other", 17)]
)
def test_parse_message_of_incomplete_nodes_is_refused(
    model_directory: Path, tmp_path: Path, operator: str, opset: int
) -> None:
    """Readers of a graph rely on inputs and outputs."""
    model = load_message(model_directory / "encoder.onnx")
    product = next(node for node in model.graph.node if node.op_type == "MatMul")
    product.op_type = operator
    model.opset_import[0].version = opset
    del (product.input if operator == "MatMul" else product.output)[:]
    with pytest.raises(ModelError, match=rf"a\.onnx .*'{operator}' .*\b0 "):
        parse_message(model.SerializeToString(), "a.onnx")
