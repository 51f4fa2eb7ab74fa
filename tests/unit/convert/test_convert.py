"""What a conversion makes of a checkpoint, and which checkpoints it does not take."""

import json
import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from tests.unit.convert.conftest import FILES, PLAIN, contents
from whisper_hailo.checkpoint.config import alignment_heads
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.graphs import onnx_file
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.spec import SPEC_VERSION, ModelSource, ModelSpec


@pytest.mark.parametrize("quantize", ["none", "int8", "int4"])
def test_same_input_gives_identical_files(checkpoint: Path, tmp_path: Path, quantize: str) -> None:
    options = ConvertOptions(quantize=quantize, encoder_quantize=quantize)
    spec = convert_checkpoint(checkpoint, tmp_path / "a", options)
    convert_checkpoint(checkpoint, tmp_path / "b", options)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert set(contents(tmp_path / "a")) == FILES
    assert ModelSpec.load(tmp_path / "a") == spec
    for name in FILES - {"model.json", "decoder.onnx.data", "silence.safetensors"}:
        onnx.checker.check_model(tmp_path / "a" / name)


def test_what_every_step_hears_stays_at_8_bits_beside_weights_of_4(
    checkpoint: Path, tmp_path: Path
) -> None:
    """4 would save a hundredth of the whole, in keys and values that all of the text is made of."""
    specs = {
        bits: convert_checkpoint(checkpoint, tmp_path / bits, ConvertOptions(bits, half=False))
        for bits in ("int8", "int4")
    }
    hashes = {bits: spec.files["cross_kv.onnx"].sha256 for bits, spec in specs.items()}
    assert hashes["int4"] == hashes["int8"]
    graph = onnx.load(tmp_path / "int4" / "cross_kv.onnx").graph
    assert "MatMulNBits" not in {node.op_type for node in graph.node}


@pytest.mark.parametrize("in_half", [False, True])
def test_quantised_models_are_made_for_the_processor_that_makes_them(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_half: bool
) -> None:
    """Unless they are asked for another; what is float32 stays what it is."""
    monkeypatch.setattr("whisper_hailo.convert.options.has_float16_kernels", lambda: in_half)
    out = tmp_path / "out"
    assert convert_checkpoint(checkpoint, out, PLAIN).half is False
    assert convert_checkpoint(checkpoint, out, ConvertOptions(quantize="int8")).half is in_half
    other = ConvertOptions(quantize="int8", half=not in_half)
    assert convert_checkpoint(checkpoint, out, other).half is not in_half
    assert ModelSpec.load(out).half is not in_half


def test_float16_is_for_quantised_graphs() -> None:
    with pytest.raises(OptionError, match="--half is for quantised graphs; leave out"):
        ConvertOptions("none", half=True)
    assert ConvertOptions(half=True).in_half
    assert not ConvertOptions(half=False).in_half
    assert ConvertOptions("none", encoder_quantize="int8", half=True).in_half


def test_spec_says_where_it_came_from(checkpoint: Path, tmp_path: Path) -> None:
    spec = convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert (spec.name, spec.dims, spec.quantization) == ("toy", TOY, "none")
    assert spec.source.name == "whisper-toy"
    assert set(spec.source.sha256) == {"config.json", "model.safetensors"}
    hub = ModelSource(name="someone/whisper-tiny.en", revision="0" * 40)
    spec = convert_checkpoint(checkpoint, tmp_path / "out", PLAIN, source=hub)
    assert (spec.name, spec.source.revision) == ("tiny.en", "0" * 40)


def test_missing_tokenizer_is_a_warning(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert "has no tokenizer files" in caplog.text


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("generation_config.json", {"alignment_heads": [1, 2]}),
        ("generation_config.json", {"alignment_heads": [["a", "b"]]}),
        ("generation_config.json", {"suppress_tokens": "none"}),
        ("generation_config.json", {"suppress_tokens": 3}),
        ("generation_config.json", {"eos_token_id": {}, "decoder_start_token_id": "x"}),
        ("generation_config.json", {"lang_to_id": [1], "is_multilingual": True}),
        ("generation_config.json", {"decoder_start_token_id": -1}),
        ("generation_config.json", {"decoder_start_token_id": 10**6}),
        ("config.json", {"encoder_layers": 3 * 10**6}),
        ("config.json", {"vocab_size": "many"}),
        ("config.json", {"decoder_start_token_id": math.inf}),
        ("config.json", {"encoder_ffn_dim": 2**62}),
        ("generation_config.json", {"eos_token_id": 10.5}),
        ("generation_config.json", {"suppress_tokens": [[]]}),
        ("generation_config.json", {"begin_suppress_tokens": [True]}),
        ("generation_config.json", {"task_to_id": {"transcribe": "x"}, "is_multilingual": True}),
    ],
)
def test_configs_of_the_wrong_kind_are_one_clear_error(
    checkpoint: Path, tmp_path: Path, file: str, changes: dict[str, object]
) -> None:
    path = checkpoint / file
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, **changes}))
    with pytest.raises(ModelError) as caught:
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "tokenizer.json"])
def test_json_without_end_is_one_clear_error(checkpoint: Path, tmp_path: Path, file: str) -> None:
    (checkpoint / file).write_text("[" * 200_000)
    with pytest.raises(ModelError, match=file):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)


def test_suppressed_ids_beyond_the_vocabulary_are_left_out(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = checkpoint / "generation_config.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, "suppress_tokens": [1, 99_999_999]}))
    spec = convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert spec.tokens.suppress == (1,)
    assert "ids beyond" in caplog.text


def test_data_that_breaks_while_reading_is_a_model_error(checkpoint: Path, tmp_path: Path) -> None:
    arrays = {name: array[..., :-1] for name, array in random_arrays().items()}
    write_checkpoint(checkpoint, arrays)
    with pytest.raises(ModelError, match="has shape"):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert not (tmp_path / "out").exists()


def test_graphs_over_the_limit_have_data_files(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "PROTOBUF_LIMIT_BYTES", 1000)
    spec = convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    data = {"encoder.onnx.data", "cross_kv.onnx.data"}
    assert set(spec.files) == (FILES | data) - {"model.json"}


def test_untied_projection_gets_its_own_bytes(tmp_path: Path) -> None:
    arrays = random_arrays()
    tied = write_checkpoint(tmp_path / "tied", arrays)
    arrays["proj_out.weight"] = arrays["decoder.embed_tokens.weight"] * np.float32(2)
    untied = write_checkpoint(tmp_path / "untied", arrays)
    sizes = [
        convert_checkpoint(source, tmp_path / f"{source.name}-out", PLAIN)
        .files["decoder.onnx.data"]
        .bytes
        for source in (tied, untied)
    ]
    assert sizes[1] - sizes[0] >= arrays["proj_out.weight"].nbytes


def test_width_that_is_no_whole_block_needs_no_quantisation(tmp_path: Path) -> None:
    dims = replace(TOY, d_model=48)
    checkpoint = write_checkpoint(
        tmp_path / "narrow", random_arrays(dims, 96), config=config_of(dims, 96)
    )
    convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    with pytest.raises(ModelError, match="--quantize none"):
        convert_checkpoint(checkpoint, tmp_path / "out", ConvertOptions(quantize="int8"))


def test_alignment_heads(caplog: pytest.LogCaptureFixture) -> None:
    upper_half = ((1, 0), (1, 1))
    assert alignment_heads({}, TOY) == upper_half
    assert alignment_heads({"alignment_heads": [[1, 1], [0, 1]]}, TOY) == ((0, 1), (1, 1))
    assert not caplog.records
    assert alignment_heads({"alignment_heads": [[7, 0]]}, TOY) == upper_half
    assert "does not have" in caplog.text


def test_spec_is_json_with_a_version(checkpoint: Path, tmp_path: Path) -> None:
    convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert json.loads((tmp_path / "out" / "model.json").read_text())["version"] == SPEC_VERSION
