"""Exports of other sizes, and those whose products a processor would cut off."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from tests.unit.backends.conftest import EXPORTS
from whisper_hailo.backends.optimum import OptimumDecoder
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import ModelSpec


@pytest.fixture(scope="module")
def spec(golden_model: Path) -> ModelSpec:
    return ModelSpec.load(golden_model)


@pytest.mark.parametrize(
    "case",
    [
        ("decoder_model", ("logits", 2, 91), r"\b91\), .*\b90 .*--model"),
        (
            "decoder_with_past_model",
            ("past_key_values.0.decoder.key", 1, 3),
            r"\b3, .*\b2 .*\b4;",
        ),
        (
            "decoder_with_past_model",
            ("past_key_values.0.decoder.key", 3, 5),
            r"\b5\), .*\b2 .*\b4;",
        ),
        (
            "decoder_model",
            ("present.2.decoder.key",),
            r" present\.2\.decoder\.key, .*\b2 ",
        ),
        (
            "decoder_with_past_model",
            ("present.1.decoder.value",),
            r" present\.1\.decoder\.value, .*\b2 ",
        ),
    ],
)
def test_optimum_of_other_sizes_and_layers_is_refused(
    exports: Path,
    spec: ModelSpec,
    tmp_path: Path,
    case: tuple[str, tuple[str, int], str],
) -> None:
    """Unchanged axes have any length; an output is added or removed."""
    graph, change, data = case
    for name in ("decoder_model", "decoder_with_past_model"):
        shutil.copy(exports / EXPORTS[0] / f"{name}.onnx", tmp_path)
    model, (name, *axis) = onnx.load(tmp_path / f"{graph}.onnx"), change
    ports = [*model.graph.input, *model.graph.output]
    changed = next((port for port in ports if port.name == name), None)
    if changed is None:
        model.graph.output.add().CopyFrom(model.graph.output[1])
        model.graph.output[-1].name = name
    elif axis:
        changed.type.tensor_type.shape.dim[axis[0]].dim_value = axis[1]
    else:
        model.graph.output.remove(changed)
    onnx.save(model, tmp_path / f"{graph}.onnx")
    with pytest.raises(ModelError, match=data):
        OptimumDecoder(tmp_path, spec)
