"""Graphs of a toy checkpoint with three encoder layers, and sessions of graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import onnxruntime
import pytest

from tests.checkpoints import TOY, TOY_FFN, config_of, random_arrays, write_checkpoint
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.onnx_graph import Graph, write_graph

DEEP = replace(TOY, n_encoder_layers=3)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    arrays = random_arrays(DEEP)
    config = config_of(DEEP, TOY_FFN)
    return Checkpoint(write_checkpoint(tmp_path / "checkpoint", arrays, config=config))


def open_session(graph: Graph, path: Path) -> onnxruntime.InferenceSession:
    """Write a graph, check it, and open it on the CPU."""
    write_graph(graph, path)
    onnx.checker.check_model(path, full_check="MatMulNBits" not in path.name)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
