"""Fetching in a process that is left when too little comes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dripping import dripping
from whisper_hailo.core import fetching
from whisper_hailo.core.errors import HubError, ModelError
from whisper_hailo.core.fetching import LEAST_BYTES, PATIENCE_S, fetch_apart

DOWNLOAD = "whisper_hailo.backends.hailo.download"
PROGRAM = "tests.unit.core.apart_programs"
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this test are found by the processes that it starts."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


class Clock:
    """A process that a look at takes half of the patience, while its file grows."""

    def __init__(self, file: Path, growth: int, looks: int) -> None:
        self.now, self._file, self._growth, self._looks = 500.0, file, growth, looks

    def wait(self, _timeout_s: float) -> int:
        if self._looks == 0:
            return 0
        self._looks -= 1
        self.now += PATIENCE_S / 2
        with self._file.open("ab") as file:
            file.truncate(self._file.stat().st_size + self._growth)
        raise subprocess.TimeoutExpired("fetching", 0.0)

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(("growth", "enough"), [(0, False), (1000, False), (LEAST_BYTES, True)])
def test_a_server_is_waited_for_as_long_as_enough_comes(
    growth: int, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blob").touch()
    process: Any = Clock(tmp_path / "blob", growth, looks=20)
    monkeypatch.setattr(fetching.time, "monotonic", process.monotonic)
    if enough:
        fetching.wait_for_download(process, tmp_path, "tiny")
        assert process.now == 500.0 + 10 * PATIENCE_S
        return
    with pytest.raises(
        HubError, match=r"fetch tiny: the server sent less than 64 KiB in 60 s; try"
    ):
        fetching.wait_for_download(process, tmp_path, "tiny")
    assert process.now == 500.0 + 1.5 * PATIENCE_S


def test_what_begins_anew_has_its_time_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that shrinks is a new one, which has to grow from there; a little is not enough."""
    (tmp_path / "blob").write_bytes(bytes(1000))
    sizes = [1000, 500, 700, 900]
    process: Any = Clock(tmp_path / "blob", 0, looks=9)
    monkeypatch.setattr(fetching, "_size", lambda _: sizes.pop(0) if len(sizes) > 1 else sizes[0])
    monkeypatch.setattr(fetching.time, "monotonic", process.monotonic)
    with pytest.raises(HubError):
        fetching.wait_for_download(process, tmp_path, "tiny")
    # Looks at 530 s, when it is new, 560, 590, and 620, when there was too little for 90 s.
    assert process.now == 620.0


def test_what_is_moved_while_it_is_looked_at_hides_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10))

    class Moved:
        """A folder that is not there any more; what was found in it is."""

        def stat(self) -> None:
            raise FileNotFoundError

        def rglob(self, _: str) -> list[Any]:
            return [Moved(), tmp_path / "a", Moved(), tmp_path / "a"]

    assert fetching._size(Moved()) == 20  # type: ignore[arg-type]
    assert fetching._size(tmp_path / "a") == 10
    assert fetching._size(tmp_path) == 10 + tmp_path.stat().st_size


@pytest.mark.parametrize("where", ["headers", "body"])
def test_a_server_that_drips_is_left(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "PATIENCE_S", 1.0)
    target = tmp_path / "file"
    with dripping(where) as address, pytest.raises(HubError, match="sent less than 64 KiB in 1 s"):
        fetch_apart(DOWNLOAD, [address, str(target)], target)
    assert not _children(os.getpid())


@pytest.mark.slow
def test_fetching_ends_with_the_one_who_asked_for_it(tmp_path: Path) -> None:
    target = tmp_path / "file"
    code = "import sys, pathlib; from whisper_hailo.core.fetching import fetch_apart; "
    code += "fetch_apart(sys.argv[1], sys.argv[2:], pathlib.Path(sys.argv[3]))"
    with dripping("body") as address:
        command = [sys.executable, "-c", code, DOWNLOAD, address, str(target)]
        with subprocess.Popen(command) as asker:
            _until(target.exists)
            (fetching,) = _children(asker.pid)
            asker.kill()
        _until(lambda: not Path(f"/proc/{fetching}").exists())


def test_what_the_work_raises_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no_such has no end"):
        fetch_apart(PROGRAM, ["no_such"], tmp_path)


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="fetching die ended with code -9; try again"):
        fetch_apart(PROGRAM, ["die"], tmp_path)


def _children(of: int) -> list[str]:
    return Path(f"/proc/{of}/task/{of}/children").read_text().split()


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300  # ends what hangs, and decides nothing
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)
