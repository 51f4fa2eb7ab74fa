import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoints import write_checkpoint
from tests.shared import converted
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.spec import ModelSpec

GOLDENS = Path(__file__).parent / "goldens"
EXPORTS = ("optimum-onnx-0.1.0", "optimum-1.23.3")


@pytest.fixture(scope="session")
def golden_model(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that was exported, converted by us."""
    return converted(shared, _unpack("checkpoint", tmp_path_factory.mktemp("golden")))


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("optimum")
    for name in EXPORTS:
        _unpack(name, root)
    return root


def _unpack(name: str, root: Path) -> Path:
    with zipfile.ZipFile(GOLDENS / f"{name}.zip") as packed:
        packed.extractall(root / name)
    return root / name


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("toy") / "checkpoint")


@pytest.fixture(scope="session")
def model_directory(shared: Path, toy: Path) -> Path:
    return converted(shared, toy)


@pytest.fixture(scope="session")
def hailo_directory(shared: Path, toy: Path) -> Path:
    """The same toy with graphs of fixed sizes: 2 s, 16 tokens."""
    options = ConvertOptions("none", hailo=HailoOptions(window_s=2, decoder_length=16))
    return converted(shared, toy, options)


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
