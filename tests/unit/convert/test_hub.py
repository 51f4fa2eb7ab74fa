from pathlib import Path

import pytest

from whisper_hailo.convert import hub
from whisper_hailo.core.errors import HubError, ModelError, OptionError


def test_short_names_and_hub_ids() -> None:
    assert hub.parse_name("tiny").hub_id == "openai/whisper-tiny"
    assert hub.parse_name("base.en").hub_id == "openai/whisper-base.en"
    assert hub.parse_name("turbo").hub_id == "openai/whisper-large-v3-turbo"
    fine_tuned = hub.parse_name("someone/whisper-small-sv")
    assert (fine_tuned.hub_id, fine_tuned.label) == ("someone/whisper-small-sv", "small-sv")


def test_the_bundled_model_is_a_directory_of_the_package() -> None:
    assert hub.parse_name("micro").path == hub.ASSETS / "micro"


def test_names_win_over_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    assert hub.parse_name("tiny").path is None
    assert hub.parse_name("./tiny").path == Path("tiny")
    (tmp_path / "org" / "model").mkdir(parents=True)
    assert hub.parse_name("org/model").path == Path("org/model")


@pytest.mark.parametrize("name", ["tiney", "/no/such/place", "a/b/c", "../x", ""])
def test_what_is_no_model_says_what_would_be_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ModelError, match="expected micro"):
        hub.parse_name(name)


def test_a_file_is_no_model_directory(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.touch()
    with pytest.raises(ModelError, match="is a file"):
        hub.parse_name(str(file))


def test_a_directory_has_no_revision(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--revision belongs to a hub id"):
        hub.locate(hub.CheckpointName(label="x", path=tmp_path), "main")


def test_an_unreachable_hub_names_the_ways_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*_: object, **__: object) -> str:
        try:
            raise ConnectionError("Name or service not known")
        except ConnectionError as error:
            raise RuntimeError("retries exhausted") from error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(HubError) as caught:
        hub.locate(hub.parse_name("tiny"), None)
    message = str(caught.value)
    assert "openai/whisper-tiny" in message
    assert "Name or service not known" in message
    assert "--model micro" in message
    assert "local checkpoint" in message


def test_only_data_files_are_asked_for() -> None:
    assert not [name for name in hub.CHECKPOINT_FILES if name.endswith((".bin", ".pt", ".py"))]
    asked: dict[str, object] = {}

    def record(hub_id: str, **kwargs: object) -> str:
        asked.update(kwargs, hub_id=hub_id)
        return "/snapshots/" + "0123456789" * 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.snapshot_download", record)
        path, source = hub.locate(hub.parse_name("tiny"), "v1")
    assert asked["revision"] == "v1"
    assert asked["allow_patterns"] == list(hub.CHECKPOINT_FILES)
    assert source.revision == path.name == "0123456789" * 4


@pytest.mark.parametrize("revision", ["", "a b", "x;y"])
def test_a_malformed_revision_is_refused(revision: str) -> None:
    with pytest.raises(OptionError, match="--revision is"):
        hub.locate(hub.parse_name("tiny"), revision)
