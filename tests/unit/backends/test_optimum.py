"""Decoders that two versions of Optimum exported, and exports that are refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.fakes.graphs import add_what_it_is_told, in_float16
from tests.unit.backends.conftest import EXPORTS
from whisper_hailo.backends import optimum, session
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.onnx_file import ForeignEncoder
from whisper_hailo.backends.optimum import OptimumDecoder
from whisper_hailo.core.errors import ModelError, ShapeError
from whisper_hailo.core.protocols import Decoder, Limits, Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray

NONE = Padding(None)
SOME = Padding(40)
N_VOCAB = 90
N_TEXT = 24


@pytest.fixture(scope="module")
def spec(golden_model: Path) -> ModelSpec:
    return ModelSpec.load(golden_model)


def _features(batch: int, n_positions: int, seed: int = 0) -> FloatArray:
    shape = (batch, n_positions, 8)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _ids(n_rows: int, n_tokens: int) -> IntArray:
    return np.random.default_rng(1).integers(0, N_VOCAB, (n_rows, n_tokens))


def _walk(decoder: Decoder, padding: Padding) -> tuple[FloatArray, FloatArray]:
    """Logits and log-sum-exp of a prefix of 4 looked at twice, then 6 tokens one by one."""
    tokens = _ids(2, 10)
    state = decoder.start(_features(2, 30), (padding, padding))
    out, state = decoder.step(tokens[:, :4], state, np.array([0, 3]))
    logits = [out.logits.copy()]
    sums = [out.logsumexp.copy()]
    for i in range(4, 10):
        out, state = decoder.step(tokens[:, i : i + 1], state, np.array([0]))
        logits.append(out.logits.copy())
        sums.append(out.logsumexp.copy())
    return np.concatenate(logits, axis=1), np.concatenate(sums, axis=1)


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("graph", ["decoder_model.onnx", "decoder_model_merged.onnx"])
def test_optimum_decoder_equals_the_cached_decoder(
    exports: Path, golden_model: Path, spec: ModelSpec, export: str, graph: str
) -> None:
    with (
        CachedDecoder(golden_model, spec, threads=1) as ours,
        OptimumDecoder(exports / export / graph, spec, threads=1) as theirs,
    ):
        for padding in (NONE, SOME, Padding(1500)):
            expected, expected_sums = _walk(ours, padding)
            got, sums = _walk(theirs, padding)
            np.testing.assert_allclose(got, expected, atol=1e-4)
            np.testing.assert_allclose(sums, expected_sums, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("graph", ["decoder_model", "decoder_model_merged"])
def test_optimum_int8_is_near_and_not_equal(
    exports: Path, spec: ModelSpec, export: str, graph: str
) -> None:
    exact, quantized = (
        OptimumDecoder(exports / export / f"{graph}{mark}.onnx", spec, threads=1)
        for mark in ("", "_quantized")
    )
    assert quantized.name == exact.name.replace("fp32", "int8")
    with exact, quantized:
        expected, _ = _walk(exact, SOME)
        got, _ = _walk(quantized, SOME)
    difference = np.abs(got - expected).max() / np.abs(expected).max()
    assert 0 < difference < 0.1


def test_optimum_merged_int8_runs_with_exact_products(
    exports: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = exports / EXPORTS[0] / "decoder_model_merged_quantized.onnx"
    with OptimumDecoder(path, spec, threads=1) as decoder:
        expected, _ = _walk(decoder, SOME)
    loaded: list[Path | bytes] = []

    def open_graph(source: Path | bytes, *rest: Any) -> onnxruntime.InferenceSession:
        loaded.append(source)
        return session.open_graph(source, *rest)

    for module in (optimum, session):
        monkeypatch.setattr(module, "saturates", lambda: True)
    monkeypatch.setattr(optimum, "open_graph", open_graph)
    with OptimumDecoder(path, spec, threads=1) as decoder:
        got, _ = _walk(decoder, SOME)
    assert [type(source) for source in loaded] == [bytes]
    np.testing.assert_allclose(got, expected, atol=0.1 * np.abs(expected).max())


def test_optimum_directory_prefers_the_merged_graph(
    exports: Path, spec: ModelSpec, tmp_path: Path
) -> None:
    export = exports / EXPORTS[0]
    names = {
        export: "optimum-merged-fp32",
        export / "decoder_model.onnx": "optimum-fp32",
        export / "decoder_with_past_model.onnx": "optimum-fp32",
        export / "decoder_model_merged_quantized.onnx": "optimum-merged-int8",
    }
    assert {path: OptimumDecoder(path, spec).name for path in names} == names
    for name in ("decoder_model", "decoder_with_past_model"):
        (tmp_path / "onnx").mkdir(exist_ok=True)
        shutil.copy(export / f"{name}_quantized.onnx", tmp_path / "onnx")
    decoder = OptimumDecoder(tmp_path, spec)
    assert (decoder.name, decoder.spec.quantization) == (
        "optimum-int8",
        "exported int8",
    )
    assert (
        OptimumDecoder(export, replace(spec, quantization="int4")).spec.quantization
        == "none"
    )


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("graph", ["decoder_model.onnx", "decoder_model_merged.onnx"])
def test_optimum_decoder_drafts_beams_and_rewinds(
    exports: Path, spec: ModelSpec, export: str, graph: str
) -> None:
    tokens = _ids(2, 9)
    with OptimumDecoder(exports / export / graph, spec, threads=1) as decoder:
        state = decoder.start(_features(2, 30), (SOME, SOME))
        whole, longest = decoder.step(tokens, state, np.arange(9))
        _, prefix = decoder.step(tokens[:, :4], state, np.array([3]))
        draft, after = decoder.step(tokens[:, 4:], prefix, np.arange(5))
        np.testing.assert_allclose(draft.logits, whole.logits[:, 4:], atol=1e-4)
        assert after.n_tokens == 9
        first, after_first = decoder.step(tokens[:, :1], state, np.array([0]))
        np.testing.assert_allclose(first.logits, whole.logits[:, :1], atol=1e-4)
        rest, _ = decoder.step(tokens[:, 1:4], after_first, np.array([0, 2]))
        np.testing.assert_allclose(rest.logits, whole.logits[:, [1, 3]], atol=1e-4)
        back = decoder.rewind(longest, 5)
        again, _ = decoder.step(tokens[:, 5:6], back, np.array([0]))
        np.testing.assert_allclose(again.logits, whole.logits[:, 5:6], atol=1e-4)
        start = decoder.rewind(longest, 0)
        anew, _ = decoder.step(tokens, start, np.array([8]))
        np.testing.assert_allclose(anew.logits, whole.logits[:, 8:], atol=1e-4)
        reordered = decoder.select(
            decoder.select(prefix, np.array([1, 0])), np.array([1, 0])
        )
        picked, _ = decoder.step(tokens[:, 4:5], reordered, np.array([0]))
        np.testing.assert_allclose(picked.logits, whole.logits[:, 4:5], atol=1e-4)
        for rows in (np.array([1, 0, 1]), np.array([0, 1])):
            picked, _ = decoder.step(
                tokens[rows, 4:], decoder.select(prefix, rows), np.arange(5)
            )
            np.testing.assert_allclose(picked.logits, whole.logits[rows, 4:], atol=1e-4)


def test_optimum_float16_gets_features_and_masks_each_step(
    exports: Path, spec: ModelSpec, tmp_path: Path
) -> None:
    """As exports of 2022 need them; inputs and outputs are float16 besides."""
    for name in ("decoder_model.onnx", "decoder_with_past_model.onnx"):
        model = onnx.load(exports / EXPORTS[0] / name)
        if "past" in name:
            add_what_it_is_told(model)
        in_float16(model, ("encoder_hidden_states", "logits"))
        onnx.save(model, tmp_path / name)
    features = _features(2, 30)
    sums = features.sum(axis=(1, 2))  # zero rows add nothing
    tokens = _ids(2, 6)
    look = np.array([0])
    with (
        OptimumDecoder(tmp_path, spec, threads=1) as watched,
        OptimumDecoder(
            exports / EXPORTS[0] / "decoder_model.onnx", spec, threads=1
        ) as plain,
    ):
        assert (watched.name, watched.spec.quantization) == ("optimum-fp16", "fp16")
        states = [decoder.start(features, (SOME, SOME)) for decoder in (watched, plain)]
        for n, rows in ((0, [0, 1]), (4, [0, 1]), (5, [1, 1])):
            new = tokens[:, :4] if n == 0 else tokens[:, n : n + 1]
            outs = []
            for k, decoder in enumerate((watched, plain)):
                states[k] = decoder.select(states[k], np.array(rows))
                out, states[k] = decoder.step(new, states[k], look)
                assert (out.logits.dtype, out.logsumexp.dtype) == (
                    np.float32,
                    np.float32,
                )
                outs.append(out.logits.copy())
            # 40 positions with their padding, n + 1 tokens, the last of which has place n.
            inputs = (
                sums[rows] + 0.1 * 40 + 1.0 * (n + 1) + 10.0 * n if n else np.zeros(2)
            )
            expected = np.broadcast_to(inputs[:, None, None], outs[1].shape)
            # Float16 tells numbers up to 128 apart by a sixteenth; a sum has eleven bits.
            np.testing.assert_allclose(outs[0] - outs[1], expected, atol=0.2)


@pytest.mark.parametrize("export", EXPORTS)
def test_foreign_encoder_of_optimum_equals_the_encoder(
    exports: Path, golden_model: Path, spec: ModelSpec, export: str
) -> None:
    mel = np.random.default_rng(0).standard_normal((2, 80, 3000)).astype(np.float32)
    path = exports / export / "encoder_model.onnx"
    with (
        OnnxEncoder(golden_model, spec, threads=1) as ours,
        ForeignEncoder(path, spec, threads=1) as theirs,
        ForeignEncoder(
            path.with_stem("encoder_model_quantized"), spec, threads=1
        ) as int8,
    ):
        assert (theirs.name, int8.name) == ("onnx-30s-fp32", "onnx-30s-int8")
        assert theirs.n_frames == 3000
        expected = ours.encode(mel)
        np.testing.assert_allclose(theirs.encode(mel), expected, atol=1e-4)
        error = np.abs(int8.encode(mel) - expected).max() / np.abs(expected).max()
        assert 0 < error < 0.5
        with pytest.raises(ShapeError, match=r"\b1000 .*\b3000 .*--window 30\b"):
            theirs.encode(mel[:, :, :1000])


def test_optimum_decoder_refuses_left_and_unequal_padding(
    exports: Path, spec: ModelSpec
) -> None:
    with OptimumDecoder(exports / EXPORTS[0], spec, threads=1) as decoder:
        assert decoder.limits == Limits(
            n_positions=None, free_padding=False, aligns=False
        )
        state = decoder.start(_features(2, 30), (SOME, SOME))
        tokens = _ids(2, 4)
        with pytest.raises(ShapeError, match=r"optimum-merged-fp32 .*left padding"):
            decoder.step(tokens, state, np.array([3]), first=np.array([0, 1]))
        with pytest.raises(ShapeError, match=r"\[20, 30\]"):
            decoder.start(_features(2, 30), (NONE, NONE), np.array([20, 30]))
        masked = decoder.start(_features(2, 30), (SOME, SOME), np.array([20, 30]))
        assert masked.features.shape == (2, 40, 8)
        assert not masked.features[0, 20:].any()


def test_optimum_graphs_of_another_model_are_refused(
    exports: Path,
    golden_model: Path,
    spec: ModelSpec,
    model_directory: Path,
    tmp_path: Path,
) -> None:
    other = ModelSpec.load(model_directory)
    for graph in ("decoder_model.onnx", "decoder_model_merged.onnx"):
        with pytest.raises(ModelError, match=rf"{graph} .*\b8\).*\b64;.*--model"):
            OptimumDecoder(exports / EXPORTS[0] / graph, other)
    with pytest.raises(ModelError, match=r"decoder_model_merged\.onnx, .*--task "):
        OptimumDecoder(golden_model, spec)
    with pytest.raises(ModelError, match=r"encoder_model\.onnx .*input_features"):
        OptimumDecoder(exports / EXPORTS[0] / "encoder_model.onnx", spec)
    lone = tmp_path / "decoder_model.onnx"
    shutil.copy(exports / EXPORTS[0] / "decoder_model.onnx", lone)
    with pytest.raises(ModelError, match=r"decoder_with_past_model.* --task "):
        OptimumDecoder(tmp_path, spec)
    lone.write_bytes(lone.read_bytes()[:3000])
    shutil.copy(lone, tmp_path / "decoder_with_past_model.onnx")
    with pytest.raises(ModelError, match=r"decoder_model\.onnx .*DecodeError"):
        OptimumDecoder(lone, spec)


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
