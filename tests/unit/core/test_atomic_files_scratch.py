"""Scratch files and directories: those of killed processes are removed, those in use stay."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core import atomic_files
from whisper_hailo.core.atomic_files import (
    PREFIX,
    scratch_directory,
    scratch_file,
    sweep,
)

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


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


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
