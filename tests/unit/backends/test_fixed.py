"""A decoder without a cache, and the emulated chip as a backend."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, load, save

from tests.fakes.graphs import in_float16
from whisper_hailo.backends.fixed import FixedDecoder, OnnxFixedRunner, find_emulated
from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.backends.onnx_file import ForeignEncoder, load_message
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import select
from whisper_hailo.core.errors import ModelError, ShapeError
from whisper_hailo.core.protocols import Limits, Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_tools.calibrate.windows import net_name
from whisper_hailo_tools.emulate.make import emulate_part
from whisper_hailo_tools.options import EmulateOptions

N_POSITIONS = 100
LENGTH = 16
FULL = Padding(N_POSITIONS)
ATOL = 1e-4
RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def fixed(hailo_directory: Path, spec: ModelSpec) -> Iterator[FixedDecoder]:
    graph = hailo_directory / "hailo" / "decoder-2s-16.onnx"
    with FixedDecoder(OnnxFixedRunner(graph, spec, threads=1), spec) as opened:
        yield opened


def _features(batch: int, n_positions: int, seed: int = 0) -> FloatArray:
    shape = (batch, n_positions, 64)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _ids(n_rows: int, n_tokens: int) -> IntArray:
    return np.random.default_rng(1).integers(0, 200, (n_rows, n_tokens))


@pytest.mark.parametrize("n_positions", [100, 30, 1])
def test_fixed_decoder_equals_the_cached_decoder(
    fixed: FixedDecoder, decoder: CachedDecoder, n_positions: int
) -> None:
    features = _features(2, n_positions)
    tokens = _ids(2, LENGTH)
    free = decoder.start(features, (FULL, FULL))
    real = fixed.start(features, (FULL, FULL))
    for i in range(LENGTH):
        step = tokens[:, i : i + 1]
        expected, free = decoder.step(step, free, np.array([0]))
        got, real = fixed.step(step, real, np.array([0]))
        np.testing.assert_allclose(got.logits, expected.logits, atol=ATOL)
        np.testing.assert_allclose(got.logsumexp, expected.logsumexp, atol=ATOL)


def test_fixed_decoder_batches_prompts_of_any_length(
    fixed: FixedDecoder, decoder: CachedDecoder
) -> None:
    features = _features(2, 40)
    tokens = _ids(2, 5)
    first = np.array([0, 2])
    expected, free = decoder.step(
        tokens, decoder.start(features, (FULL, FULL)), np.array([2, 4]), first=first
    )
    got, real = fixed.step(
        tokens, fixed.start(features, (FULL, FULL)), np.array([2, 4]), first=first
    )
    np.testing.assert_allclose(got.logits, expected.logits, atol=ATOL)
    more = _ids(2, 1)
    expected, _ = decoder.step(more, free, np.array([0]))
    got, _ = fixed.step(more, real, np.array([0]))
    np.testing.assert_allclose(got.logits, expected.logits, atol=ATOL)


def test_fixed_decoder_select_and_rewind(fixed: FixedDecoder) -> None:
    state = fixed.start(_features(3, 100), (FULL,) * 3)
    _, state = fixed.step(_ids(3, 4), state, np.array([3]))
    whole, _ = fixed.step(_ids(3, 2), state, np.array([0, 1]))
    reordered, _ = fixed.step(
        _ids(3, 2)[[2, 0]], fixed.select(state, np.array([2, 0])), np.array([0, 1])
    )
    np.testing.assert_allclose(reordered.logits, whole.logits[[2, 0]], atol=ATOL)
    _, longer = fixed.step(_ids(3, 3), state, np.array([2]))
    assert longer.n_tokens == 7
    again, _ = fixed.step(_ids(3, 2), fixed.rewind(longer, 4), np.array([0, 1]))
    np.testing.assert_array_equal(again.logits, whole.logits)


def test_fixed_decoder_rewound_to_0_starts_again(fixed: FixedDecoder) -> None:
    state = fixed.start(_features(2, 100), (FULL, FULL))
    tokens = _ids(2, 4)
    whole, _ = fixed.step(tokens, state, np.arange(4))
    _, padded = fixed.step(tokens, state, np.array([3]), first=np.array([2, 0]))
    again, _ = fixed.step(tokens, fixed.rewind(padded, 0), np.arange(4))
    np.testing.assert_array_equal(again.logits, whole.logits)


def test_fixed_decoder_ignores_features_behind_the_window(
    fixed: FixedDecoder, decoder: CachedDecoder
) -> None:
    features = _features(2, N_POSITIONS)
    tokens = _ids(2, 3)
    lengths = np.array([60, N_POSITIONS])
    looks = np.arange(3)
    got, _ = fixed.step(tokens, fixed.start(features, (FULL, FULL), lengths), looks)
    expected, _ = decoder.step(
        tokens, decoder.start(features, (FULL, FULL), lengths), looks
    )
    np.testing.assert_allclose(got.logits, expected.logits, atol=ATOL)


def test_fixed_decoder_refuses_input_beyond_its_limits(fixed: FixedDecoder) -> None:
    assert fixed.limits == Limits(n_positions=100, free_padding=False, aligns=False)
    assert (fixed.spec.dims.n_audio_ctx, fixed.spec.dims.n_text_ctx) == (100, 16)
    with pytest.raises(
        ShapeError,
        match=r"100.*150.*--window 3\b",
    ):
        fixed.start(_features(1, 150), (FULL,))
    with pytest.raises(ShapeError, match=r"120.*--window 3\b"):
        fixed.start(_features(1, 120), (FULL,))  # 2.4 s, and windows are whole seconds
    for paddings in (
        (Padding(150), FULL),
        (FULL, Padding(150)),
        (Padding(None), Padding(150)),
    ):
        with pytest.raises(ShapeError, match=r"150.*--pad-to"):
            fixed.start(_features(2, 100), paddings)
    state = fixed.start(_features(1, 100), (FULL,))
    with pytest.raises(ShapeError, match=r"\b17\b.*\b16\b"):
        fixed.step(_ids(1, 17), state, np.array([0]))


def test_fixed_decoder_not_open_is_refused(
    hailo_directory: Path, spec: ModelSpec
) -> None:
    graph = hailo_directory / "hailo" / "decoder-2s-16.onnx"
    decoder = FixedDecoder(OnnxFixedRunner(graph, spec), spec)
    state = decoder.start(_features(1, 100), (FULL,))
    with pytest.raises(ModelError, match=r"^fixed-fp32"):
        decoder.step(_ids(1, 1), state, np.array([0]))


@pytest.mark.parametrize(
    ("axis", "data"),
    [
        ((0, 4096), r"\b4096\b"),
        (
            (1, 100_000),
            r"\b100000\b.*--model",
        ),
        ((1, 0), r"\b16\b.*\b0\b.*--model"),
        ((1, -1), r"decoder\.onnx .*-1"),
    ],
)
def test_fixed_runner_refuses_impossible_sizes(
    hailo_directory: Path,
    spec: ModelSpec,
    tmp_path: Path,
    axis: tuple[int, int],
    data: str,
) -> None:
    """A caller that makes features for it would make that many."""
    (graph,) = hailo_directory.glob("hailo/decoder-*.onnx")
    model, (which, size) = load_message(graph), axis
    model.graph.input[which].type.tensor_type.shape.dim[1].dim_value = size
    (tmp_path / "decoder.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=data):
        FixedDecoder(OnnxFixedRunner(tmp_path / "decoder.onnx", spec), spec)


def test_fixed_runner_takes_int32_ids_and_float16(
    hailo_directory: Path, spec: ModelSpec, fixed: FixedDecoder, tmp_path: Path
) -> None:
    model = load(hailo_directory / "hailo" / "decoder-2s-16.onnx")
    in_float16(model, ("encoder_hidden_states", "logits"))
    ids = model.graph.input[0]
    ids.type.tensor_type.elem_type = TensorProto.INT32
    save(model, tmp_path / "decoder.onnx")
    features = _features(2, N_POSITIONS)
    tokens = _ids(2, 5)
    expected, _ = fixed.step(tokens, fixed.start(features, (FULL, FULL)), np.arange(5))
    runner = OnnxFixedRunner(tmp_path / "decoder.onnx", spec, threads=1)
    with FixedDecoder(runner, spec) as halved:
        assert halved.name == "fixed-fp16"
        got, _ = halved.step(tokens, halved.start(features, (FULL, FULL)), np.arange(5))
    assert (got.logits.dtype, got.logsumexp.dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(got.logits, expected.logits, atol=0.02)


@pytest.mark.parametrize(
    "case",
    [
        ("input", 32, r"\b32 .*\b200\b.*\b64 .*\b200\b"),
        ("output", 199, r"\b64 .*\b199\b.*\b64 .*\b200\b"),
    ],
)
def test_fixed_runner_of_another_model_is_refused(
    hailo_directory: Path, spec: ModelSpec, tmp_path: Path, case: tuple[str, int, str]
) -> None:
    part, size, data = case
    model = load_message(hailo_directory / "hailo" / "decoder-2s-16.onnx")
    port = model.graph.input[1] if part == "input" else model.graph.output[0]
    port.type.tensor_type.shape.dim[2].dim_value = size
    (tmp_path / "decoder.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=rf"decoder\.onnx.*{data}.*--model"):
        OnnxFixedRunner(tmp_path / "decoder.onnx", spec)


@pytest.mark.parametrize(
    ("length", "n_positions"), [(65, 100), (1, 100), (16, 151), (16, 0)]
)
def test_fixed_decoder_longer_than_the_model_is_refused(
    spec: ModelSpec, length: int, n_positions: int
) -> None:
    runner: Any = SimpleNamespace(
        name="hef-hailo8", length=length, n_positions=n_positions
    )
    with pytest.raises(ShapeError, match=r"hef-hailo8\b.*\b64\b.*\b150\b.*--model"):
        FixedDecoder(runner, spec)


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
