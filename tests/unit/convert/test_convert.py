"""Conversion of checkpoints: files, interruptions, and checkpoints that are refused."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import math
import os
import shutil
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from tests.fakes.denied_folder import deny
from tests.shared import converted
from tests.unit.convert.conftest import FILES, PLAIN, contents
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.convert import convert
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.graphs import onnx_graph
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, OptionError, OutputError
from whisper_hailo.core.spec import SPEC_VERSION, ModelSource, ModelSpec


@pytest.mark.parametrize("quantize", ["none", "int8", "int4"])
def test_convert_same_input_gives_identical_files(
    checkpoint: Path, tmp_path: Path, quantize: str
) -> None:
    options = ConvertOptions(quantize=quantize, encoder_quantize=quantize)
    spec = convert_checkpoint(checkpoint, tmp_path / "a", options)
    convert_checkpoint(checkpoint, tmp_path / "b", options)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert set(contents(tmp_path / "a")) == FILES
    assert ModelSpec.load(tmp_path / "a") == spec
    for name in FILES - {"model.json", "decoder.onnx.data", "silence.safetensors"}:
        onnx.checker.check_model(tmp_path / "a" / name)


def test_convert_int4_keeps_cross_kv_at_8_bits(
    checkpoint: Path, tmp_path: Path
) -> None:
    """4 would save a hundredth of the whole, in keys and values that all of the text is made of."""
    specs = {
        bits: convert_checkpoint(
            checkpoint, tmp_path / bits, ConvertOptions(bits, half=False)
        )
        for bits in ("int8", "int4")
    }
    hashes = {bits: spec.files["cross_kv.onnx"].sha256 for bits, spec in specs.items()}
    assert hashes["int4"] == hashes["int8"]
    graph = onnx.load(tmp_path / "int4" / "cross_kv.onnx").graph
    assert "MatMulNBits" not in {node.op_type for node in graph.node}


@pytest.mark.parametrize("in_half", [False, True])
def test_convert_quantized_uses_float16_of_this_processor(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_half: bool
) -> None:
    """Unless they are asked for another; what is float32 stays what it is."""
    monkeypatch.setattr(
        "whisper_hailo.convert.options.has_float16_kernels", lambda: in_half
    )
    out = tmp_path / "out"
    assert convert_checkpoint(checkpoint, out, PLAIN).half is False
    assert (
        convert_checkpoint(checkpoint, out, ConvertOptions(quantize="int8")).half
        is in_half
    )
    other = ConvertOptions(quantize="int8", half=not in_half)
    assert convert_checkpoint(checkpoint, out, other).half is not in_half
    assert ModelSpec.load(out).half is not in_half


def test_convert_options_refuse_half_without_int8() -> None:
    with pytest.raises(OptionError, match="--half"):
        ConvertOptions("none", half=True)
    assert ConvertOptions(half=True).in_half
    assert not ConvertOptions(half=False).in_half
    assert ConvertOptions("none", encoder_quantize="int8", half=True).in_half
    with pytest.raises(OptionError, match="--half"):
        ConvertOptions("int8", encoder_quantize="none", half=True)


def test_convert_records_the_source(checkpoint: Path, tmp_path: Path) -> None:
    spec = convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert (spec.name, spec.dims, spec.quantization) == ("toy", TOY, "none")
    assert spec.source.name == "whisper-toy"
    assert set(spec.source.sha256) == {"config.json", "model.safetensors"}
    hub = ModelSource(name="someone/whisper-tiny.en", revision="0" * 40)
    spec = convert_checkpoint(checkpoint, tmp_path / "out", PLAIN, source=hub)
    assert (spec.name, spec.source.revision) == ("tiny.en", "0" * 40)


def test_convert_without_tokenizer_warns(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert "tokenizer" in caplog.text


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
        (
            "generation_config.json",
            {"task_to_id": {"transcribe": "x"}, "is_multilingual": True},
        ),
    ],
)
def test_convert_of_wrong_config_types_is_refused(
    checkpoint: Path, tmp_path: Path, file: str, changes: dict[str, object]
) -> None:
    path = checkpoint / file
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, **changes}))
    with pytest.raises(ModelError) as caught:
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "file", ["config.json", "generation_config.json", "tokenizer.json"]
)
def test_convert_of_deep_json_is_refused(
    checkpoint: Path, tmp_path: Path, file: str
) -> None:
    (checkpoint / file).write_text("[" * 200_000)
    with pytest.raises(ModelError, match=file):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)


def test_convert_drops_suppressed_ids_beyond_vocabulary(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = checkpoint / "generation_config.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, "suppress_tokens": [1, 99_999_999]}))
    spec = convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert spec.tokens.suppress == (1,)
    assert "suppress_tokens" in caplog.text


def test_convert_of_data_broken_meanwhile_is_a_model_error(
    checkpoint: Path, tmp_path: Path
) -> None:
    arrays = {name: array[..., :-1] for name, array in random_arrays().items()}
    write_checkpoint(checkpoint, arrays)
    with pytest.raises(ModelError, match="shape"):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert not (tmp_path / "out").exists()


def test_convert_graphs_over_limit_have_data_files(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_graph, "PROTOBUF_LIMIT_BYTES", 1000)
    spec = convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    data = {"encoder.onnx.data", "cross_kv.onnx.data"}
    assert set(spec.files) == (FILES | data) - {"model.json"}


def test_convert_untied_projection_has_its_own_bytes(tmp_path: Path) -> None:
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


def test_convert_of_odd_width_needs_quantize_none(tmp_path: Path) -> None:
    dims = replace(TOY, d_model=48)
    checkpoint = write_checkpoint(
        tmp_path / "narrow", random_arrays(dims, 96), config=config_of(dims, 96)
    )
    convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    with pytest.raises(ModelError, match="--quantize none"):
        convert_checkpoint(
            checkpoint, tmp_path / "out", ConvertOptions(quantize="int8")
        )


def test_convert_writes_spec_with_version(checkpoint: Path, tmp_path: Path) -> None:
    convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert (
        json.loads((tmp_path / "out" / "model.json").read_text())["version"]
        == SPEC_VERSION
    )


def test_bundled_model_spec_lists_every_file(shared: Path) -> None:
    """With a tokenizer, by which a damaged one is noticed."""
    out = converted(shared, ASSETS / "micro")
    spec = ModelSpec.load(out)
    assert {
        name: (record.bytes, record.sha256) for name, record in spec.files.items()
    } == {
        path.name: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in out.iterdir()
        if path.name != "model.json"
    }
    assert (out / "tokenizer.json").is_file()


def _half_operators(path: Path) -> set[str]:
    """Operators of a graph that read what was cast to float16."""
    nodes = onnx.load(path, load_external_data=False).graph.node
    cast = {
        node.output[0]
        for node in nodes
        if node.op_type == "Cast" and node.attribute[0].i == onnx.TensorProto.FLOAT16
    }
    return {node.op_type for node in nodes if cast & {*node.input}}


@pytest.mark.parametrize("in_half", [False, True])
def test_convert_writes_half_as_described(
    checkpoint: Path, tmp_path: Path, in_half: bool
) -> None:
    """Each of them; that 8-bit products fit everywhere holds in both."""
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, ConvertOptions("int8", "int8", half=in_half))
    spec = ModelSpec.load(out)
    assert (spec.half, spec.int8_safe_without_vnni) == (in_half, True)
    operators = {
        part: _half_operators(out / f"{part}.onnx") for part in ("encoder", "decoder")
    }
    assert {part: bool(names) for part, names in operators.items()} == {
        "encoder": in_half,
        "decoder": False,
    }


def test_run_in_parallel_stops_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    given_up = threading.Event()

    class Pool(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
            future = super().submit(*args, **kwargs)
            future.add_done_callback(
                lambda done: given_up.set() if done.cancelled() else None
            )
            return future

    monkeypatch.setattr(convert, "ThreadPoolExecutor", Pool)

    def fail() -> dict[str, Any]:
        raise ModelError("one line")

    def other() -> dict[str, Any]:
        """Ends when it is known that nothing is to follow; the bound is for a fault."""
        begun.append("part")
        given_up.wait(10)
        return {}

    def last() -> dict[str, Any]:
        begun.append("last")
        return {}

    with pytest.raises(ModelError, match="one line"):
        convert.run_in_parallel([fail, *[other] * 9, last])
    assert "last" not in begun
    assert len(begun) <= 2


def test_convert_replaces_an_earlier_conversion_whole(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, ConvertOptions(quantize="int8"))
    convert_checkpoint(checkpoint, out, PLAIN)
    assert set(contents(out)) == FILES
    assert ModelSpec.load(out).quantization == "none"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]


def test_convert_fills_an_empty_directory(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert set(contents(tmp_path / "out")) == FILES


def test_convert_leaves_foreign_directories_alone(
    checkpoint: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter1.txt").write_text("dear")
    with pytest.raises(OutputError, match=r"chapter1\.txt"):
        convert_checkpoint(checkpoint, foreign, PLAIN)
    with pytest.raises(OutputError, match="chapter1"):
        convert_checkpoint(checkpoint, foreign / "chapter1.txt", PLAIN)
    with pytest.raises(OutputError, match="chapter1"):
        convert_checkpoint(checkpoint, foreign / "chapter1.txt" / "out", PLAIN)
    assert (foreign / "chapter1.txt").read_text() == "dear"


def test_convert_keeps_a_conversion_with_foreign_file(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    (out / "notes.txt").write_text("precious")
    with pytest.raises(OutputError, match=r"notes\.txt"):
        convert_checkpoint(checkpoint, out, PLAIN)
    assert (out / "notes.txt").read_text() == "precious"


def test_convert_keeps_a_folder_with_unreadable_spec(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    (out / "closed").mkdir()
    (out / "closed" / "notes.txt").write_text("precious")
    deny(monkeypatch, "closed")
    with pytest.raises(OutputError, match="closed"):
        convert_checkpoint(checkpoint, out, PLAIN)
    assert (out / "closed" / "notes.txt").read_text() == "precious"


def test_convert_never_replaces_the_checkpoint(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    inner = out / "source"
    shutil.copytree(checkpoint, inner)
    for source, target in ((inner, out), (checkpoint, checkpoint), (inner, inner)):
        with pytest.raises(OutputError, match="checkpoint"):
            convert_checkpoint(source, target, PLAIN)
    assert (inner / "model.safetensors").is_file()


def test_convert_never_replaces_the_current_directory(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(OutputError, match="current"):
        convert_checkpoint(checkpoint, Path(), PLAIN)


def test_convert_follows_a_link_to_a_directory(
    checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        convert_checkpoint(checkpoint, tmp_path / "link", PLAIN)
    assert (tmp_path / "link").is_symlink()
    assert set(contents(tmp_path / "real")) == FILES


def test_convert_into_unlockable_folder_is_refused(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OutputError, match="lock"):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert not (tmp_path / "out").exists()


def test_convert_to_one_place_takes_turns(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(convert_checkpoint, checkpoint, out, PLAIN) for _ in range(12)
        ]
        assert len({run.result().to_json() for run in runs}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]


def test_convert_removes_a_replaced_model_that_is_locked(
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
    "error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()]
)
def test_convert_interrupted_leaves_nothing(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
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
def test_convert_signal_between_renames_keeps_one_model(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_before: int
) -> None:
    out = tmp_path / "folder" / "out"
    before = convert_checkpoint(checkpoint, out, PLAIN)
    real = Path.rename
    n_renames = 0

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


def test_convert_sweeps_leftovers_but_the_only_copy(
    checkpoint: Path, tmp_path: Path
) -> None:
    """A kill between two renames leaves the earlier model under a hidden name, and no other."""
    out = tmp_path / "folder" / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    whole = out.rename(out.with_name(".out.writing.a"))
    half = out.with_name(".out.writing.b")
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


def test_convert_on_full_disk_names_the_directory(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(onnx_graph, "write_model", full)
    with pytest.raises(OutputError, match="No space"):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == ["whisper-toy"]


def test_convert_replaces_models_with_emulated_forms(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    (out / "hailo").mkdir()
    for suffix in ("onnx", "json"):
        (out / "hailo" / f"encoder-2s-emulated.{suffix}").write_text("made by emulate")
    convert_checkpoint(checkpoint, out, PLAIN)
    assert not (out / "hailo").exists()


def test_convert_syncs_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    real_sync = os.fsync
    real_rename = Path.rename

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
    before = events[: events.index("rename")]
    after = events[events.index("rename") :]
    assert {*spec.files, "model.json"} <= set(before)
    assert after == ["rename", tmp_path.name]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Return a function that sets an event to happen while the graphs are made."""
    real = convert.read_special_tokens

    def set_up(event: Callable[[], None]) -> None:
        def read(*args: object) -> object:
            event()
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(convert, "read_special_tokens", read)

    return set_up


def test_convert_makes_parent_folders(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "many" / "more" / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    assert set(contents(out)) == FILES


@pytest.mark.parametrize("mask", [0o022, 0o007, 0o077])
def test_convert_output_has_the_umasks_permissions(
    checkpoint: Path, tmp_path: Path, mask: int
) -> None:
    before = os.umask(mask)
    try:
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    finally:
        os.umask(before)
    paths = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    for path in paths:
        usual = 0o777 if path.is_dir() else 0o666
        assert stat.S_IMODE(path.stat().st_mode) == usual & ~mask, path


def test_convert_sweeps_half_models_first(
    checkpoint: Path, tmp_path: Path, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    """Leftovers may fill the disk; a kill between two renames leaves a whole one."""
    folder = tmp_path / "folder"
    convert_checkpoint(checkpoint, folder / "out", PLAIN)
    whole = (folder / "out").rename(folder / ".out.writing.a")
    half = folder / ".out.writing.b"
    half.mkdir()
    (half / "encoder.onnx").touch()

    def fail() -> None:
        assert not half.exists()
        raise KeyboardInterrupt

    meanwhile(fail)
    with pytest.raises(KeyboardInterrupt):
        convert_checkpoint(checkpoint, folder / "out", PLAIN)
    assert set(contents(whole)) == FILES
    assert list(folder.iterdir()) == [whole]


def test_convert_keeps_a_file_that_appears_meanwhile(
    checkpoint: Path, tmp_path: Path, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    out = tmp_path / "out"

    def write() -> None:
        out.mkdir()
        (out / "notes.txt").write_text("precious")

    meanwhile(write)
    with pytest.raises(OutputError, match=r"notes\.txt"):
        convert_checkpoint(checkpoint, out, PLAIN)
    assert contents(out) == {"notes.txt": b"precious"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]


@pytest.mark.parametrize("error", [SystemExit(143), KeyboardInterrupt()])
def test_convert_signal_before_the_rename_ends_the_run(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    real = Path.rename
    errors = [error]

    def rename(path: Path, to: Path) -> Path:
        if errors:
            raise errors.pop()
        return real(path, to)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(type(error)):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == ["whisper-toy"]


@pytest.mark.parametrize("place", ["long", "long/new"])
def test_convert_refuses_too_long_names_before_work(
    checkpoint: Path,
    tmp_path: Path,
    meanwhile: Callable[[Callable[[], None]], None],
    place: str,
) -> None:
    meanwhile(lambda: pytest.fail("the conversion has begun"))
    with pytest.raises(OutputError, match=os.strerror(errno.ENAMETOOLONG)):
        convert_checkpoint(
            checkpoint, tmp_path / place.replace("long", "x" * 300), PLAIN
        )
    assert [path.name for path in tmp_path.iterdir()] == ["whisper-toy"]
