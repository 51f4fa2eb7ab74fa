from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoints import write_checkpoint
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.spec import ModelSpec


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("toy")
    convert_checkpoint(write_checkpoint(root / "checkpoint"), root / "model", ConvertOptions())
    return root / "model"


@pytest.fixture(scope="session")
def hailo_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same toy with graphs of fixed sizes: 2 s, 16 tokens."""
    root = tmp_path_factory.mktemp("toy-hailo")
    options = ConvertOptions(hailo=HailoOptions(window_s=2, decoder_length=16))
    convert_checkpoint(write_checkpoint(root / "checkpoint"), root / "model", options)
    return root / "model"


@pytest.fixture(scope="session")
def spec(model_directory: Path) -> ModelSpec:
    return ModelSpec.load(model_directory)


@pytest.fixture(scope="session")
def encoder(model_directory: Path, spec: ModelSpec) -> Iterator[OnnxEncoder]:
    with OnnxEncoder(model_directory, spec, threads=1) as opened:
        yield opened


@pytest.fixture(scope="session")
def decoder(model_directory: Path, spec: ModelSpec) -> Iterator[CachedDecoder]:
    with CachedDecoder(model_directory, spec, threads=1) as opened:
        yield opened
