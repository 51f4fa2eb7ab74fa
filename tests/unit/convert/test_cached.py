"""Models in the cache: which are there, by which names, and whether they are whole."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.shapes import toy_spec
from whisper_hailo.convert.model_cache import cache_root, cached_as, cached_models, hub_folder
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import SPEC_FILE, FileRecord, ModelSource


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of three models, half of a fourth and one of another version."""
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path))
    folder = tmp_path / "models"
    for name, source in (
        ("tiny-int8-1", "openai/whisper-tiny"),
        ("tiny-none-2", "openai/whisper-tiny"),
        ("mine-int8-3", "/home/me/mine"),
        (".half", "openai/whisper-base"),
    ):
        write(folder / name, name.split("-")[0], source)
    (folder / "old").mkdir()
    (folder / "old" / SPEC_FILE).write_text("{}", encoding="utf-8")
    return folder


def write(directory: Path, name: str, source: str) -> None:
    directory.mkdir(parents=True)
    record = FileRecord(bytes=5, sha256=hashlib.sha256(b"whole").hexdigest())
    spec = replace(toy_spec(), name=name, source=ModelSource(name=source))
    spec = replace(spec, files={"a": record, "b": record})
    (directory / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    for file in ("a", "b"):
        (directory / file).write_bytes(b"whole")


@pytest.mark.usefixtures("models")
def test_whole_ones_of_this_version_in_order_of_their_names() -> None:
    found = [model.directory.name for model in cached_models()]
    assert found == ["mine-int8-3", "tiny-int8-1", "tiny-none-2"]
    assert [model.n_bytes for model in cached_models()] == [10, 10, 10]


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tiny", ["tiny-int8-1", "tiny-none-2"]),
        ("openai/whisper-tiny", ["tiny-int8-1", "tiny-none-2"]),
        ("tiny-none-2", ["tiny-none-2"]),
        ("mine", ["mine-int8-3"]),
        ("/home/me/mine", ["mine-int8-3"]),
    ],
)
def test_a_model_is_found_by_each_of_its_names(name: str, expected: list[str]) -> None:
    assert [model.directory.name for model in cached_as(name)] == expected


@pytest.mark.usefixtures("models")
def test_another_name_tells_what_is_there_once() -> None:
    with pytest.raises(ModelError, match=r"base is not in the cache; there are: mine, tiny$"):
        cached_as("base")


def test_an_empty_cache_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"tiny is not in the cache; there are: none$"):
        cached_as("tiny")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"whole", []),
        (b"whale", ["b is damaged"]),
        (b"whole and more", ["b is damaged"]),
        (None, ["b is missing"]),
    ],
)
def test_every_byte_of_every_file_is_looked_at(
    models: Path, content: bytes | None, expected: list[str]
) -> None:
    (model,) = cached_as("mine")
    (models / "mine-int8-3" / "b").unlink()
    if content is not None:
        (models / "mine-int8-3" / "b").write_bytes(content)
    assert model.faults() == expected


def test_a_size_that_is_not_the_file_s_is_told(models: Path) -> None:
    """The engines look at it first, and would refuse the file."""
    (model,) = cached_as("mine")
    record = replace(model.spec.files["a"], bytes=6)
    spec = replace(model.spec, files={**model.spec.files, "a": record})
    (models / "mine-int8-3" / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    (model,) = cached_as("mine")
    assert model.faults() == ["a is damaged"]


def test_what_is_removed_takes_its_stamp_and_lock_along(models: Path) -> None:
    (models / "mine-int8-3.stamp").write_text("made of what")
    (model,) = cached_as("mine")
    model.remove()
    left = sorted(path.name for path in models.iterdir())
    assert left == [".half", "old", "tiny-int8-1", "tiny-none-2"]


def test_one_that_was_cut_off_before_its_stamp_is_removed_too(models: Path) -> None:
    (model,) = cached_as("mine")
    model.remove()
    assert not model.directory.exists()


def test_a_cache_that_is_emptied_by_hand_meanwhile_is_no_error(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model,) = cached_as("mine")
    real = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda _: real(models))
    model.remove()
    assert not models.exists()


def test_where_the_hub_keeps_what_a_model_was_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name in ("models--openai--whisper-tiny", "models--gpt2"):
        (tmp_path / name).mkdir()
    assert hub_folder("openai/whisper-tiny") == tmp_path / "models--openai--whisper-tiny"
    assert hub_folder("openai/whisper-base") is None
    assert hub_folder("gpt2") is None, "the name of a directory, not of a hub's model"


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHISPER_HAILO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_root() == Path("/x/whisper-hailo")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/pi")
    assert cache_root() == Path("/home/pi/.cache/whisper-hailo")
