"""A small checkpoint, and what its conversion writes."""

from pathlib import Path

import pytest

from tests.checkpoints import write_checkpoint
from whisper_hailo.convert.options import ConvertOptions

PLAIN = ConvertOptions("none")
FILES = {
    "model.json",
    "encoder.onnx",
    "cross_kv.onnx",
    "decoder.onnx",
    "decoder.onnx.data",
    "silence.safetensors",
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "whisper-toy")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
