"""Hailo forms of a small random checkpoint: written, read back, run."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.convert import convert
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.graphs import onnx_graph
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import ModelSpec

HAILO = ConvertOptions("none", hailo=HailoOptions(window_s=2, decoder_length=7))
ENCODER = "hailo/encoder-2s.onnx"
DECODER = "hailo/decoder-2s-7.onnx"
FOLDER = "decoder_assets/toy/decoder_tokenization"
TABLE = f"{FOLDER}/token_embedding_weight_toy.npy"
ROWS = f"{FOLDER}/onnx_add_input_toy.npy"
DEEP = replace(TOY, n_encoder_layers=2)
TOLERANCE = 1e-4

Model = tuple[Path, ModelSpec]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whisper") / "whisper-toy"
    return write_checkpoint(directory, random_arrays(DEEP), config=config_of(DEEP))


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> Model:
    out = checkpoint.parent / "model"
    return out, convert_checkpoint(checkpoint, out, HAILO)


def _contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def _run(path: Path, feed: dict[str, NDArray[np.generic]]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    (result,) = session.run(None, feed)
    return np.asarray(result)


def _difference(got: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / max(1.0, float(np.abs(expected).max())))


def test_hailo_directory_has_the_listed_files(model: Model) -> None:
    out, spec = model
    assert ModelSpec.load(out) == spec
    assert {ENCODER, DECODER, TABLE, ROWS} <= spec.files.keys()
    assert {
        name: len(data) for name, data in _contents(out).items() if name != "model.json"
    } == {name: record.bytes for name, record in spec.files.items()}


def test_hailo_spec_describes_each_form(model: Model) -> None:
    _, spec = model
    encoder, decoder = spec.hailo
    assert (encoder.part, encoder.file, encoder.window_s, encoder.length) == (
        "encoder", ENCODER, 2, None,
    )  # fmt: skip
    assert (encoder.start_nodes, encoder.end_nodes) == (
        ("x.1",), ("/layer_norm/LayerNormalization",),
    )  # fmt: skip
    assert encoder.chip_inputs == ((1, 1, 200, 80),)
    assert (decoder.part, decoder.file, decoder.window_s, decoder.length) == (
        "decoder", DECODER, 2, 7,
    )  # fmt: skip
    assert decoder.start_nodes == ("encoder_hidden_states", "/Reshape")
    assert decoder.end_nodes == ("/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3")
    assert decoder.chip_inputs == ((1, 1, 100, 64), (1, 7, 1, 64))
    assert decoder.assets == {"token_embedding": TABLE, "position_rows": ROWS}


@pytest.mark.parametrize(("index", "opset"), [(0, 17), (1, 13)])
def test_hailo_graphs_are_valid_and_as_described(
    model: Model, index: int, opset: int
) -> None:
    out, spec = model
    form = spec.hailo[index]
    onnx.checker.check_model(out / form.file, full_check=True)
    proto = onnx.load(out / form.file)
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [
        ("", opset)
    ]
    assert form.opset == opset
    for values, recorded in (
        (proto.graph.input, form.inputs),
        (proto.graph.output, form.outputs),
    ):
        found = {
            v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
            for v in values
        }
        assert found == recorded
    names = {node.name for node in proto.graph.node} | set(form.inputs)
    assert names >= {*form.start_nodes, *form.end_nodes}
    assert len({node.name for node in proto.graph.node}) == len(proto.graph.node)


def test_hailo_encoder_equals_the_onnx_encoder(model: Model) -> None:
    out, spec = model
    mel = np.random.default_rng(0).standard_normal((1, 80, 200)).astype(np.float32)
    with OnnxEncoder(out, spec, threads=1) as encoder:
        expected = encoder.encode(mel)
    assert (
        _difference(_run(out / ENCODER, {"x.1": mel[:, :, None]}), expected) < TOLERANCE
    )


def test_hailo_decoder_equals_the_cached_decoder(model: Model) -> None:
    out, spec = model
    rng = np.random.default_rng(1)
    features = rng.standard_normal((1, 100, 64)).astype(np.float32)
    tokens = rng.integers(0, spec.dims.n_vocab, (1, 7))
    got = _run(
        out / DECODER, {"decoder_input_ids": tokens, "encoder_hidden_states": features}
    )
    with CachedDecoder(out, spec, threads=1) as decoder:
        state = decoder.start(features, (Padding(None),))
        for position in range(7):
            step, state = decoder.step(
                tokens[:, position : position + 1], state, np.array([0])
            )
            assert _difference(got[:, position], step.logits[:, 0]) < TOLERANCE


def test_hailo_decoder_is_causal(model: Model) -> None:
    out, _ = model
    features = np.random.default_rng(2).standard_normal((1, 100, 64)).astype(np.float32)
    feeds = [
        {
            "decoder_input_ids": np.array([[1, 2, 3, *rest]]),
            "encoder_hidden_states": features,
        }
        for rest in ([4, 5, 6, 7], [0, 0, 0, 0])
    ]
    first, second = (_run(out / DECODER, feed) for feed in feeds)
    assert np.array_equal(first[:, :3], second[:, :3])
    assert not np.array_equal(first[:, 3:], second[:, 3:])


def test_hailo_assets_are_the_checkpoints_rows(model: Model) -> None:
    out, _ = model
    arrays = random_arrays(DEEP)
    table = np.load(out / TABLE)
    rows = np.load(out / ROWS)
    assert (table.dtype, rows.dtype) == (np.float32, np.float32)
    assert np.array_equal(table, arrays["decoder.embed_tokens.weight"])
    assert np.array_equal(rows, arrays["decoder.embed_positions.weight"][:7])


def test_hailo_decoder_from_host_inputs_gives_same_logits(model: Model) -> None:
    """Between start and end nodes, with embeddings from the assets: what a HEF would compute."""
    out, spec = model
    form = spec.hailo[1]
    proto = onnx.load(out / form.file)
    nodes = {node.name: node for node in proto.graph.node}
    start = nodes["/Reshape"].input[0]
    ends = [nodes[name].output[0] for name in form.end_nodes]
    shaped = onnx.shape_inference.infer_shapes(proto)
    cut = onnx.utils.Extractor(shaped).extract_model(
        ["encoder_hidden_states", start], ends
    )
    onnx.save(cut, out.parent / "cut.onnx")
    tokens = np.array([[3, 1, 4, 1, 5, 9, 2]])
    # (1, length, d_model).
    embedded = np.load(out / TABLE)[tokens] + np.load(out / ROWS)
    features = np.random.default_rng(3).standard_normal((1, 100, 64)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(out.parent / "cut.onnx"))
    # The chip itself takes (1, length, 1, d).
    nchw = embedded[:, :, None].transpose(0, 3, 1, 2)
    chunks = session.run(None, {"encoder_hidden_states": features, start: nchw})
    whole = {"decoder_input_ids": tokens, "encoder_hidden_states": features}
    assert (
        _difference(np.concatenate(chunks, -1), _run(out / form.file, whole))
        < TOLERANCE
    )


def test_hailo_forms_same_input_gives_identical_files(
    checkpoint: Path, tmp_path: Path, model: Model
) -> None:
    convert_checkpoint(checkpoint, tmp_path / "again", HAILO)
    assert _contents(tmp_path / "again") == _contents(model[0])


def test_convert_without_hailo_writes_no_forms(
    checkpoint: Path, tmp_path: Path
) -> None:
    spec = convert_checkpoint(checkpoint, tmp_path / "plain", ConvertOptions("none"))
    assert spec.hailo == ()
    assert not (tmp_path / "plain" / "hailo").exists()


def test_hailo_decoder_uses_an_untied_projection(tmp_path: Path) -> None:
    arrays = random_arrays(TOY)
    arrays["proj_out.weight"] = 2 * arrays["decoder.embed_tokens.weight"]
    write_checkpoint(tmp_path / "whisper-toy", arrays)
    spec = convert_checkpoint(tmp_path / "whisper-toy", tmp_path / "out", HAILO)
    features = np.random.default_rng(4).standard_normal((1, 100, 64)).astype(np.float32)
    tokens = np.array([[1, 2, 3, 4, 5, 6, 7]])
    feed = {"decoder_input_ids": tokens, "encoder_hidden_states": features}
    with CachedDecoder(tmp_path / "out", spec, threads=1) as decoder:
        expected, _ = decoder.step(
            tokens, decoder.start(features, (Padding(None),)), np.arange(7)
        )
    assert (
        _difference(_run(tmp_path / "out" / DECODER, feed), expected.logits) < TOLERANCE
    )
    table = np.load(tmp_path / "out" / TABLE)
    assert np.array_equal(table, arrays["decoder.embed_tokens.weight"])


def test_hailo_forms_over_limit_have_data_files(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    monkeypatch.setattr(onnx_graph, "PROTOBUF_LIMIT_BYTES", 1000)
    spec = convert_checkpoint(checkpoint, tmp_path / "out", HAILO)
    assert {f"{ENCODER}.data", f"{DECODER}.data"} <= spec.files.keys()
    mel = np.random.default_rng(5).standard_normal((1, 80, 1, 200)).astype(np.float32)
    outside = _run(tmp_path / "out" / ENCODER, {"x.1": mel})
    assert np.array_equal(outside, _run(model[0] / ENCODER, {"x.1": mel}))


def test_convert_with_refused_sizes_writes_nothing(
    checkpoint: Path, tmp_path: Path
) -> None:
    # The toy's context is 3 s.
    options = ConvertOptions("none", hailo=HailoOptions(window_s=4))
    with pytest.raises(OptionError, match=r"--window .*\b4\b"):
        convert_checkpoint(checkpoint, tmp_path / "out", options)
    assert not list(tmp_path.iterdir())


def test_convert_hailo_on_full_disk_leaves_nothing(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(convert, "hailo_forms", full)
    with pytest.raises(OutputError, match="No space"):
        convert_checkpoint(checkpoint, tmp_path / "out", HAILO)
    assert not list(tmp_path.iterdir())
