"""ONNX files of any content, parsed as messages, and encoders of other programs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, load, numpy_helper, save

from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.onnx_file import (
    ForeignEncoder,
    load_message,
    parse_message,
    precision,
)
from whisper_hailo.core.errors import ModelError, ShapeError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray

Axes = list[int | str | None]
MELS = 80
WIDTH = 64
LAYOUTS: dict[str, tuple[Axes, list[int], int | None]] = {
    "optimum": (["batch", MELS, 200], [0, 2, 1], None),
    "any-window": (["batch", MELS, "frames"], [0, 2, 1], None),
    "hailo": ([1, MELS, 1, 200], [0, 2, 1], 2),
    "square": (["batch", MELS, MELS], [0, 2, 1], None),
    "half": (["batch", MELS, 200], [0, 2, 1], None),
}
"""Input of each layout: axes, order of frames before bins, and axis of length 1."""


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


def _write(path: Path, layout: str, n_positions: int | None = None) -> Path:
    """Position p of the features has the first 64 bins of frame 2p.

    Before them the graph gives all frames, as exports with hidden states do.
    """
    axes, perm, unit_axis = LAYOUTS[layout]
    kind = TensorProto.FLOAT16 if layout == "half" else TensorProto.FLOAT
    constants = {
        "begin": [0, 0],
        "end": [100_000, WIDTH],
        "axes": [1, 2],
        "steps": [2, 1],
    }
    weights = [
        numpy_helper.from_array(np.array(v), name) for name, v in constants.items()
    ]
    weights.append(numpy_helper.from_array(np.array([unit_axis or 0]), "unit_axis"))
    squeezed = "x" if unit_axis is None else "squeezed"
    nodes: list[NodeProto] = []
    if unit_axis is not None:
        nodes.append(helper.make_node("Squeeze", ["x", "unit_axis"], [squeezed]))
    nodes += [
        helper.make_node("Transpose", [squeezed], ["all"], perm=perm),
        helper.make_node(
            "Slice", ["all", "begin", "end", "axes", "steps"], ["features"]
        ),
    ]
    x = helper.make_tensor_value_info("x", kind, axes)
    positions = n_positions or (40 if layout == "square" else 100)
    given = "positions" if layout == "any-window" else positions
    outputs = [
        helper.make_tensor_value_info("all", kind, ["b", 2 * positions, MELS]),
        helper.make_tensor_value_info("features", kind, ["b", given, WIDTH]),
    ]
    # Exports of old name their weights among what goes in.
    listed = [
        helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in weights
    ]
    graph = helper.make_graph(nodes, "encoder", [x, *listed], outputs, weights)
    save(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ),
        path,
    )
    return path


def _mel(n_frames: int) -> FloatArray:
    mel: FloatArray = (
        np.random.default_rng(0).standard_normal((2, MELS, n_frames)).astype("f4")
    )
    return mel


@pytest.mark.parametrize("layout", LAYOUTS)
def test_foreign_encoder_reads_every_frame_in_any_layout(
    spec: ModelSpec, tmp_path: Path, layout: str
) -> None:
    n_frames = {"square": MELS, "any-window": 300}.get(layout, 200)
    mel = _mel(n_frames)
    with ForeignEncoder(
        _write(tmp_path / "encoder.onnx", layout), spec, threads=1
    ) as encoder:
        assert encoder.n_frames == n_frames  # where it says none, the model's whole 3 s
        features = encoder.encode(mel)
        with pytest.raises(ShapeError, match=rf"\b60 .*\b{n_frames} "):
            encoder.encode(mel[:, :, :60])
    expected = mel[:, :WIDTH, ::2].transpose(0, 2, 1)
    assert (features.dtype, features.shape) == (np.float32, (2, n_frames // 2, WIDTH))
    # Eleven bits of float16, of values below 5.
    np.testing.assert_allclose(
        features, expected, atol=0.003 if layout == "half" else 0
    )


def test_foreign_encoder_refuses_other_windows_and_outputs(
    spec: ModelSpec, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"short\.onnx .*\(batch, 100, 64\)"):
        ForeignEncoder(_write(tmp_path / "short.onnx", "optimum", n_positions=50), spec)
    for n_frames in (199, 302):
        path = _write(tmp_path / f"{n_frames}.onnx", "optimum")
        _resize(path, n_frames)
        with pytest.raises(ModelError, match=rf"\.onnx .*\b{n_frames} .*\b300;"):
            ForeignEncoder(path, spec)


def _resize(path: Path, n_frames: int) -> None:
    model = load(path)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = n_frames
    save(model, path)


def test_precision_is_read_from_file_names() -> None:
    marks = {
        *(
            ("encoder_model_quantized", "int8"),
            ("encoder-int8", "int8"),
            ("encoder_q4", "q4"),
        ),
        *(
            ("encoder_uint8", "uint8"),
            ("encoder_bnb4", "bnb4"),
            ("encoder_fp16", "fp16"),
        ),
        *(("encoder_model", "fp32"), ("int8ish", "fp32")),
    }
    assert {(name, precision(Path(f"{name}.onnx"))) for name, _ in marks} == marks
    assert precision(Path("encoder_model.onnx"), "float16") == "fp16"
