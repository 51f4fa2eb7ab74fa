"""Answers of HEFs in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.backends.hailo import kept_answers
from whisper_hailo.backends.hailo.kept_answers import (
    ANSWERS_FILE,
    keep_answer,
    read_answers,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_keep_answer_adds_to_kept_answers() -> None:
    assert read_answers() == {}
    keep_answer("a", {"snr_db": 1.5})
    keep_answer("b", {"snr_db": 2.5})
    keep_answer("a", {"snr_db": 3.5})
    assert read_answers() == {"a": {"snr_db": 3.5}, "b": {"snr_db": 2.5}}


def test_keep_answer_drops_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_ANSWERS", 2)
    for key in "abc":
        keep_answer(key, {})
    assert list(read_answers()) == ["b", "c"]


@pytest.mark.parametrize("content", ["damaged", "[]", ""])
def test_read_answers_of_damaged_file_is_empty(cache: Path, content: str) -> None:
    cache.mkdir()
    (cache / ANSWERS_FILE).write_text(content, encoding="utf-8")
    assert read_answers() == {}
    keep_answer("a", {})
    assert read_answers() == {"a": {}}


def test_keep_answer_without_writable_cache_keeps_nothing(cache: Path) -> None:
    cache.touch()
    keep_answer("a", {})
    assert read_answers() == {}
