"""Manifests of a job: JSON lines, CSV and lists of paths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.batch.manifest import (
    Item,
    is_small,
    open_manifest,
    parse_rows,
)
from whisper_hailo.core.errors import AudioError, OptionError


def read_source(source: Path | str) -> list[Item]:
    listed = open_manifest(str(source))
    return list(parse_rows(listed, listed.rows()))


def manifest(folder: Path, *lines: Any) -> Path:
    path = folder / "archive.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_manifest_with_bom_and_crlf_is_read(tmp_path: Path) -> None:
    """Byte order mark, CRLF, no line end at the end, and Unicode separators in texts."""
    path = tmp_path / "archive.jsonl"
    lines = (
        '{"audio": "a.wav", "title": "one\u2028two\x85"}',
        "",
        '{"audio": "b.wav"}',
    )
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    first, second = read_source(path)
    assert (first.id, first.metadata) == ("a", {"title": "one\u2028two\x85"})
    assert (second.id, second.metadata) == ("b", {})


def test_manifest_fields_are_read_in_any_order(tmp_path: Path) -> None:
    line = {"audio": "a.wav", "b": 1, "metadata": {"n": 2}, "a": 3}
    (item,) = read_source(manifest(tmp_path, line))
    assert item.metadata == {"n": 2, "b": 1, "a": 3}
    (other,) = read_source(manifest(tmp_path, dict(reversed(line.items()))))
    assert item == other


def test_manifest_paths_are_relative_to_its_folder(tmp_path: Path) -> None:
    path = manifest(
        tmp_path,
        {"audio": "a/b.flac", "id": "one", "language": "German", "show": "news"},
        "",
        {"audio_filepath": "/c.wav", "duration": 3.5},
    )
    assert (read_source(path)) == [
        Item("one", str(tmp_path / "a/b.flac"), "de", {"show": "news"}),
        Item("c", "/c.wav", None, {"duration": 3.5}),
    ]


def test_manifest_of_failures_is_read(tmp_path: Path) -> None:
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
            "line 2: id is ../a, which is not a valid file name",
        ),
        (
            '{"audio": "a.wav", "id": ""}',
            "line 2: id is '', which is not a valid file name",
        ),
        (
            '{"audio": "a.wav", "id": "/."}',
            r"line 2: id is /\., which is not a valid file name",
        ),
        ('{"audio": "a.wav", "id": "a/.."}', "which is not a valid file name"),
        ('{"audio": "a.wav", "id": "a\\u0000"}', "which is not a valid file name"),
        ('{"audio": "a.wav", "id": "\\ud800"}', "which is not a valid file name"),
        (
            '{"audio": "a.wav", "id": "' + "x" * 251 + '"}',
            "which is not a valid file name",
        ),
        (
            '{"audio": "a.wav", "id": "a/' + "x" * 251 + '"}',
            "which is not a valid file name",
        ),
        (
            '{"audio": "a.wav", "id": "' + "日" * 84 + '"}',
            "which is not a valid file name",
        ),
        (
            '{"audio": "a.wav", "id": "' + "x/" * 512 + 'x"}',
            "which is not a valid file name",
        ),
        ("[1]", "line 2: it is a list, expected an object"),
    ],
)
def test_manifest_wrong_line_is_refused_by_number(
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
def test_manifest_id_may_be_a_file_name(tmp_path: Path, own: str, name: str) -> None:
    """Also of the files of a folder, whose failures are a manifest."""
    (item,) = read_source(manifest(tmp_path, {"audio": "a.wav", "id": own}))
    assert item.id == name


def test_manifest_unicode_separators_end_no_line(tmp_path: Path) -> None:
    """Texts may hold what other readers end lines at."""
    texts = ["\u2028", "\x85", "\x0c"]
    lines = [json.dumps({"audio": "a.wav", "id": str(n), "t": text}, ensure_ascii=False)
             for n, text in enumerate(texts)]  # fmt: skip
    path = tmp_path / "archive.jsonl"
    path.write_bytes("\r\n".join(lines).encode())
    assert [item.metadata["t"] for item in read_source(path)] == texts


def test_manifest_repeated_id_is_refused(tmp_path: Path) -> None:
    path = manifest(
        tmp_path, {"audio": "a.wav", "id": "x"}, {"audio": "b.wav", "id": "x"}
    )
    with pytest.raises(OptionError, match=r"\b1\b.*\b2\b.*\bx\b"):
        (read_source(path))


def test_manifest_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        AudioError,
    ):
        read_source(tmp_path / "nowhere.jsonl")


def test_manifest_csv_columns_are_fields(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text('path,id,language,agent\n"a, b.wav",one,,Ann\n/c.wav,two,de,\n')
    assert read_source(path) == [
        Item("one", str(tmp_path / "a, b.wav"), None, {"agent": "Ann"}),
        Item("two", "/c.wav", "de"),
    ]


def test_manifest_csv_extra_field_is_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / "calls.tsv"
    path.write_text("audio\tid\na.wav\ta\nb.wav\tb\tmore\n")
    with pytest.raises(OptionError, match=r"line 3\b"):
        read_source(path)


def test_manifest_path_list_has_a_recording_per_line(tmp_path: Path) -> None:
    path = tmp_path / "calls.txt"
    path.write_bytes(b"sub/a.wav\r\n\n/b.opus\ns3://calls/2026/c.mp3\n\xff.wav")
    assert [(item.id, item.audio) for item in read_source(path)] == [
        ("sub/a", str(tmp_path / "sub/a.wav")),
        ("b", "/b.opus"),
        ("calls/2026/c", "s3://calls/2026/c.mp3"),
        ("\udcff", str(tmp_path / "\udcff.wav")),
    ]


def test_manifest_at_address_resolves_paths() -> None:
    import fsspec

    content = b'{"audio": "a.wav"}\n{"audio": "https://u:p@host/b.wav?key=1"}\n'
    fsspec.filesystem("memory").pipe_file("/lists/calls.jsonl", content)
    first, second = read_source("memory://lists/calls.jsonl")
    assert (first.id, first.audio) == ("a", "memory://lists/a.wav")
    assert second.id == "host/b", "no credentials in a name"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"audio": "a.wav", "duration": 3.5}', 3.5),
        (b'{"duration":12,"audio": "a.wav"}', 12.0),
        (b'{"audio": "duration.wav"}', None),
    ],
)
def test_manifest_duration_is_found_without_parsing(
    line: bytes, expected: float | None
) -> None:
    assert open_manifest("a.jsonl").duration_s(line) == expected


def test_manifest_small_is_a_local_file(tmp_path: Path) -> None:
    path = manifest(tmp_path, {"audio": "a.wav"})
    assert is_small(open_manifest(str(path)))
    assert not is_small(open_manifest("s3://calls/a.jsonl"))
    assert not is_small(open_manifest(str(tmp_path / "none.jsonl")))
