"""Places of files: the cache, what may be written to, locks, and what the disk has of them."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.files import (
    atomic_file,
    cache_root,
    exclusive_lock,
    expand_user,
    fsync_tree,
    require_writable_file,
    require_writable_folder,
    sha256,
    try_lock,
    umask_mode,
    wrap_os_error,
    write_file,
)


def test_the_cache_is_where_the_user_says_or_where_the_system_has_caches(
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


def test_a_tilde_that_a_shell_left_is_the_home_unless_something_is_called_so(
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
    with pytest.raises(ModelError, match=r"^cannot read .*/b \(No such file or directory\)$"):
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
        with pytest.raises(OutputError, match=rf"write to {bad} \(.*/{place} is no folder\); do"):
            require_writable_folder(Path(bad), "do this")


@pytest.mark.parametrize("lacks", [os.W_OK, os.X_OK])
def test_a_folder_of_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: int
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & lacks)
    with pytest.raises(OutputError, match=r"\(.* may not be written to by this user\); do this$"):
        require_writable_folder(tmp_path / "new", "do this")


def test_the_place_of_a_file_is_no_folder_and_in_one(tmp_path: Path) -> None:
    require_writable_file(tmp_path / "new" / "a.srt")
    with pytest.raises(OutputError, match=r"\(it is a folder\); give another place$"):
        require_writable_file(tmp_path)
    (tmp_path / "a").touch()
    require_writable_file(tmp_path / "a")
    with pytest.raises(OutputError, match=r"/a is no folder\); give another$"):
        require_writable_file(tmp_path / "a" / "b", "give another")


def test_what_the_system_says_is_told_and_what_is_no_such_word_is_not(tmp_path: Path) -> None:
    for error, said in (
        (
            OSError(28, "No space left on device"),
            r"cannot write .*/a \(No space left on device\); x",
        ),
        (OSError("odd"), r"cannot write .*/a \(odd\); x"),
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
    with pytest.raises(OutputError, match=r"file/lock cannot be locked \(.*\); do this$"):
        exclusive_lock(tmp_path / "file" / "lock", "do this").__enter__()

    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    before = open_files()
    with pytest.raises(OutputError, match=r"cannot be locked \(No locks available\)"):
        exclusive_lock(tmp_path / "a", "do this").__enter__()
    assert open_files() == before


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


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
    with pytest.raises(OutputError, match=r"cannot write .*; do this"):
        try_lock(tmp_path / "none" / "lock", "do this").__enter__()


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
