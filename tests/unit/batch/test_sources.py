"""Sources of a job: folders, patterns, recordings, manifests."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest

from whisper_hailo.batch.sources import LISTED, list_sources, only_manifest
from whisper_hailo.batch.storage import Storage
from whisper_hailo.core.errors import AudioError, OptionError


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "job"))


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def listed(storage: Storage) -> list[tuple[str, str]]:
    lines = (storage.read(LISTED) or b"").splitlines()
    records = [json.loads(line) for line in lines]
    return [(record["id"], record["audio"]) for record in records]


def test_list_sources_of_folder_has_recordings_in_order(
    storage: Storage, tmp_path: Path
) -> None:
    touch(tmp_path, "in/b.wav", "in/a/z.flac", "in/a/notes.txt", "in/a/y.MP3")
    assert list_sources([str(tmp_path / "in")], storage) == 3
    assert [name for name, _ in listed(storage)] == ["a/y", "a/z", "b"]


def test_list_sources_of_folder_skips_hidden_files(
    storage: Storage, tmp_path: Path
) -> None:
    touch(tmp_path, "in/a.wav", "in/._a.wav", "in/.b/c.wav")
    assert list_sources([str(tmp_path / "in")], storage) == 1


def test_list_sources_of_equal_names_adds_suffix(
    storage: Storage, tmp_path: Path
) -> None:
    touch(tmp_path, "talks/a.mp3", "talks/a.wav", "more/a.wav", "old/more/a.wav")
    words = [str(tmp_path / name) for name in ("talks", "more", "old/more")]
    list_sources(words, storage)
    assert [name for name, _ in listed(storage)] == [
        "a",
        "a.wav",
        "more/a",
        "more/a.wav",
    ]


def test_list_sources_grows_and_keeps_entries(storage: Storage, tmp_path: Path) -> None:
    touch(tmp_path, "in/b.wav")
    words = [str(tmp_path / "in")]
    list_sources(words, storage)
    touch(tmp_path, "in/a.wav")
    assert list_sources(words, storage) == 1
    assert list_sources(words, storage) == 0
    assert [name for name, _ in listed(storage)] == ["b", "a"]


def test_list_sources_of_nested_folders_has_recording_once(
    storage: Storage, tmp_path: Path
) -> None:
    touch(tmp_path, "in/sub/a.wav")
    words = [
        str(tmp_path / "in"),
        str(tmp_path / "in/sub"),
        str(tmp_path / "in/*/*.wav"),
    ]
    assert list_sources(words, storage) == 1


def test_list_sources_omits_growing_files(storage: Storage, tmp_path: Path) -> None:
    touch(tmp_path, "in/a.wav", "in/b.wav")
    words = [str(tmp_path / "in")]
    list_sources(words, storage, lambda audio: audio.endswith("b.wav"))
    assert [name for name, _ in listed(storage)] == ["b"]
    (tmp_path / "none").mkdir()
    assert list_sources([str(tmp_path / "none")], storage, lambda _: True) == 0


def test_list_sources_joins_manifests_and_folders(
    storage: Storage, tmp_path: Path
) -> None:
    touch(tmp_path, "in/a.wav", "c.flac")
    manifest = tmp_path / "list.jsonl"
    manifest.write_text('{"audio": "x.wav", "language": "de", "n": 1}\n')
    list_sources(
        [str(tmp_path / "in"), str(manifest), str(tmp_path / "c.flac")], storage
    )
    assert [name for name, _ in listed(storage)] == ["a", "x", "c"]
    line = json.loads((storage.read(LISTED) or b"").splitlines()[1])
    assert (line["language"], line["metadata"]) == ("de", {"n": 1})


def test_list_sources_refuses_repeated_id(storage: Storage, tmp_path: Path) -> None:
    for name in ("one", "two"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps({"audio": f"/{name}.wav", "id": "x"}) + "\n")
    words = [str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")]
    with pytest.raises(OptionError, match=r"\bx\b"):
        list_sources(words, storage)


@pytest.mark.parametrize("name", ["empty", "none.wav", "none.jsonl", "no*.wav"])
def test_list_sources_without_recordings_is_refused(
    storage: Storage, tmp_path: Path, name: str
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        AudioError,
    ):
        list_sources([str(tmp_path / name)], storage)


@pytest.mark.parametrize(
    "word", ["memory://calls", "memory://calls/", "memory://calls/**/*.wav"]
)
def test_list_sources_of_bucket_has_its_recordings(storage: Storage, word: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for name in ("/calls/b.wav", "/calls/a/c.wav", "/calls/a/notes.txt"):
        memory.pipe_file(name, b"sound")
    list_sources([word], storage)
    assert sorted(name for name, _ in listed(storage)) == ["a/c", "b"]
    assert all(audio.startswith("memory://") for _, audio in listed(storage))


def test_list_sources_of_single_manifest_is_the_manifest(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "list.csv")
    assert only_manifest([str(tmp_path / "list.csv")]) == str(tmp_path / "list.csv")
    assert only_manifest(["s3://calls/list.jsonl"]) == "s3://calls/list.jsonl"
    for words in (
        [str(tmp_path)],
        [str(tmp_path / "a.wav")],
        ["s3://calls/*.jsonl"],
        ["s3://calls/[ab].jsonl"],
        ["s3://calls/a.wav"],
        ["s3://calls"],
        ["a.jsonl", "b.jsonl"],
        [],
    ):
        assert only_manifest(words) is None
