"""Refusals of encoder and decoder: unfit inputs, unopened models, damaged directories."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.decoder_inputs import NONE, features_of, ids_of, last_of
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.core.errors import ModelError, ShapeError
from whisper_hailo.core.spec import FileRecord, ModelSpec


def test_encoder_refuses_mel_that_does_not_fit(encoder: OnnxEncoder) -> None:
    with pytest.raises(ShapeError, match=r"\b3000 .*\b300 \(3 s.*--window 3\b"):
        encoder.encode(np.zeros((1, 80, 3000), np.float32))


def test_decoder_refuses_features_that_do_not_fit(decoder: CachedDecoder) -> None:
    with pytest.raises(ShapeError, match=r"\(1, 30, 65\).*\(batch, n_audio_ctx, 64\)"):
        decoder.start(features_of(1, 30, 65), (NONE,))


def test_decoder_refuses_steps_that_do_not_fit(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (NONE,))
    with pytest.raises(ShapeError, match=r"\b65 .*\b64;"):
        decoder.step(np.zeros((1, 65), np.int64), state, last_of(1))
    with pytest.raises(ShapeError, match=r"\b3 .*\b200, .*\b200;"):
        decoder.step(ids_of([3, 200]), state, last_of(2))


def test_decoder_text_context_can_be_used_to_its_end(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (NONE,))
    out, state = decoder.step(np.full((1, 64), 5, np.int64), state, last_of(64))
    assert np.isfinite(out.logits).all()
    with pytest.raises(ShapeError, match=r"\b65 .*\b64;"):
        decoder.step(ids_of([1]), state, last_of(1))


def test_encoder_and_decoder_of_broken_directory_fail(
    model_directory: Path,
    spec: ModelSpec,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model_directory, copy)
    data = (copy / "decoder.onnx.data").read_bytes()
    (copy / "decoder.onnx.data").write_bytes(data[:-1])
    with pytest.raises(
        ModelError, match=rf"decoder\.onnx\.data .*{len(data) - 1} .*{len(data)};"
    ):
        CachedDecoder(copy, spec).open()
    (copy / "decoder.onnx.data").unlink()
    with pytest.raises(ModelError, match=r"copy .*decoder\.onnx\.data;"):
        CachedDecoder(copy, spec).open()
    size = (copy / "encoder.onnx").stat().st_size
    (copy / "encoder.onnx").write_bytes(
        bytes(range(1, 255)) * (size // 254) + bytes(size % 254)
    )
    with pytest.raises(ModelError, match=r"encoder\.onnx .*SHA-256") as caught:
        OnnxEncoder(copy, spec).open()
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    cut = (model_directory / "encoder.onnx").read_bytes()[: size // 2]
    (copy / "encoder.onnx").write_bytes(cut)
    record = FileRecord(len(cut), hashlib.sha256(cut).hexdigest())
    misled = replace(spec, files={**spec.files, "encoder.onnx": record})
    with pytest.raises(ModelError, match=r"encoder\.onnx .*ONNXRuntimeError"):
        OnnxEncoder(copy, misled).open()
    assert capfd.readouterr() == ("", "")


def test_encoder_and_decoder_refuse_foreign_graphs(
    model_directory: Path, spec: ModelSpec, tmp_path: Path
) -> None:
    shutil.copy(model_directory / "cross_kv.onnx", tmp_path / "encoder.onnx")
    record = spec.files["cross_kv.onnx"]
    claimed = replace(spec, files={"encoder.onnx": record, "cross_kv.onnx": record})
    with pytest.raises(ModelError, match=r"encoder\.onnx .*audio_features, mel"):
        OnnxEncoder(tmp_path, claimed).open()
    with pytest.raises(ModelError, match=r"cross_kv\.onnx;"):
        CachedDecoder(tmp_path, claimed).open()
    with pytest.raises(ModelError, match=r"model\.json .*encoder\.onnx"):
        OnnxEncoder(tmp_path, replace(spec, files={})).open()


def test_encoder_and_decoder_names_and_reopening(
    model_directory: Path, spec: ModelSpec
) -> None:
    encoder = OnnxEncoder(model_directory, spec)
    decoder = CachedDecoder(model_directory, spec)
    assert (encoder.name, decoder.name) == ("onnx-fp32", "cached-fp32")
    with pytest.raises(ModelError, match=r"^onnx-fp32"):
        encoder.encode(np.zeros((1, 80, 100), np.float32))
    for _ in range(2):
        with encoder:
            assert encoder.encode(np.zeros((1, 80, 100), np.float32)).shape == (
                1,
                50,
                64,
            )
    with pytest.raises(ModelError, match=r"^cached-fp32"):
        decoder.start(features_of(1, 30, 64), (NONE,))
