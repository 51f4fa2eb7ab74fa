"""Voice prints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fakes.graphs import write_constant_graph
from whisper_hailo.core.errors import ModelError
from whisper_hailo.speakers.embeddings import VoicePrintModel


def test_voice_print_of_another_model_is_refused(tmp_path: Path) -> None:
    path = write_constant_graph(tmp_path / "model.onnx", (1, 256))
    with VoicePrintModel(path, 1) as model, pytest.raises(ModelError):
        model.voice_print(np.ones((50, 80), np.float32))


def test_voice_print_has_length_one(tmp_path: Path) -> None:
    path = write_constant_graph(tmp_path / "model.onnx", (1, 192))
    with VoicePrintModel(path, 1) as model:
        assert model.voice_print(np.ones((50, 80), np.float32)).shape == (192,)
