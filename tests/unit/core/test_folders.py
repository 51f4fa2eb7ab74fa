import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.denied import deny
from whisper_hailo.core.files import list_files


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
