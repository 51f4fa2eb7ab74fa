"""Files that a model names lie in its directory."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.unit.denied import deny
from tests.unit.live.outputs.test_files import EVENTS
from tests.unit.sounds import tone, write
from tests.unit.text.test_outputs import transcript
from whisper_hailo.core.atomic_files import (
    atomic_file,
    exclusive_lock,
    fsync_tree,
    require_writable_folder,
    umask_mode,
    wrap_os_error,
    write_file,
)
from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.overwrite import file_id, refuse_foreign
from whisper_hailo.core.paths import cache_root, expand_user, list_files, resolve_within
from whisper_hailo.core.read_files import read_regular_file, read_text, sha256
from whisper_hailo.live.outputs.files import CaptionFile, EventFile
from whisper_hailo.text.outputs import FORMATS, render


@pytest.mark.parametrize(
    "name",
    ["a", "hailo/a.onnx", "not/yet/there", "./a", ".../a", "x" * 255, "\udcff", "a/" * 511 + "aa"],
)
def test_names_in_the_directory_are_its_files(tmp_path: Path, name: str) -> None:
    assert resolve_within(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/../../b", "/etc/a", "a\\b", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="outside"):
        resolve_within(tmp_path, name)


@pytest.mark.parametrize("name", ["x" * 256, "a/" + "é" * 128, "a/" * 512 + "a"])
def test_names_that_no_file_can_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="longer"):
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
        with pytest.raises(ModelError, match="outside"):
            resolve_within(model, name)
    (tmp_path / "link").symlink_to(model)  # the directory itself may be named by a link
    assert resolve_within(tmp_path / "link", "own").name == "own"


def test_files_of_a_known_kind_are_read_to_its_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_regular_file(path, 1 << 20)) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ValueError, match="1 MiB"):
        read_regular_file(path, 1 << 20)


def test_text_is_utf_8_of_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("\ufeffgrün".encode())
    assert read_text(path) == "grün"
    path.write_bytes(b"gr\xfcn")
    with pytest.raises(ValueError, match="utf-8"):
        read_text(path)
    with pytest.raises(ValueError, match="plain file"):
        read_text(Path("/dev/zero"))
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "b")


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "notes"
    write_file(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space"):
        write_file(path, b"new")
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

    monkeypatch.setattr("whisper_hailo.core.atomic_files.os.fsync", full)
    with pytest.raises(OutputError, match="No space"):
        write_file(target, "new")
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_an_unwritable_place_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match=r"a\.txt"):
        write_file(tmp_path / "file" / "a.txt", "x")


def test_reader_of_a_file_being_replaced_reads_all_of_the_old(tmp_path: Path) -> None:
    """The new one takes its place when it is whole: at no moment is there half of one."""
    path = tmp_path / "a.txt"
    write_file(path, "old and whole")
    with path.open() as file:
        write_file(path, "new")
        assert file.read() == "old and whole"
    assert path.read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_files_in_order_and_folders_that_cannot_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "a/z", "a/.hidden", "closed/secret", "a/closed/secret"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").symlink_to("a")
    deny(monkeypatch, "closed")
    told: list[tuple[Path, str]] = []
    found = list_files(tmp_path, lambda path, why: told.append((path, why)))
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a/.hidden", "a/z", "b", "link"]
    assert sorted(told) == [
        (tmp_path / "a" / "closed", "Permission denied"),
        (tmp_path / "closed", "Permission denied"),
    ]


def test_what_the_system_has_no_word_for_is_told_as_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(folder: Path, onerror: Callable[[OSError], None]) -> list[object]:
        odd = OSError("odd")
        odd.filename = str(folder)
        onerror(odd)
        return []

    monkeypatch.setattr(os, "walk", walk)
    told: list[tuple[Path, str]] = []
    assert list_files(tmp_path, lambda path, why: told.append((path, why))) == []
    assert told == [(tmp_path, f"[Errno None] None: {str(tmp_path)!r}")]


def test_cache_is_where_user_says_or_where_system_has_caches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("WHISPER_HAILO_CACHE", "")
    assert cache_root() == Path("/home/somebody/.cache/whisper-hailo")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_root() == Path("/caches/whisper-hailo")
    monkeypatch.setenv("WHISPER_HAILO_CACHE", "/own")
    assert cache_root() == Path("/own")


def test_tilde_left_by_a_shell_is_home_unless_a_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert expand_user("~/x") == "/home/somebody/x"
    assert expand_user("a/~") == "a/~"
    (tmp_path / "~").symlink_to("nowhere")
    assert expand_user("~") == "~"


def test_a_hash_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256(tmp_path / "a") == expected
    with pytest.raises(ModelError, match="/b "):
        sha256(tmp_path / "b")


def test_a_folder_to_be_made_is_looked_for_where_it_will_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for good in (tmp_path, tmp_path / "new" / "deep", Path("relative/new")):
        require_writable_folder(good, "do this")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for bad in ("file", "file/below", "link", "link/below"):
        place = bad.partition("/")[0]
        with pytest.raises(OutputError, match=f"{bad} .*{place}"):
            require_writable_folder(Path(bad), "do this")


@pytest.mark.parametrize("lacks", [os.W_OK, os.X_OK])
def test_a_folder_of_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: int
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & lacks)
    with pytest.raises(OutputError, match="user"):
        require_writable_folder(tmp_path / "new", "do this")


def test_errors_of_the_system_are_told_and_other_numbers_not(tmp_path: Path) -> None:
    for error, said in (
        (OSError(28, "No space left on device"), r"/a \(No space left on device\)"),
        (OSError("odd"), r"/a \(odd\)"),
    ):
        with pytest.raises(OutputError, match=said), wrap_os_error(tmp_path / "a", "x"):
            raise error
    with pytest.raises(KeyError), wrap_os_error(tmp_path / "a", "x"):
        raise KeyError


def is_free(path: Path) -> bool:
    """Whether another could lock it at once, even if only to share it."""
    number = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(number)
    return True


@pytest.mark.parametrize("there", ["nothing", "a file", "a folder"])
def test_a_lock_is_held_as_long_as_the_block(tmp_path: Path, there: str) -> None:
    path = tmp_path / "deep" / "er" / "lock"
    if there != "nothing":
        path.parent.mkdir(parents=True)
        path.touch() if there == "a file" else path.mkdir()
    with suppress(KeyError), exclusive_lock(path, "do this"):
        assert not is_free(path)
        raise KeyError
    assert is_free(path)
    assert path.is_dir() == (there == "a folder")


def test_a_place_that_cannot_be_locked_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file/lock"):
        exclusive_lock(tmp_path / "file" / "lock", "do this").__enter__()

    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    before = open_files()
    with pytest.raises(OutputError, match="No locks"):
        exclusive_lock(tmp_path / "a", "do this").__enter__()
    assert open_files() == before


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


try_lock = partial(exclusive_lock, blocking=False)


def test_only_one_is_the_sole_one_and_the_next_after_it(tmp_path: Path) -> None:
    path, before = tmp_path / "lock", open_files()
    with try_lock(path, "x") as first:
        assert first
        assert not is_free(path)
        with try_lock(path, "x") as second:
            assert not second
        with try_lock(path, "x") as third:  # nobody gave the lock back
            assert not third
        with try_lock(tmp_path / "other", "x") as other:
            assert other
    assert is_free(path)
    with suppress(KeyError), try_lock(path, "x") as again:
        assert again
        raise KeyError
    assert open_files() == before
    with pytest.raises(OutputError, match="do this"):
        try_lock(path / "lock", "do this").__enter__()


def test_a_lock_of_others_can_be_taken_by_whoever_may_read(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with try_lock(tmp_path / "a", "x"), exclusive_lock(tmp_path / "b", "x"):
            modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"]
    finally:
        os.umask(before)
    assert modes == [0o644, 0o644]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of what the disk was told to hold, in order."""
    names: list[str] = []

    def note(number: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)

    monkeypatch.setattr(os, "fsync", note)
    before = open_files()
    yield names
    assert open_files() == before


def test_a_tree_is_on_the_disk_with_its_names(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (tmp_path / "tree" / name).touch()
    fsync_tree(tmp_path / "tree")
    assert sorted(synced) == ["a", "b", "deep", "tree"]
    assert synced[-1] == "tree"


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, steps = tmp_path / "a", []
    replace = Path.replace

    def noted(path: Path, other: Path) -> Path:
        steps.append(path.name in synced)
        assert path.read_bytes() == "ä".encode()
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        return replace(path, other)

    monkeypatch.setattr(Path, "replace", noted)
    before = os.umask(0o027)
    try:
        write_file(target, "ä")
        assert target.read_bytes() == "ä".encode()
        write_file(target, "ä".encode())
    finally:
        os.umask(before)
    assert steps == [True, True]


def test_what_is_being_written_is_nobody_else_s_to_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with atomic_file(tmp_path / "new" / "deep" / "a") as scratch:
            assert stat.S_IMODE(scratch.stat().st_mode) == 0o600
            assert not (tmp_path / "new" / "deep" / "a").exists()
            assert (
                scratch.parent == tmp_path / "new" / "deep"
            )  # a name is changed within a file system
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "deep" / "a").stat().st_mode) == 0o666


def test_permissions_are_those_that_the_user_leaves() -> None:
    before = os.umask(0o027)
    try:
        assert umask_mode(0o666) == 0o640
        assert umask_mode(0o777) == 0o750
        assert os.umask(0o027) == 0o027  # as it was
    finally:
        os.umask(before)


CUE = "1\r\n00:00:00,000 --> 00:00:01,250\r\nsomebody else's\r\n"


@pytest.mark.parametrize("fmt", FORMATS)
def test_results_of_before_are_replaced(tmp_path: Path, fmt: str) -> None:
    (tmp_path / "a").write_text(render(transcript(), fmt), encoding="utf-8")
    refuse_foreign(tmp_path / "a", fmt)


@pytest.mark.parametrize("name", ["a.srt", "a.vtt", "a.txt", "a.jsonl"])
def test_captions_of_before_are_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    kind = EventFile if name == "a.jsonl" else CaptionFile
    for _ in range(2):
        with kind(path) as file:
            for event in EVENTS:
                file.put(event)
    refuse_foreign(path, path.suffix[1:])


@pytest.mark.parametrize(
    ("fmt", "content"),
    [
        ("txt", "Übersetzung\tvon A nach B\r\n\x1b[1mfett\x1b[0m".encode()),
        ("txt", "\ufeffÜber".encode()),
        ("srt", CUE.encode()),
        ("srt", f"\ufeff{CUE}".encode()),
        ("json", b'{"text": " OpenAI Whisper\'s own", "segments": []}'),
    ],
)
def test_files_of_the_format_are_replaced_whoever_wrote_them(
    tmp_path: Path, fmt: str, content: bytes
) -> None:
    (tmp_path / "a").write_bytes(content)
    refuse_foreign(tmp_path / "a", fmt)


@pytest.mark.parametrize("fmt", [*FORMATS, "jsonl", "svg"])
def test_empty_and_missing_files_and_devices_are_replaced(tmp_path: Path, fmt: str) -> None:
    (tmp_path / "empty").touch()
    for path in ("empty", "missing", "empty/below"):
        refuse_foreign(tmp_path / path, fmt)
    refuse_foreign(Path("/dev/null"), fmt)


@pytest.mark.parametrize("path", [".", "/", ".."])
def test_folders_are_not_replaced(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="folder"):
        refuse_foreign(Path(path), "jsonl")


@pytest.mark.parametrize("fmt", [*FORMATS, "jsonl", "svg"])
@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_recordings_are_not_replaced(tmp_path: Path, fmt: str, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", tone(16_000))
    before = path.read_bytes()
    with pytest.raises(OutputError, match=f"{fmt} file"):
        refuse_foreign(path, fmt)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("fmt", "content"),
    [
        ("srt", b"years of work"),
        ("vtt", b"WEBVTTX"),
        ("tsv", b"name\tvalue\n"),
        ("json", b'{"name": "settings"}'),
        ("json", b"[]"),
        ("jsonl", b'{"audio": "a.wav", "text": "a manifest"}\n'),
        ("svg", b"<html>"),
        ("txt", b"text\0and more"),
    ],
)
def test_what_only_has_the_name_is_not_replaced(tmp_path: Path, fmt: str, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(OutputError, match="another place"):
        refuse_foreign(tmp_path / "a", fmt)


def test_what_cannot_be_looked_into_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.txt").write_text("text")
    monkeypatch.setattr(Path, "open", denied)  # the superuser may read what nobody may
    with pytest.raises(OutputError, match="Permission denied"):
        refuse_foreign(tmp_path / "a.txt", "txt")


def test_a_file_is_the_same_by_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    (tmp_path / "soft").symlink_to("a")
    os.link(path, tmp_path / "hard")
    (tmp_path / "other").touch()
    with path.open("rb") as opened:
        assert len({file_id(one) for one in (path, tmp_path / "soft", tmp_path / "hard")}) == 1
        assert file_id(opened) == file_id(str(path)) != file_id(tmp_path / "other")
    assert file_id(tmp_path / "missing") is None
    assert file_id("x" * 300) is file_id("\0") is file_id(Path("/dev/null")) is None


def test_files_of_two_disks_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for disk in (1, 2):
        status = os.stat_result((stat.S_IFREG, 5, disk, 1, 0, 0, 0, 0, 0, 0))
        monkeypatch.setattr(os, "stat", lambda _, status=status: status)
        assert file_id("a") == (disk, 5)


def test_files_of_other_kinds_begin_as_their_writer_says(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"<page>")
    refuse_foreign(tmp_path / "a", "page", rb"<page\b")
    with pytest.raises(OutputError, match="page file"):
        refuse_foreign(tmp_path / "a", "page", rb"<pages\b")
