from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tests.fakes.denied_folder import deny
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.paths import (
    cache_root,
    candidate_names,
    expand_user,
    list_files,
    resolve_within,
)


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "hailo/a.onnx",
        "not/yet/there",
        "./a",
        ".../a",
        "x" * 255,
        "\udcff",
        "a/" * 511 + "aa",
    ],
)
def test_resolve_within_plain_name_returns_path(tmp_path: Path, name: str) -> None:
    assert resolve_within(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "a/../../b", "/etc/a", "a\\b", "a\0b"]
)
def test_resolve_within_escaping_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="outside"):
        resolve_within(tmp_path, name)


@pytest.mark.parametrize("name", ["x" * 256, "a/" + "é" * 128, "a/" * 512 + "a"])
def test_resolve_within_overlong_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="longer"):
        resolve_within(tmp_path, name)


def test_resolve_within_link_outside_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "model"
    elsewhere = tmp_path / "model-elsewhere"
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


def test_list_files_reports_unreadable_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "a/z", "a/.hidden", "closed/secret", "a/closed/secret"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").symlink_to("a")
    deny(monkeypatch, "closed")
    errors: list[tuple[Path, str]] = []
    files = list_files(tmp_path, lambda path, reason: errors.append((path, reason)))
    assert [str(path.relative_to(tmp_path)) for path in files] == [
        "a/.hidden",
        "a/z",
        "b",
        "link",
    ]
    assert sorted(errors) == [
        (tmp_path / "a" / "closed", "Permission denied"),
        (tmp_path / "closed", "Permission denied"),
    ]


def test_list_files_reports_error_without_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(folder: Path, onerror: Callable[[OSError], None]) -> list[object]:
        odd = OSError("odd")
        odd.filename = str(folder)
        onerror(odd)
        return []

    monkeypatch.setattr(os, "walk", walk)
    errors: list[tuple[Path, str]] = []
    assert (
        list_files(tmp_path, lambda path, reason: errors.append((path, reason))) == []
    )
    assert errors == [(tmp_path, f"[Errno None] None: {str(tmp_path)!r}")]


def test_cache_root_follows_environment(
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


def test_expand_user_existing_file_named_tilde_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert expand_user("~/x") == "/home/somebody/x"
    assert expand_user("a/~") == "a/~"
    (tmp_path / "~").symlink_to("nowhere")
    assert expand_user("~") == "~"


@pytest.mark.parametrize(
    ("is_taken_by_neighbour", "names"),
    [
        (False, ["a/demo", "more/a/demo", "more/a/demo.wav", "more-2/a/demo"]),
        (True, ["a/demo", "a/demo.wav", "more/a/demo", "more/a/demo.wav"]),
    ],
)
def test_candidate_names_put_suffix_before_folder(
    is_taken_by_neighbour: bool, names: list[str]
) -> None:
    candidates = candidate_names(
        "a/demo", ".wav", "more", is_taken_by_neighbour=is_taken_by_neighbour
    )
    assert list(islice(candidates, 4)) == names
