import errno
import json
import os
from pathlib import Path

import pytest

from tests.fakes.denied_folder import deny
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo_lab.data.datasets import (
    RECEIPT,
    Dataset,
    prepare_dataset,
    read_dataset,
    reference_beside,
)


def write_sample(
    folder: Path, name: str, text: str | None = "", audio: bytes | None = b"sound"
) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if audio is not None:
        path.with_name(path.name + ".flac").write_bytes(audio)
    if text is not None:
        path.with_name(path.name + ".txt").write_text(text, encoding="utf-8")


def write_librispeech(root: Path) -> Path:
    """Write two chapters in LibriSpeech's layout, one utterance without its recording."""
    for chapter, lines in {
        "84/1": ["84-1-0 HELLO THERE", "84-1-1 BYE"],
        "19/7": ["19-7-0 YES"],
    }.items():
        folder = root / chapter
        folder.mkdir(parents=True)
        name = chapter.replace("/", "-")
        (folder / f"{name}.trans.txt").write_text(
            "\n".join(lines) + "\n", encoding="utf-8"
        )
        for line in lines:
            (folder / f"{line.split()[0]}.flac").write_bytes(
                b"sound of " + line.encode()
            )
    (root / "84/1/84-1-1.flac").unlink()
    return root


def read_problems(dataset: Dataset) -> dict[str, str]:
    return {problem.id: problem.message for problem in dataset.problems}


def test_read_dataset_pairs_recordings_with_texts(tmp_path: Path) -> None:
    write_sample(tmp_path, "b", " two \n")
    write_sample(tmp_path, "deep/a", "one")
    dataset = read_dataset(tmp_path, "de")
    assert [(s.id, s.reference, s.language) for s in dataset.samples] == [
        ("b", "two", "de"), ("deep/a", "one", "de"),
    ]  # fmt: skip
    assert dataset.problems == ()
    assert dataset.name == tmp_path.name


def test_read_dataset_reports_files_without_partner(tmp_path: Path) -> None:
    write_sample(tmp_path, "a", "one")
    write_sample(tmp_path, "silent", text=None)
    write_sample(tmp_path, "lone", "words", audio=None)
    write_sample(tmp_path, "README", "about", audio=None)
    (tmp_path / "odd.txt").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "odd.wav").write_bytes(b"sound")
    messages = read_problems(read_dataset(tmp_path))
    assert set(messages) == {"silent", "lone", "odd"}
    assert "silent.txt" in messages["silent"]
    assert messages["lone"] != messages["silent"].replace("silent", "lone")
    assert "odd.txt" in messages["odd"]


def test_read_dataset_reports_closed_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sample(tmp_path, "a", "one")
    write_sample(tmp_path, "closed/b", "two")
    deny(monkeypatch, "closed")
    dataset = read_dataset(tmp_path)
    assert [sample.id for sample in dataset.samples] == ["a"]
    (message,) = read_problems(dataset).items()
    assert message[0] == "closed"
    assert os.strerror(errno.EACCES) in message[1]


def test_read_dataset_reads_librispeech(tmp_path: Path) -> None:
    dataset = read_dataset(write_librispeech(tmp_path / "dev-clean"))
    assert [(s.id, s.reference) for s in dataset.samples] == [
        ("19-7-0", "YES"), ("84-1-0", "HELLO THERE"),
    ]  # fmt: skip
    assert list(read_problems(dataset)) == ["84-1-1"]


def test_read_dataset_reads_manifests_of_toolkits(tmp_path: Path) -> None:
    write_sample(tmp_path, "a", None)
    lines = [
        {"audio": "a.flac", "text": "one", "id": "x"},
        {"audio_filepath": "a.flac", "reference": "zwei\u2028drei", "language": "de"},
        {"audio": "gone.flac", "text": "three"},
        {"audio": "a.flac"},
    ]
    manifest = tmp_path / "set.jsonl"
    texts = [json.dumps(line, ensure_ascii=False) for line in lines]
    manifest.write_text("\n".join([*texts, "[1", ""]), encoding="utf-8")
    dataset = read_dataset(manifest)
    assert [(s.id, s.reference, s.language) for s in dataset.samples] == [
        ("a", "zwei\u2028drei", "de"), ("x", "one", "en"),
    ]  # fmt: skip
    assert set(read_problems(dataset)) == {"gone", "set.jsonl:4", "set.jsonl:5"}
    assert dataset.name == "set"


def test_read_dataset_reports_repeated_ids(tmp_path: Path) -> None:
    write_sample(tmp_path, "a", None)
    manifest = tmp_path / "set.jsonl"
    line = json.dumps({"audio": "a.flac", "text": "one"})
    manifest.write_text(f"{line}\n{line}\n", encoding="utf-8")
    dataset = read_dataset(manifest)
    assert len(dataset.samples) == 1
    assert list(read_problems(dataset)) == ["a"]


def test_read_dataset_without_recordings_raises(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="gone"):
        read_dataset(tmp_path / "gone")
    with pytest.raises(AudioError, match=str(tmp_path)):
        read_dataset(tmp_path)


def test_sample_follows_the_seed_and_keeps_the_order(tmp_path: Path) -> None:
    for index in range(20):
        write_sample(tmp_path, f"{index:02}", str(index))
    dataset = read_dataset(tmp_path)
    sampled_ids = [s.id for s in dataset.sample(5, seed=1).samples]
    assert sampled_ids == sorted(sampled_ids)
    assert sampled_ids == [s.id for s in dataset.sample(5, seed=1).samples]
    assert sampled_ids != [s.id for s in dataset.sample(5, seed=2).samples]
    assert dataset.sample(None) is dataset
    assert len(dataset.sample(99).samples) == 20
    with pytest.raises(OptionError, match="0"):
        dataset.sample(0)


def test_dataset_hash_changes_with_the_data(tmp_path: Path) -> None:
    write_sample(tmp_path, "a", "one")
    before = read_dataset(tmp_path).sha256
    assert before == read_dataset(tmp_path).sha256
    write_sample(tmp_path, "a", "two")
    assert read_dataset(tmp_path).sha256 != before


def test_prepare_dataset_writes_flat_files_and_receipt(tmp_path: Path) -> None:
    source = write_librispeech(tmp_path / "dev-clean")
    prepared = prepare_dataset(source, tmp_path / "out", count=1, seed=3)
    (name,) = prepared.ids
    assert prepared.n_available == 2
    assert prepared.n_problems == 1
    assert (
        (tmp_path / "out" / f"{name}.flac")
        .read_bytes()
        .startswith(b"sound of " + name.encode())
    )
    again = read_dataset(tmp_path / "out")
    assert [(s.id, s.reference) for s in again.samples] == [
        (s.id, s.reference) for s in read_dataset(source).samples if s.id == name
    ]
    receipt = json.loads((tmp_path / "out" / RECEIPT).read_text(encoding="utf-8"))
    assert receipt["seed"] == 3
    assert receipt["ids"] == [name]
    assert receipt["available"] == 2


def test_prepare_dataset_refuses_a_filled_folder(tmp_path: Path) -> None:
    source = write_librispeech(tmp_path / "dev-clean")
    prepare_dataset(source, tmp_path / "out")
    with pytest.raises(OptionError, match="out"):
        prepare_dataset(source, tmp_path / "out")


def test_reference_beside_reads_the_text_file(tmp_path: Path) -> None:
    assert reference_beside(tmp_path / "a.wav") is None
    write_sample(tmp_path, "a", "words")
    assert reference_beside(tmp_path / "a.wav") == "words"
    (tmp_path / "a.txt").write_bytes(b"gr\xfcn")
    with pytest.raises(AudioError, match=r"a\.txt .*utf-8"):
        reference_beside(tmp_path / "a.wav")
