"""What a job is told to transcribe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.batch.manifest import Candidate, Item, read_sources
from whisper_hailo.core.errors import AudioError, OptionError


def read_source(*sources: Path) -> list[Item]:
    return [candidate.item for candidate in read_sources(sources)]


def manifest(folder: Path, *lines: Any) -> Path:
    path = folder / "archive.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_a_manifest_may_come_from_any_editor(tmp_path: Path) -> None:
    """With a byte order mark, line ends of Windows, none at its end, any letter in its texts."""
    path = tmp_path / "archive.jsonl"
    lines = (
        '{"audio": "a.wav", "title": "one\u2028two\x85"}',
        "",
        '{"audio": "b.wav"}',
    )
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    first, second = read_source(path)
    assert (first.id, first.metadata) == ("a.wav", {"title": "one\u2028two\x85"})
    assert (second.id, second.metadata) == ("b.wav", {})


def test_facts_of_an_item_are_joined_in_any_order(tmp_path: Path) -> None:
    line = {"audio": "a.wav", "b": 1, "metadata": {"n": 2}, "a": 3}
    (item,) = read_source(manifest(tmp_path, line))
    assert item.metadata == {"n": 2, "b": 1, "a": 3}
    (other,) = read_source(manifest(tmp_path, dict(reversed(line.items()))))
    assert item == other


def test_paths_are_relative_to_manifest_and_other_fields_stay(tmp_path: Path) -> None:
    path = manifest(
        tmp_path,
        {"audio": "a/b.flac", "id": "one", "language": "German", "show": "news"},
        "",
        {"audio_filepath": "/c.wav", "duration": 3.5},
    )
    assert (read_source(path)) == [
        Item("one", str(tmp_path / "a/b.flac"), "de", {"show": "news"}),
        Item("c.wav", "/c.wav", None, {"duration": 3.5}),
    ]


def test_a_folder_is_all_recordings_below_it_in_order(tmp_path: Path) -> None:
    for name in ("b.wav", "a/z.flac", "a/notes.txt", "a/y.MP3"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [item.id for item in read_source(tmp_path)] == [
        "a/y.MP3",
        "a/z.flac",
        "b.wav",
    ]


def test_hidden_files_of_a_folder_are_no_items(tmp_path: Path) -> None:
    for name in ("a.wav", "._a.wav", ".b/c.wav"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert [found.item.id for found in read_sources([tmp_path])] == ["a.wav"]


def test_paths_are_whole_so_that_jobs_move_to_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks" / "a.wav").touch()
    manifest(tmp_path / "talks", {"audio": "a.wav"})
    monkeypatch.chdir(tmp_path)
    for source in (Path("talks"), Path("talks/archive.jsonl")):
        assert (read_source(source)) == [
            Item("a.wav", str(tmp_path / "talks" / "a.wav"))
        ]


def test_what_a_job_could_not_do_is_a_manifest(tmp_path: Path) -> None:
    line = {
        "id": "x",
        "audio": "/x.wav",
        "metadata": {"n": 1},
        "error": {"kind": "AudioError"},
    }
    assert (read_source(manifest(tmp_path, line))) == [
        Item("x", "/x.wav", None, {"n": 1})
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no JSON", "line 2: not readable JSON"),
        ('{"id": "a"}', "line 2: audio is missing"),
        ('{"audio": 3}', "line 2: audio is 3, expected a text"),
        (
            '{"audio": "a.wav", "id": "../a"}',
            "line 2: id is ../a, which no file can be called",
        ),
        (
            '{"audio": "a.wav", "id": ""}',
            "line 2: id is '', which no file can be called",
        ),
        (
            '{"audio": "a.wav", "id": "/."}',
            r"line 2: id is /\., which no file can be called",
        ),
        ('{"audio": "a.wav", "id": "a/.."}', "which no file can be called"),
        ('{"audio": "a.wav", "id": "a\\u0000"}', "which no file can be called"),
        ('{"audio": "a.wav", "id": "\\ud800"}', "which no file can be called"),
        (
            '{"audio": "a.wav", "id": "' + "x" * 251 + '"}',
            "which no file can be called",
        ),
        (
            '{"audio": "a.wav", "id": "a/' + "x" * 251 + '"}',
            "which no file can be called",
        ),
        (
            '{"audio": "a.wav", "id": "' + "日" * 84 + '"}',
            "which no file can be called",
        ),
        (
            '{"audio": "a.wav", "id": "' + "x/" * 512 + 'x"}',
            "which no file can be called",
        ),
        ("[1]", "line 2: it is a list, expected an object"),
    ],
)
def test_a_line_that_is_no_item_is_told_by_its_number(
    tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        (read_source(manifest(tmp_path, {"audio": "ok.wav"}, line)))


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ("x" * 250, "x" * 250),
        ("日" * 83, "日" * 83),
        ("x/" * 511 + "xy", "x/" * 511 + "xy"),
        ("a\nb", "a\nb"),
        ("\udcff.wav", "\udcff.wav"),
        ("/deep//er/./a", "deep/er/a"),
    ],
)
def test_an_id_is_whatever_a_file_can_be_called(
    tmp_path: Path, own: str, name: str
) -> None:
    """Also of the files of a folder, whose failures are a manifest."""
    (item,) = read_source(manifest(tmp_path, {"audio": "a.wav", "id": own}))
    assert item.id == name


def test_lines_end_where_json_lines_do(tmp_path: Path) -> None:
    """Texts may hold what other readers end lines at."""
    texts = ["\u2028", "\x85", "\x0c"]
    lines = [json.dumps({"audio": "a.wav", "id": str(n), "t": text}, ensure_ascii=False)
             for n, text in enumerate(texts)]  # fmt: skip
    path = tmp_path / "archive.jsonl"
    path.write_bytes("\r\n".join(lines).encode())
    assert [item.metadata["t"] for item in read_source(path)] == texts


def test_two_items_of_one_id_are_refused(tmp_path: Path) -> None:
    path = manifest(
        tmp_path, {"audio": "a.wav", "id": "x"}, {"audio": "b.wav", "id": "x"}
    )
    with pytest.raises(OptionError, match="lines 1 and 2 both have the id x"):
        (read_source(path))


@pytest.mark.parametrize("name", ["nowhere.jsonl", "empty.jsonl", "folder"])
def test_nothing_to_do_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(AudioError, match=r"names no recordings|does not exist"):
        (read_source(tmp_path / name))


def test_sources_of_several_kinds_are_joined(tmp_path: Path) -> None:
    for name in ("one/a.wav", "two/a.wav", "c.flac"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    lines = manifest(tmp_path, {"audio": "x.wav"})
    sources = (tmp_path / "one", tmp_path / "two", tmp_path / "c.flac", lines)
    assert [(found.item.id, found.folder) for found in read_sources(sources)] == [
        ("a.wav", "one"), ("a.wav", "two"), ("c.flac", tmp_path.name), ("x.wav", ""),
    ]  # fmt: skip
    (tmp_path / "none").mkdir()
    with pytest.raises(AudioError, match="names no recordings"):
        list(read_sources([*sources, tmp_path / "none"]))


def test_spellings_of_found_recording_begin_with_its_folder() -> None:
    spellings = Candidate(Item("a/b.wav", "/talks/a/b.wav"), "talks").spellings()
    names = [next(spellings).id for _ in range(3)]
    assert names == ["a/b.wav", "talks/a/b.wav", "talks-2/a/b.wav"]
    assert [item.id for item in Candidate(Item("x", "/x.wav")).spellings()] == ["x"]
