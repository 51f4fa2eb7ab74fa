"""Where the speaker models come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.core.errors import HubError, ModelError
from whisper_hailo.speakers import models
from whisper_hailo.speakers.models import EMBEDDING, FOLDER_VARIABLE, SEGMENTATION


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)


def _fill(folder: Path) -> None:
    for model in (SEGMENTATION, EMBEDDING):
        (folder / model.names[-1]).write_bytes(b"graph")


def test_find_speaker_models_takes_folder(tmp_path: Path) -> None:
    _fill(tmp_path)
    files = models.find_speaker_models(tmp_path)
    assert files.segmentation == tmp_path / SEGMENTATION.names[-1]
    assert files.embedding == tmp_path / EMBEDDING.names[-1]


def test_find_speaker_models_takes_folder_of_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert models.find_speaker_models().embedding.parent == tmp_path


def test_find_speaker_models_names_what_a_folder_lacks(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        models.find_speaker_models(tmp_path)
    assert "\n" not in str(caught.value)


def test_find_speaker_models_fetches_pinned_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetch(hub_id: str, name: str, commit: str, instead: str) -> Path:
        asked.append((hub_id, name, commit))
        return tmp_path / name

    hashes = {SEGMENTATION.file: SEGMENTATION.sha256, EMBEDDING.file: EMBEDDING.sha256}
    monkeypatch.setattr(models, "fetch_file", fetch)
    monkeypatch.setattr(models, "sha256", lambda path: hashes[path.name])
    models.find_speaker_models()
    assert asked == [
        (item.hub_id, item.file, item.revision) for item in (SEGMENTATION, EMBEDDING)
    ]


def test_find_speaker_models_refuses_changed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"other")
    monkeypatch.setattr(models, "fetch_file", lambda *_: path)
    with pytest.raises(ModelError):
        models.find_speaker_models()


def test_find_speaker_models_offline_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HubError) as caught:
        models.find_speaker_models()
    assert "\n" not in str(caught.value)


def test_has_speaker_models_needs_both_in_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(tmp_path)
    assert models.has_speaker_models(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert models.has_speaker_models()
    (tmp_path / EMBEDDING.names[-1]).unlink()
    assert not models.has_speaker_models()


def test_has_speaker_models_needs_both_in_cache_of_hub(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cached = {SEGMENTATION.file}
    monkeypatch.setattr(
        models, "is_file_cached", lambda _hub_id, name, _commit: name in cached
    )
    assert not models.has_speaker_models()
    cached.add(EMBEDDING.file)
    assert models.has_speaker_models()
