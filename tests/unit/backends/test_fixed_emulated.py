"""The emulated chip as a backend: fixed sizes, the chip's layout, outdated graphs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from whisper_hailo.backends.fixed import FixedDecoder, OnnxFixedRunner, find_emulated
from whisper_hailo.backends.onnx_file import ForeignEncoder
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import select
from whisper_hailo.core.errors import ModelError, ShapeError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.calibrate.windows import net_name
from whisper_hailo_tools.emulate.make import emulate_part
from whisper_hailo_tools.options import EmulateOptions

RNG = np.random.default_rng(3)


@pytest.fixture(scope="session")
def emulated(hailo_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy with both graphs emulated, by numbers instead of speech."""
    folder = tmp_path_factory.mktemp("emulated")
    out = folder / "model"
    shutil.copytree(hailo_directory, out)
    np.save(folder / "e.npy", RNG.standard_normal((6, 1, 200, 80)).astype(np.float32))
    spec = ModelSpec.load(out)
    net = net_name(spec, spec.hailo_form("decoder"))
    rows = {
        f"{net}/input_layer1": RNG.standard_normal((6, 1, 100, 64)).astype(np.float32),
        f"{net}/input_layer2": RNG.standard_normal((6, 16, 1, 64)).astype(np.float32),
    }
    np.savez(folder / "d.npz", **rows)
    for part, name in (("encoder", "e.npy"), ("decoder", "d.npz")):
        options = EmulateOptions(
            part=part, plan="adds16", calibration=folder / name, threads=1
        )
        emulate_part(out, options)
    return out


def emulated_encoder(directory: Path, spec: ModelSpec) -> ForeignEncoder:
    path, name = find_emulated(directory, spec, None, "encoder")
    return ForeignEncoder(path, spec, 1, name)


def emulated_runner(directory: Path, spec: ModelSpec) -> OnnxFixedRunner:
    path, name = find_emulated(directory, spec, None, "decoder")
    return OnnxFixedRunner(path, spec, 1, name)


def test_emulated_encoder_computes_its_graph(emulated: Path) -> None:
    spec = ModelSpec.load(emulated)
    mel = RNG.standard_normal((3, 80, 200)).astype(np.float32)
    with emulated_encoder(emulated, spec) as encoder:
        features = encoder.encode(mel)
        assert (encoder.name, encoder.n_frames) == ("emulated-adds16", 200)
        row = encoder.encode(mel[1:2])
    assert features.shape == (3, 100, 64)
    np.testing.assert_array_equal(features[1:2], row)
    noise = {}
    for file in ("encoder-2s-emulated.onnx", "encoder-2s.onnx"):
        session = onnxruntime.InferenceSession(
            emulated / "hailo" / file, providers=["CPUExecutionProvider"]
        )
        expected = session.run(None, {"x.1": mel[:1, :, np.newaxis]})[0]
        noise[file] = np.sum(np.square(features[:1] - expected)) / np.sum(
            np.square(expected)
        )
    assert noise["encoder-2s-emulated.onnx"] < 1e-4
    assert 1e-4 < noise["encoder-2s.onnx"] < 0.1


@pytest.mark.parametrize("shape", [(1, 80, 198), (1, 80, 300), (1, 40, 200), (80, 200)])
def test_fixed_sizes_refuse_other_windows(
    emulated: Path, shape: tuple[int, ...]
) -> None:
    with (
        emulated_encoder(emulated, ModelSpec.load(emulated)) as encoder,
        pytest.raises(ShapeError),
    ):
        encoder.encode(np.zeros(shape, np.float32))


def test_select_emulator_makes_a_fixed_decoder(emulated: Path) -> None:
    spec = ModelSpec.load(emulated)
    options = EngineOptions(encoder_backend="emulator", decoder_backend="emulator")
    engine = select(emulated, spec, options, threads=1)
    assert isinstance(engine.decoder, FixedDecoder)
    assert [line.split(":")[0] for line in engine.reasons] == [
        "encoder emulated-adds16",
        "decoder emulated-adds16",
    ]


def test_emulated_decoder_is_fixed_with_noise(emulated: Path) -> None:
    spec = ModelSpec.load(emulated)
    features = RNG.standard_normal((1, 100, 64)).astype(np.float32)
    tokens = RNG.integers(0, 200, (1, 16))
    runner = emulated_runner(emulated, spec)
    exact = OnnxFixedRunner(emulated / "hailo" / "decoder-2s-16.onnx", spec, threads=1)
    with runner, exact:
        got = runner.run(tokens, features)
        expected = exact.run(tokens, features)
        assert (runner.name, runner.length, runner.n_positions) == (
            "emulated-adds16",
            16,
            100,
        )
    noise = np.sum(np.square(got - expected)) / np.sum(np.square(expected))
    assert 1e-7 < noise < 0.1


def test_find_emulated_missing_or_outdated_is_refused(
    emulated: Path, model_directory: Path, hailo_directory: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"encoder.*whisper-hailo convert .*--hailo"):
        emulated_encoder(model_directory, ModelSpec.load(model_directory))
    spec = ModelSpec.load(hailo_directory)
    with pytest.raises(
        ModelError, match=r"whisper-hailo emulate MODEL_DIR .* --part encoder"
    ):
        emulated_encoder(hailo_directory, spec)
    with pytest.raises(ModelError, match=r"--part decoder"):
        emulated_runner(hailo_directory, spec)
    copy = tmp_path / "model"
    shutil.copytree(emulated, copy)
    record_path = copy / "hailo" / "encoder-2s-emulated.json"
    record = json.loads(record_path.read_text())
    record_path.write_text(json.dumps(record | {"graph_sha256": "0" * 64}))
    with pytest.raises(
        ModelError, match=r"encoder-2s-emulated\.onnx .*hailo/encoder-2s\.onnx"
    ):
        emulated_encoder(copy, spec)
    record_path.write_text("{")
    with pytest.raises(ModelError, match=r"encoder-2s-emulated\.json.*line 1"):
        emulated_encoder(copy, spec)
    record_path.write_text(json.dumps(record))
    (copy / "hailo" / "encoder-2s-emulated.onnx").write_bytes(b"nothing")
    with pytest.raises(
        ModelError,
        match=r"encoder-2s-emulated\.onnx.*encoder-2s-emulated\.json",
    ):
        emulated_encoder(copy, spec)
    content_sha256 = hashlib.sha256(b"nothing").hexdigest()
    record_path.write_text(json.dumps(record | {"sha256": content_sha256}))
    with pytest.raises(ModelError, match=r"encoder-2s-emulated\.onnx .*DecodeError"):
        emulated_encoder(copy, spec)
    with pytest.raises(ModelError, match=r"^emulated-adds16"):
        emulated_encoder(emulated, spec).encode(np.zeros((1, 80, 200), np.float32))
