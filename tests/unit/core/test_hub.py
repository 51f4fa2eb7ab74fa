"""What is asked of the model hub, and what becomes of its errors; without one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whisper_hailo.core import hub, hub_program
from whisper_hailo.core.errors import HubError


def test_files_of_a_model_are_asked_for_and_watched_in_the_hub_s_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def fetch(module: str, words: list[str], place: Path) -> str:
        asked.extend([module, words, place])
        return "/cache/snapshots/abc"

    monkeypatch.setattr(hub, "fetch_apart", fetch)
    constants = SimpleNamespace(HF_HUB_CACHE="/cache")
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", constants)  # type: ignore[arg-type]
    found = hub.fetch_files("org/a/b", ["*.json", "*.bin"], "do this", "v1")
    assert found == Path("/cache/snapshots/abc")
    assert asked == [
        "whisper_hailo.core.hub_program",
        ["org/a/b", "v1", "do this", "*.json", "*.bin"],
        Path("/cache/models--org--a--b/blobs"),
    ]
    hub.fetch_files("org/a", [], "do this")
    assert asked[4] == ["org/a", "", "do this"]


def client(monkeypatch: pytest.MonkeyPatch, download: Callable[..., Any]) -> SimpleNamespace:
    """The hub's own, which downloads in this way; its constants."""
    constants = SimpleNamespace(DOWNLOAD_CHUNK_SIZE=10 << 20)
    made = SimpleNamespace(constants=constants, snapshot_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)  # type: ignore[arg-type]
    return constants


@pytest.mark.parametrize(("revision", "asked"), [("v1", "v1"), ("", None)])
def test_the_hub_s_client_is_asked_for_the_files_and_the_revision(
    revision: str, asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def download(*words: Any, **named: Any) -> Path:
        calls.append((words, named, constants.DOWNLOAD_CHUNK_SIZE))
        return Path("/snapshot")

    constants = client(monkeypatch, download)
    assert hub_program.fetch("org/a", revision, "do this", "a", "b") == "/snapshot"
    # Pieces of 64 KiB: whoever waits for as much in a minute sees each.
    assert calls == [(("org/a",), {"revision": asked, "allow_patterns": ["a", "b"]}, 65536)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("two\n  lines"), "two lines"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("x" * 160), "x" * 160),
        (ValueError("x" * 161), "x" * 157 + "..."),
    ],
)
def test_why_it_cannot_be_fetched_is_one_short_line(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("outer") from error

    client(monkeypatch, fail)
    with pytest.raises(HubError) as told:
        hub_program.fetch("org/a", "", "or do this")
    assert str(told.value) == (
        f"cannot fetch org/a from the model hub ({reason}); check the name and the network, "
        "or do this"
    )


class EndedError(Exception):
    """In the place of the end of the process."""


def test_a_process_that_is_ended_leaves_only_halves_that_another_goes_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a.0123abcd.incomplete", "b.0123abcd.incomplete", "c.incomplete", "d.bin"]
    files = [tmp_path / name for name in names]
    descriptors = tmp_path / "fd"
    descriptors.mkdir()
    for number, file in enumerate(files):
        file.touch()
        (descriptors / str(number)).symlink_to(file)
    files[0].unlink()  # it took its place meanwhile
    (descriptors / "none").touch()  # no link: closed meanwhile

    def end(code: int) -> None:
        assert code == 1
        raise EndedError

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(hub_program, "Path", lambda _: SimpleNamespace(
        iterdir=lambda: iter(sorted(descriptors.iterdir()))
    ))  # fmt: skip
    with pytest.raises(EndedError):
        hub_program._tidy_up(15, None)
    assert [file.exists() for file in files] == [False, False, True, True]


def test_error_of_another_kind_is_no_failed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is not answered with another download."""

    def download(*_: object, **__: object) -> Path:
        raise OSError("No space left on device")

    client(monkeypatch, download)
    with pytest.raises(HubError) as raised:
        hub_program.fetch("org/a", "v1", "do this")
    assert type(raised.value) is HubError
