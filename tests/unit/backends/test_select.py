"""Choice of encoder and decoder: reasons, and contradictions found before loading."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from tests.unit.backends.conftest import GOLDENS
from whisper_hailo.backends import select as module
from whisper_hailo.backends.fixed import FixedDecoder
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.onnx_file import ForeignEncoder
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import decoder_backend, engine_window_s, select
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import ModelError, OptionError, ShapeError
from whisper_hailo.core.spec import ModelSpec


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model: twice the width, and fixed graphs of 1 s."""
    root = tmp_path_factory.mktemp("wide")
    dims = replace(TOY, d_model=128)
    checkpoint = write_checkpoint(
        root / "ck", random_arrays(dims), config=config_of(dims)
    )
    options = ConvertOptions("none", hailo=HailoOptions(window_s=1, decoder_length=8))
    convert_checkpoint(checkpoint, root / "model", options)
    return root / "model"


@pytest.fixture
def no_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_npu", lambda: (None, "no Hailo binding"))


def _select(directory: Path, **options: object) -> module.SelectedEngine:
    return select(directory, ModelSpec.load(directory), EngineOptions(**options))  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_npu")
def test_select_auto_takes_the_model_on_the_cpu(model_directory: Path) -> None:
    engine = _select(model_directory)
    assert isinstance(engine.encoder, OnnxEncoder)
    assert engine.reasons[0] == "encoder onnx-fp32: on the CPU, no Hailo binding"
    assert engine.reasons[1].startswith("decoder cached-fp32: with a cache on the CPU")


@pytest.mark.usefixtures("no_npu")
def test_decoder_backend_of_file_follows_its_content(
    hailo_directory: Path, model_directory: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(GOLDENS / "optimum-onnx-0.1.0.zip") as packed:
        packed.extractall(tmp_path)
    kinds = {
        hailo_directory / "hailo" / "decoder-2s-16.onnx": "fixed",
        model_directory: "cached",
        tmp_path: "optimum",
        tmp_path / "decoder_model.onnx": "optimum",
        Path("any.hef"): "hailo",
    }
    assert {path: decoder_backend(path) for path in kinds} == kinds
    graph = hailo_directory / "hailo" / "decoder-2s-16.onnx"
    engine = _select(model_directory, decoder=graph)
    assert engine.reasons[1] == f"decoder fixed-fp32: {graph} is given"
    form = hailo_directory / "hailo" / "encoder-2s.onnx"
    engine = _select(model_directory, encoder=form, decoder=model_directory)
    assert [reason.split(":")[0] for reason in engine.reasons] == [
        "encoder onnx-2s-fp32",
        "decoder cached-fp32",
    ]


def test_foreign_encoder_of_hailo_form_equals_the_encoder(
    hailo_directory: Path, encoder: OnnxEncoder, spec: ModelSpec
) -> None:
    mel = np.random.default_rng(0).standard_normal((2, 80, 200)).astype(np.float32)
    path = hailo_directory / "hailo" / "encoder-2s.onnx"
    with ForeignEncoder(path, spec, threads=1) as fixed:
        assert fixed.n_frames == 200
        np.testing.assert_allclose(fixed.encode(mel), encoder.encode(mel), atol=1e-4)
        with pytest.raises(ShapeError, match=r"\b100 .*\b200 .*--window 2\b"):
            fixed.encode(mel[:, :, :100])


def test_foreign_encoder_of_another_model_is_refused(
    wide: Path, model_directory: Path, hailo_directory: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        ModelError, match=r"encoder-1s\.onnx .*\b128\).*\(batch, 50, 64\)"
    ):
        _select(model_directory, encoder=wide / "hailo" / "encoder-1s.onnx")
    spec = ModelSpec.load(model_directory)
    many = replace(spec, dims=replace(spec.dims, n_mels=128))
    with pytest.raises(
        ModelError, match=r"x\.1 \(1, 80, 1, 200\).*\(1, 128, 1, n_frames\)"
    ):
        ForeignEncoder(hailo_directory / "hailo" / "encoder-2s.onnx", many)
    short = replace(spec, dims=replace(spec.dims, n_audio_ctx=50))
    with pytest.raises(ModelError, match=r"\b200 .*\b100;"):
        ForeignEncoder(hailo_directory / "hailo" / "encoder-2s.onnx", short)
    with pytest.raises(ModelError, match=r"decoder-2s-16\.onnx .*decoder_input_ids"):
        _select(
            model_directory, encoder=hailo_directory / "hailo" / "decoder-2s-16.onnx"
        )
    with pytest.raises(ModelError, match=r" encoder_model\.onnx;.*--encoder"):
        _select(model_directory, encoder=tmp_path)
    with pytest.raises(ModelError, match=r"d_model 128 .*\b64;"):
        _select(model_directory, encoder=wide)
    other = _select(hailo_directory, encoder=model_directory).encoder
    assert isinstance(other, OnnxEncoder)
    named = _select(
        hailo_directory, encoder=model_directory / "encoder.onnx",
        decoder=model_directory / "decoder.onnx",
    )  # fmt: skip
    assert isinstance(named.encoder, OnnxEncoder)
    assert named.reasons[1].startswith("decoder cached-fp32")
    with pytest.raises(ModelError, match=r"^nowhere\.onnx "):
        _select(model_directory, encoder=Path("nowhere.onnx"))


def test_select_refuses_decoders_of_another_model(
    wide: Path, model_directory: Path, hailo_directory: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        ModelError, match=r"decoder-1s-8\.onnx .*\b128 .*\b200 .*\b64 .*\b200;"
    ):
        _select(model_directory, decoder=wide / "hailo" / "decoder-1s-8.onnx")
    spec = ModelSpec.load(model_directory)
    fewer = replace(
        spec, dims=replace(spec.dims, n_vocab=100), tokens=replace(spec.tokens)
    )
    with pytest.raises(ModelError, match=r"\b64 .*\b200 .*\b64 .*\b100;"):
        select(
            model_directory, fewer,
            EngineOptions(decoder=hailo_directory / "hailo" / "decoder-2s-16.onnx"),
        )  # fmt: skip
    with pytest.raises(ModelError, match=r"d_model 128 .*\b64;"):
        _select(model_directory, decoder=wide)
    raw = json.loads((model_directory / "model.json").read_text())
    raw["tokens"]["sot"] += 1
    (tmp_path / "model.json").write_text(json.dumps(raw))
    with pytest.raises(ModelError, match="control tokens"):
        _select(model_directory, decoder=tmp_path)
    with pytest.raises(ModelError, match=r"decoder;.*whisper-hailo convert .*--hailo"):
        _select(model_directory, decoder_backend="fixed")
    with pytest.raises(ModelError, match=r"/encoder\.onnx .*\bmel .*convert --hailo"):
        _select(
            model_directory,
            decoder=model_directory / "encoder.onnx",
            decoder_backend="fixed",
        )
    with pytest.raises(OptionError, match=r"--decoder-backend optimum .*--decoder DIR"):
        _select(model_directory, decoder_backend="optimum")


def test_engine_window_s_is_that_of_the_fixed_graph(
    hailo_directory: Path, model_directory: Path
) -> None:
    spec = ModelSpec.load(model_directory)
    form = hailo_directory / "hailo" / "encoder-2s.onnx"
    free = _select(model_directory)
    assert engine_window_s(free, spec, None) is None
    assert engine_window_s(free, spec, 1.5) == 1.5
    fixed = _select(model_directory, encoder=form)
    assert engine_window_s(fixed, spec, None) == 2
    with pytest.raises(OptionError, match=r"--window .*\b3 s.*onnx-2s-fp32.*\b2 s"):
        engine_window_s(fixed, spec, 3)
    half = _select(hailo_directory, decoder_backend="fixed")
    assert engine_window_s(half, spec, None) == 2
    assert engine_window_s(half, spec, 1) == 1
    with pytest.raises(
        ShapeError,
        match=r"\b100 .*\b150;.*--window 3\b",
    ):
        engine_window_s(half, spec, 3)


def test_fixed_decoder_of_longer_text_is_refused(spec: ModelSpec) -> None:
    class _Runner:
        name = "fixed"
        length = 65
        n_positions = 100

    with pytest.raises(ShapeError, match=r"^fixed .*\b65 .*\b100 .*\b64 .*\b150;"):
        FixedDecoder(_Runner(), spec)  # type: ignore[arg-type]
