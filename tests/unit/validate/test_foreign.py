"""What a foreign graph is follows from its inputs' types and shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from tests.checkpoints import TOY
from whisper_hailo.core.errors import ModelError
from whisper_hailo.validate.foreign import Foreign, open_foreign, window_of

Shape = list[int | str | None]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def _open(folder: Path, *inputs: tuple[int, Shape]) -> Foreign:
    values = [
        helper.make_tensor_value_info(f"in{number}", dtype, shape)
        for number, (dtype, shape) in enumerate(inputs)
    ]
    out = helper.make_tensor_value_info("out", FLOAT, None)
    node = helper.make_node("Identity", ["in0"], ["out"])
    save(helper.make_model(helper.make_graph([node], "g", values, [out])), folder / "g.onnx")
    return open_foreign(folder / "g.onnx", TOY)


@pytest.mark.parametrize(
    "shape", [[1, 80, 200], [1, 80, 1, 200], ["batch", 80, "frames"], [None, None, None]]
)
def test_encoders_of_any_layout(tmp_path: Path, shape: Shape) -> None:
    foreign = _open(tmp_path, (FLOAT, shape))
    assert foreign.part == "encoder"
    mel = np.arange(80 * 200, dtype=np.float32).reshape(1, 80, 200)
    fed = foreign.audio.fed(mel)
    assert fed.ndim == len(shape)
    assert np.array_equal(fed.reshape(80, 200), mel[0])
    assert fed.shape[0] == 1
    assert window_of(foreign) == (200 if shape[-1] == 200 else None)


def test_decoders(tmp_path: Path) -> None:
    foreign = _open(tmp_path, (INT64, [1, 9]), (FLOAT, [1, 100, 64]))
    assert foreign.part == "decoder"
    assert (foreign.n_tokens, foreign.n_positions, window_of(foreign)) == (9, 100, 200)
    free = _open(tmp_path, (FLOAT, ["b", "t", 64]), (TensorProto.INT32, ["b", "n"]))
    assert (free.n_tokens, window_of(free)) == (None, None)
    assert free.tokens is not None
    assert free.tokens.fed(np.ones((1, 4), np.int64)).dtype == np.int32


def test_shapes_that_cannot_hold_the_window(tmp_path: Path) -> None:
    foreign = _open(tmp_path, (FLOAT, [1, 80, 3000]))
    with pytest.raises(ModelError, match=r"cannot hold \(1, 80, 200\)"):
        foreign.audio.fed(np.zeros((1, 80, 200), np.float32))


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([(INT64, [1, 9])], "expected one float input"),
        ([(FLOAT, [1, 80, 200]), (FLOAT, [1, 2])], "expected one float input"),
        ([(FLOAT, [1, 100, 64]), (INT64, [1, 9]), (TensorProto.BOOL, [1])], "expected one float"),
        ([(FLOAT, [1, 128, 200])], "this model has 80 mel bins"),
        ([(INT64, [1, 9]), (FLOAT, [1, 100, 96])], "audio features of width 64"),
    ],
)
def test_what_is_no_part_of_this_model(
    tmp_path: Path, inputs: list[tuple[int, Shape]], expected: str
) -> None:
    with pytest.raises(ModelError, match=expected):
        _open(tmp_path, *inputs)


def test_what_is_no_graph(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist; give an ONNX file"):
        open_foreign(tmp_path / "none.onnx", TOY)
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x09\x3a\xff\xff\x01short")
    with pytest.raises(ModelError, match="cut short"):
        open_foreign(tmp_path / "cut.onnx", TOY)
