"""What an output may replace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.unit.live.outputs.test_files import EVENTS
from tests.unit.sounds import tone, write
from tests.unit.text.test_outputs import transcript
from whisper_hailo.core.errors import OutputError
from whisper_hailo.core.files import file_id, refuse_foreign
from whisper_hailo.live.outputs.files import CaptionFile, EventFile
from whisper_hailo.text.outputs import FORMATS, render

CUE = "1\r\n00:00:00,000 --> 00:00:01,250\r\nsomebody else's\r\n"


@pytest.mark.parametrize("fmt", FORMATS)
def test_results_of_before_are_replaced(tmp_path: Path, fmt: str) -> None:
    (tmp_path / "a").write_text(render(transcript(), fmt), encoding="utf-8")
    refuse_foreign(tmp_path / "a", fmt)


@pytest.mark.parametrize("name", ["a.srt", "a.vtt", "a.txt", "a.jsonl"])
def test_captions_of_before_are_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    kind = EventFile if name == "a.jsonl" else CaptionFile
    for _ in range(2):
        with kind(path) as file:
            for event in EVENTS:
                file.put(event)
    refuse_foreign(path, path.suffix[1:])


@pytest.mark.parametrize(
    ("fmt", "content"),
    [
        ("txt", "Übersetzung\tvon A nach B\r\n\x1b[1mfett\x1b[0m".encode()),
        ("txt", "\ufeffÜber".encode()),
        ("srt", CUE.encode()),
        ("srt", f"\ufeff{CUE}".encode()),
        ("json", b'{"text": " OpenAI Whisper\'s own", "segments": []}'),
    ],
)
def test_files_of_the_format_are_replaced_whoever_wrote_them(
    tmp_path: Path, fmt: str, content: bytes
) -> None:
    (tmp_path / "a").write_bytes(content)
    refuse_foreign(tmp_path / "a", fmt)


@pytest.mark.parametrize("fmt", [*FORMATS, "jsonl", "svg"])
def test_what_is_not_there_or_empty_or_no_file_stands_in_no_way(tmp_path: Path, fmt: str) -> None:
    (tmp_path / "empty").touch()
    for path in ("empty", "missing", "empty/below", "."):
        refuse_foreign(tmp_path / path, fmt)
    refuse_foreign(Path("/dev/null"), fmt)


@pytest.mark.parametrize("fmt", [*FORMATS, "jsonl", "svg"])
@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_recordings_are_not_replaced(tmp_path: Path, fmt: str, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", tone(16_000))
    before = path.read_bytes()
    with pytest.raises(OutputError, match=f"no {fmt} file as this program writes them"):
        refuse_foreign(path, fmt)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("fmt", "content"),
    [
        ("srt", b"years of work"),
        ("vtt", b"WEBVTTX"),
        ("tsv", b"name\tvalue\n"),
        ("json", b'{"name": "settings"}'),
        ("json", b"[]"),
        ("jsonl", b'{"audio": "a.wav", "text": "a manifest"}\n'),
        ("svg", b"<html>"),
        ("txt", b"text\0and more"),
    ],
)
def test_what_only_has_the_name_is_not_replaced(tmp_path: Path, fmt: str, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(OutputError, match="move it away, or give another place"):
        refuse_foreign(tmp_path / "a", fmt)


def test_what_cannot_be_looked_into_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.txt").write_text("text")
    monkeypatch.setattr(Path, "open", denied)  # the superuser may read what nobody may
    with pytest.raises(OutputError, match=r"cannot look into .*a.txt \(Permission denied\)"):
        refuse_foreign(tmp_path / "a.txt", "txt")


def test_a_file_is_the_same_by_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    (tmp_path / "soft").symlink_to("a")
    os.link(path, tmp_path / "hard")
    (tmp_path / "other").touch()
    with path.open("rb") as opened:
        assert len({file_id(one) for one in (path, tmp_path / "soft", tmp_path / "hard")}) == 1
        assert file_id(opened) == file_id(str(path)) != file_id(tmp_path / "other")
    assert file_id(tmp_path / "missing") is None
    assert file_id("x" * 300) is file_id("\0") is file_id(Path("/dev/null")) is None


def test_files_of_two_disks_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for disk in (1, 2):
        status = os.stat_result((stat.S_IFREG, 5, disk, 1, 0, 0, 0, 0, 0, 0))
        monkeypatch.setattr(os, "stat", lambda _, status=status: status)
        assert file_id("a") == (disk, 5)


def test_files_of_other_kinds_begin_as_their_writer_says(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"<page>")
    refuse_foreign(tmp_path / "a", "page", rb"<page\b")
    with pytest.raises(OutputError, match="no page file as this program writes them"):
        refuse_foreign(tmp_path / "a", "page", rb"<pages\b")
