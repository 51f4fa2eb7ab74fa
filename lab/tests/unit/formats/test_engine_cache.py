"""The cache of converted models, which is emptied when the code changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whisper_hailo.core.paths import CACHE_VARIABLE
from whisper_hailo_lab.formats import engine_cache


def test_use_cache_of_another_engine_empties_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "elsewhere")
    ours = tmp_path / "models" / "tiny"
    rivals = tmp_path / "rivals" / "tiny"
    engine_cache.use_cache(tmp_path)
    assert os.environ[CACHE_VARIABLE] == str(tmp_path)
    ours.mkdir(parents=True)
    rivals.mkdir(parents=True)
    engine_cache.use_cache(tmp_path)
    assert ours.is_dir()
    monkeypatch.setattr(engine_cache, "engine_key", lambda: {"source": "another"})
    engine_cache.use_cache(tmp_path)
    assert not ours.exists()
    assert rivals.is_dir()
