import errno
import fcntl
import json
import logging
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from tests.unit.denied import deny
from whisper_hailo.checkpoint.alignment import alignment_heads
from whisper_hailo.convert import convert
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.graphs import onnx_file
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, OptionError, OutputError
from whisper_hailo.core.spec import SPEC_VERSION, ModelSource, ModelSpec

PLAIN = ConvertOptions("none")
FILES = {"model.json", "encoder.onnx", "cross_kv.onnx", "decoder.onnx", "decoder.onnx.data"}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "whisper-toy")


def _contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("quantize", ["none", "int8", "int4"])
def test_same_input_gives_identical_files(checkpoint: Path, tmp_path: Path, quantize: str) -> None:
    options = ConvertOptions(quantize=quantize, encoder_quantize=quantize)
    spec = convert_checkpoint(checkpoint, tmp_path / "a", options)
    convert_checkpoint(checkpoint, tmp_path / "b", options)
    assert _contents(tmp_path / "a") == _contents(tmp_path / "b")
    assert set(_contents(tmp_path / "a")) == FILES
    assert ModelSpec.load(tmp_path / "a") == spec
    for name in FILES - {"model.json", "decoder.onnx.data"}:
        onnx.checker.check_model(tmp_path / "a" / name)


@pytest.mark.parametrize("in_half", [False, True])
def test_quantised_models_are_made_for_the_processor_that_makes_them(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_half: bool
) -> None:
    """Unless they are asked for another; what is float32 stays what it is."""
    monkeypatch.setattr("whisper_hailo.convert.options.computes_in_half", lambda: in_half)
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


def test_earlier_conversion_is_replaced_whole(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, ConvertOptions(quantize="int8"))
    convert_checkpoint(checkpoint, out, PLAIN)
    assert set(_contents(out)) == FILES
    assert ModelSpec.load(out).quantization == "none"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]


def test_empty_directory_is_filled(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert set(_contents(tmp_path / "out")) == FILES


def test_foreign_directories_and_files_are_left_alone(checkpoint: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter1.txt").write_text("dear")
    with pytest.raises(OutputError, match=r"holds chapter1\.txt, which no conversion wrote"):
        convert_checkpoint(checkpoint, foreign, PLAIN)
    with pytest.raises(OutputError, match="is a file"):
        convert_checkpoint(checkpoint, foreign / "chapter1.txt", PLAIN)
    with pytest.raises(OutputError, match="cannot write"):
        convert_checkpoint(checkpoint, foreign / "chapter1.txt" / "out", PLAIN)
    assert (foreign / "chapter1.txt").read_text() == "dear"


def test_a_file_put_into_a_conversion_keeps_it_from_being_replaced(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    (out / "notes.txt").write_text("precious")
    with pytest.raises(OutputError, match=r"holds notes\.txt"):
        convert_checkpoint(checkpoint, out, PLAIN)
    assert (out / "notes.txt").read_text() == "precious"


def test_a_folder_of_a_conversion_that_cannot_be_looked_into_keeps_it_from_being_replaced(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    (out / "closed").mkdir()
    (out / "closed" / "notes.txt").write_text("precious")
    deny(monkeypatch, "closed")
    with pytest.raises(OutputError, match=r"holds closed, which no conversion wrote"):
        convert_checkpoint(checkpoint, out, PLAIN)
    assert (out / "closed" / "notes.txt").read_text() == "precious"


def test_the_checkpoint_is_never_replaced_by_its_conversion(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    inner = out / "source"
    shutil.copytree(checkpoint, inner)
    for source, target in ((inner, out), (checkpoint, checkpoint), (inner, inner)):
        with pytest.raises(OutputError, match="holds the checkpoint itself"):
            convert_checkpoint(source, target, PLAIN)
    assert (inner / "model.safetensors").is_file()


def test_the_current_directory_is_not_replaced(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(OutputError, match="is the current directory"):
        convert_checkpoint(checkpoint, Path(), PLAIN)


def test_a_link_to_a_directory_is_followed(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        convert_checkpoint(checkpoint, tmp_path / "link", PLAIN)
    assert (tmp_path / "link").is_symlink()
    assert set(_contents(tmp_path / "real")) == FILES


def test_a_folder_that_cannot_be_locked(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OutputError, match=r"cannot be locked \(No locks available\); give an"):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert not (tmp_path / "out").exists()


def test_conversions_to_one_place_take_turns(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(convert_checkpoint, checkpoint, out, PLAIN) for _ in range(12)]
        assert len({run.result().to_json() for run in runs}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]


def test_what_is_replaced_goes_while_its_maker_still_holds_it(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    descriptor = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        convert_checkpoint(checkpoint, out, PLAIN)
    finally:
        os.close(descriptor)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]


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


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_interrupted_run_leaves_nothing(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    out = tmp_path / "out"
    before = convert_checkpoint(checkpoint, out, PLAIN)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(convert, "cross_kv_graph", fail)
    expected = OutputError if isinstance(error, OSError) else KeyboardInterrupt
    for target in (tmp_path / "new", out):
        with pytest.raises(expected):
            convert_checkpoint(checkpoint, target, PLAIN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]
    assert ModelSpec.load(out) == before


@pytest.mark.parametrize("n_before", [0, 1, 2])
def test_a_signal_between_two_renames_keeps_the_earlier_or_the_new(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_before: int
) -> None:
    out = tmp_path / "folder" / "out"
    before = convert_checkpoint(checkpoint, out, PLAIN)
    real, n_renames = Path.rename, 0

    def renamed(path: Path, to: Path) -> Path:
        nonlocal n_renames
        n_renames += 1
        if n_renames == n_before + 1 and n_before < 2:
            raise SystemExit(143)
        real(path, to)
        if n_renames == n_before == 2:
            raise SystemExit(143)
        return to

    monkeypatch.setattr(Path, "rename", renamed)
    with pytest.raises(SystemExit):
        convert_checkpoint(checkpoint, out, PLAIN)
    monkeypatch.undo()
    # Where the second one failed, a third one undoes the first.
    assert n_renames == (1, 3, 2)[n_before]
    assert ModelSpec.load(out) == before
    assert out in out.parent.iterdir()
    convert_checkpoint(checkpoint, out, PLAIN)
    assert list(out.parent.iterdir()) == [out]


def test_what_a_killed_conversion_left_goes_when_it_is_not_the_last_whole_one(
    checkpoint: Path, tmp_path: Path
) -> None:
    """A kill between two renames leaves the earlier model under a hidden name, and no other."""
    out = tmp_path / "folder" / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    whole, half = out.rename(out.with_name(".out.writing.a")), out.with_name(".out.writing.b")
    half.mkdir()
    (half / "encoder.onnx").touch()
    with pytest.raises(ModelError):
        convert_checkpoint(tmp_path, out, PLAIN)
    (checkpoint / "model.safetensors").rename(tmp_path / "kept")
    with pytest.raises(ModelError):
        convert_checkpoint(checkpoint, out, PLAIN)
    assert whole.is_dir()
    (tmp_path / "kept").rename(checkpoint / "model.safetensors")
    convert_checkpoint(checkpoint, out, PLAIN)
    assert list(out.parent.iterdir()) == [out]
    half.mkdir()
    convert_checkpoint(checkpoint, out, PLAIN)
    assert list(out.parent.iterdir()) == [out]


def test_full_disk_is_one_line_that_names_the_directory(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(onnx_file, "_write_model", full)
    with pytest.raises(OutputError, match=r"cannot write .*/out \(No space left on device\); "):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == ["whisper-toy"]


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


def test_emulated_forms_do_not_stand_in_the_way(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    (out / "hailo").mkdir()
    for suffix in ("onnx", "json"):
        (out / "hailo" / f"encoder-2s-emulated.{suffix}").write_text("made by emulate")
    convert_checkpoint(checkpoint, out, PLAIN)
    assert not (out / "hailo").exists()


def test_everything_is_on_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    real_sync, real_rename = os.fsync, Path.rename

    def fsync(number: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)
        real_sync(number)

    def rename(path: Path, target: Path) -> Path:
        events.append("rename")
        return real_rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    out = tmp_path / "model"
    spec = convert_checkpoint(
        write_checkpoint(tmp_path / "checkpoint"), out, ConvertOptions("none")
    )
    before, after = events[: events.index("rename")], events[events.index("rename") :]
    assert {*spec.files, "model.json"} <= set(before)
    assert after == ["rename", tmp_path.name]
