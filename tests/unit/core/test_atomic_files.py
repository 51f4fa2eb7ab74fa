"""Atomic writes, and scratch files: those of killed processes are removed, others stay."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core import atomic_files
from whisper_hailo.core.atomic_files import (
    PREFIX,
    add_space_advice,
    atomic_file,
    exclusive_lock,
    fsync_tree,
    require_writable_folder,
    scratch_directory,
    scratch_file,
    sweep,
    umask_mode,
    wrap_os_error,
    write_file,
)
from whisper_hailo.core.errors import OutputError

WORKER = """
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from whisper_hailo.core.atomic_files import scratch_directory, scratch_file
folder = Path(sys.argv[1])
with scratch_file(folder) as file, scratch_directory(folder, ".out.writing.") as directory:
    file.write_text("half")
    (directory / "half").write_text("half")
    print("working", flush=True)
    sys.stdin.read()
"""


def test_write_file_creates_folders(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.txt"
    write_file(target, "ä\n")
    assert target.read_text(encoding="utf-8") == "ä\n"
    assert stat.S_IMODE(target.stat().st_mode) & 0o444 == 0o444
    assert [path.name for path in target.parent.iterdir()] == ["a.txt"]


def test_write_file_full_disk_leaves_no_scratch(
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


def test_write_file_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match=r"a\.txt"):
        write_file(tmp_path / "file" / "a.txt", "x")


def test_write_file_open_reader_sees_old_content(tmp_path: Path) -> None:
    """The new file replaces the old one when it is complete, never before."""
    path = tmp_path / "a.txt"
    write_file(path, "old and whole")
    with path.open() as file:
        write_file(path, "new")
        assert file.read() == "old and whole"
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_require_writable_folder_checks_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for good in (tmp_path, tmp_path / "new" / "deep", Path("relative/new")):
        require_writable_folder(good, "do this")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for bad in ("file", "file/below", "link", "link/below"):
        obstacle = bad.partition("/")[0]
        with pytest.raises(OutputError, match=f"{bad} .*{obstacle}"):
            require_writable_folder(Path(bad), "do this")


@pytest.mark.parametrize("lacks", [os.W_OK, os.X_OK])
def test_require_writable_folder_of_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: int
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & lacks)
    with pytest.raises(OutputError, match="user"):
        require_writable_folder(tmp_path / "new", "do this")


def test_wrap_os_error_leaves_other_errors(tmp_path: Path) -> None:
    for error, pattern in (
        (OSError(28, "No space left on device"), r"/a \(No space left on device\)"),
        (OSError("odd"), r"/a \(odd\)"),
    ):
        with (
            pytest.raises(OutputError, match=pattern),
            wrap_os_error(tmp_path / "a", "x"),
        ):
            raise error
    with pytest.raises(KeyError), wrap_os_error(tmp_path / "a", "x"):
        raise KeyError


def is_free(path: Path) -> bool:
    """Return whether another process could take a shared lock at once."""
    number = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(number)
    return True


@pytest.mark.parametrize("there", ["nothing", "a file", "a folder"])
def test_exclusive_lock_ends_with_block(tmp_path: Path, there: str) -> None:
    path = tmp_path / "deep" / "er" / "lock"
    if there != "nothing":
        path.parent.mkdir(parents=True)
        path.touch() if there == "a file" else path.mkdir()
    with suppress(KeyError), exclusive_lock(path, "do this"):
        assert not is_free(path)
        raise KeyError
    assert is_free(path)
    assert path.is_dir() == (there == "a folder")


def test_exclusive_lock_impossible_path_is_refused(
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


def test_exclusive_lock_second_caller_gets_false(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    before = open_files()
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


def test_exclusive_lock_file_is_readable_by_others(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with try_lock(tmp_path / "a", "x"), exclusive_lock(tmp_path / "b", "x"):
            modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"]
    finally:
        os.umask(before)
    assert modes == [0o644, 0o644]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the files and folders flushed to disk, in order."""
    names: list[str] = []

    def note(number: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)

    monkeypatch.setattr(os, "fsync", note)
    before = open_files()
    yield names
    assert open_files() == before


def test_fsync_tree_flushes_folder_last(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (tmp_path / "tree" / name).touch()
    fsync_tree(tmp_path / "tree")
    assert sorted(synced) == ["a", "b", "deep", "tree"]
    assert synced[-1] == "tree"


def test_write_file_flushes_before_rename(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a"
    steps = []
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


def test_atomic_file_scratch_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with atomic_file(tmp_path / "new" / "deep" / "a") as scratch:
            assert stat.S_IMODE(scratch.stat().st_mode) == 0o600
            assert not (tmp_path / "new" / "deep" / "a").exists()
            # A name is changed within a file system.
            assert scratch.parent == tmp_path / "new" / "deep"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "deep" / "a").stat().st_mode) == 0o666


def test_umask_mode_keeps_umask() -> None:
    before = os.umask(0o027)
    try:
        assert umask_mode(0o666) == 0o640
        assert umask_mode(0o777) == 0o750
        assert os.umask(0o027) == 0o027  # as it was
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, "free some space, or go elsewhere"),
        (errno.EDQUOT, "free some space, or go elsewhere"),
        (errno.EACCES, "go elsewhere"),
    ],
)
def test_add_space_advice_only_full_disk_adds_it(number: int, expected: str) -> None:
    error = OSError(number, os.strerror(number))
    assert add_space_advice(error, "go elsewhere") == expected


@pytest.fixture(autouse=True)
def no_memory() -> None:
    """Start each test as a new process would."""
    atomic_files.sweep_once.cache_clear()


def working(folder: Path) -> subprocess.Popen[str]:
    """Start a process that holds a scratch file and a scratch directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    return process


def names(folder: Path) -> list[str]:
    return sorted(path.name.rpartition(".")[0] for path in folder.iterdir())


def test_sweep_removes_files_of_killed_program_only(
    tmp_path: Path,
) -> None:
    both = [".out.writing", PREFIX.removesuffix(".")]
    with working(tmp_path) as process:
        with scratch_file(tmp_path):
            assert len(list(tmp_path.iterdir())) == 3
        sweep(tmp_path, ".out.writing.")
        assert names(tmp_path) == both
        process.send_signal(signal.SIGKILL)
    assert names(tmp_path) == both
    atomic_files.sweep_once.cache_clear()
    with scratch_file(tmp_path):
        assert len(list(tmp_path.iterdir())) == 2
    sweep(tmp_path, ".out.writing.")
    assert not list(tmp_path.iterdir())


def test_scratch_renamed_file_stays_others_are_removed(tmp_path: Path) -> None:
    with scratch_file(tmp_path) as file:
        file.write_text("whole")
        file.rename(tmp_path / "done")
    with scratch_directory(tmp_path, ".x.") as directory:
        directory.rename(tmp_path / "directory")
    with (
        pytest.raises(KeyError),
        scratch_file(tmp_path),
        scratch_directory(tmp_path, ".x."),
    ):
        raise KeyError
    assert names(tmp_path) == ["", ""]
    assert (tmp_path / "done").read_text() == "whole"
    assert (tmp_path / "directory").is_dir()


@pytest.mark.parametrize(("module", "step"), [(os, "open"), (fcntl, "flock")])
def test_sweep_before_lock_leaves_new_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    """Before it is locked, a new file looks like one that a killed process left."""
    real = getattr(module, step)
    n_sweeps = 0

    def after_a_sweep(*words: Any, **more: Any) -> Any:
        nonlocal n_sweeps
        if n_sweeps < 3:
            n_sweeps += 1
            monkeypatch.setattr(module, step, real)
            sweep(tmp_path, PREFIX)
            monkeypatch.setattr(module, step, after_a_sweep)
        return real(*words, **more)

    with scratch_directory(tmp_path, PREFIX) as directory:
        monkeypatch.setattr(module, step, after_a_sweep)
        with scratch_directory(tmp_path, PREFIX) as other:
            assert n_sweeps == 3
            assert sorted(tmp_path.iterdir()) == sorted([directory, other])


@pytest.mark.parametrize(
    ("module", "step"),
    [(Path, "touch"), (Path, "mkdir"), (os, "open"), (fcntl, "flock")],
)
def test_scratch_signal_after_any_step_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    real = getattr(module, step)
    n_signals = 0

    def and_a_signal(*words: Any, **more: Any) -> Any:
        nonlocal n_signals
        monkeypatch.setattr(module, step, real)
        real(*words, **more)
        n_signals += 1
        raise SystemExit(143)

    for make in (scratch_file, lambda folder: scratch_directory(folder, ".x.")):
        monkeypatch.setattr(module, step, and_a_signal)
        with suppress(SystemExit), make(tmp_path):
            pass
        monkeypatch.setattr(module, step, real)
        assert not list(tmp_path.iterdir())
    assert n_signals >= 1


def test_scratch_file_same_folder_is_swept_once(tmp_path: Path) -> None:
    with scratch_file(tmp_path):
        pass
    left = tmp_path / f"{PREFIX}left"
    left.touch()
    with scratch_file(tmp_path):
        assert left.exists()


def test_sweep_keeps_links_pipes_and_excluded_names(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / ".x.link").symlink_to(elsewhere)
    (tmp_path / ".x.kept").mkdir()
    os.mkfifo(tmp_path / ".x.pipe")
    sweep(tmp_path, ".x.", keep=lambda path: path.name == ".x.kept")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".x.kept",
        ".x.link",
        "elsewhere",
    ]
    sweep(tmp_path / "nothing", ".x.")


def test_scratch_lock_ends_with_block(tmp_path: Path) -> None:
    before = open_files()
    with (
        scratch_file(tmp_path) as file,
        scratch_directory(tmp_path, ".x.") as directory,
    ):
        for prefix in (PREFIX, ".x."):
            sweep(tmp_path, prefix)
        assert sorted(tmp_path.iterdir()) == sorted([file, directory])
        # The lock ends with the block, so the renamed file counts as left behind.
        file.rename(tmp_path / f"{PREFIX}moved")
    sweep(tmp_path, PREFIX)
    assert not list(tmp_path.iterdir())
    assert open_files() == before


def test_scratch_file_removed_by_sweep_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def swept(number: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        os.unlink(os.readlink(f"/proc/self/fd/{number}"))
        raise BlockingIOError(errno.EAGAIN, "locked")

    atomic_files.sweep_once(tmp_path)
    monkeypatch.setattr(fcntl, "flock", swept)
    with scratch_file(tmp_path) as file:
        assert list(tmp_path.iterdir()) == [file]
    assert not list(tmp_path.iterdir())


def test_scratch_file_without_locks_is_made_and_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.touch()

    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with scratch_file(tmp_path) as file:
        assert file.exists()
    assert list(tmp_path.iterdir()) == [left]  # another process may use it


def test_scratch_modes_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with (
            scratch_file(tmp_path) as file,
            scratch_directory(tmp_path, ".x.") as directory,
        ):
            assert (file.stat().st_mode & 0o777, directory.stat().st_mode & 0o777) == (
                0o600,
                0o700,
            )
            assert (file.read_bytes(), list(directory.iterdir())) == (b"", [])
    finally:
        os.umask(before)


def test_scratch_path_names_are_distinct_16_digits(tmp_path: Path) -> None:
    made = {atomic_files.scratch_path(tmp_path, ".x.").name for _ in range(20)}
    assert len(made) == 20
    assert {len(name) for name in made} == {len(".x.") + 16}
