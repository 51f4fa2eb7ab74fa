"""Files that a model names lie in its directory."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.files import (
    read_regular_file,
    read_text,
    replace_file,
    resolve_within,
    write_file,
)


@pytest.mark.parametrize(
    "name",
    ["a", "hailo/a.onnx", "not/yet/there", "./a", ".../a", "x" * 255, "\udcff", "a/" * 511 + "aa"],
)
def test_names_in_the_directory_are_its_files(tmp_path: Path, name: str) -> None:
    assert resolve_within(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/../../b", "/etc/a", "a\\b", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="outside the model directory"):
        resolve_within(tmp_path, name)


@pytest.mark.parametrize("name", ["x" * 256, "a/" + "é" * 128, "a/" * 512 + "a"])
def test_names_that_no_file_can_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="longer name than the system takes"):
        resolve_within(tmp_path, name)


def test_links_may_lead_to_files_of_the_directory_only(tmp_path: Path) -> None:
    model, elsewhere = tmp_path / "model", tmp_path / "model-elsewhere"
    (model / "hailo").mkdir(parents=True)
    elsewhere.mkdir()
    (model / "own").symlink_to("hailo")
    assert resolve_within(model, "own/a.onnx") == model / "own/a.onnx"
    (model / "file").symlink_to(elsewhere / "a.onnx")
    (model / "folder").symlink_to(elsewhere)
    for name in ("file", "folder/a.onnx", "folder/new/a.onnx"):
        with pytest.raises(ModelError, match=r"leads to .*elsewhere.*, outside the model"):
            resolve_within(model, name)
    (tmp_path / "link").symlink_to(model)  # the directory itself may be named by a link
    assert resolve_within(tmp_path / "link", "own").name == "own"


def test_files_of_a_known_kind_are_read_to_its_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_regular_file(path, 1 << 20)) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ValueError, match="it has more than 1 MiB, more than any of its kind"):
        read_regular_file(path, 1 << 20)


def test_text_is_utf_8_of_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("\ufeffgrün".encode())
    assert read_text(path) == "grün"
    path.write_bytes(b"gr\xfcn")
    with pytest.raises(ValueError, match="utf-8"):
        read_text(path)
    with pytest.raises(ValueError, match="it is no plain file"):
        read_text(Path("/dev/zero"))
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "b")


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "notes"
    replace_file(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in path.parent.iterdir()] == ["notes"]


def test_a_new_file_gets_its_folders_and_ordinary_permissions(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.txt"
    write_file(target, "ä\n")
    assert target.read_text(encoding="utf-8") == "ä\n"
    assert stat.S_IMODE(target.stat().st_mode) & 0o444 == 0o444
    assert [path.name for path in target.parent.iterdir()] == ["a.txt"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old", encoding="utf-8")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("whisper_hailo.core.files.os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_file(target, "new")
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_an_unwritable_place_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match=r"cannot write .*a\.txt"):
        write_file(tmp_path / "file" / "a.txt", "x")


def test_who_reads_a_file_while_it_is_written_anew_reads_all_of_the_old_one(tmp_path: Path) -> None:
    """The new one takes its place when it is whole: at no moment is there half of one."""
    path = tmp_path / "a.txt"
    write_file(path, "old and whole")
    with path.open() as file:
        write_file(path, "new")
        assert file.read() == "old and whole"
    assert path.read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]
