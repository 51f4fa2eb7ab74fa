"""Where a conversion is written: what it replaces, what it leaves alone, what breaks it off."""

import errno
import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.checkpoints import write_checkpoint
from tests.unit.convert.conftest import FILES, PLAIN, contents
from tests.unit.denied import deny
from whisper_hailo.convert import convert
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.graphs import onnx_file
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.spec import ModelSpec


def test_earlier_conversion_is_replaced_whole(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert_checkpoint(checkpoint, out, ConvertOptions(quantize="int8"))
    convert_checkpoint(checkpoint, out, PLAIN)
    assert set(contents(out)) == FILES
    assert ModelSpec.load(out).quantization == "none"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]


def test_empty_directory_is_filled(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert set(contents(tmp_path / "out")) == FILES


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
    assert set(contents(tmp_path / "real")) == FILES


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
