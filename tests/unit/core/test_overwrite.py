"""Overwriting of files, and identity of files behind paths."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.fakes.results import transcript
from tests.fakes.sounds import tone, write
from tests.unit.live.outputs.test_files import EVENTS
from whisper_hailo.core.errors import OutputError
from whisper_hailo.core.overwrite import Signature, file_id, refuse_foreign
from whisper_hailo.live.outputs.files import CaptionFile, EventFile
from whisper_hailo.text.formats import FORMATS, render

CUE = "1\r\n00:00:00,000 --> 00:00:01,250\r\nsomebody else's\r\n"
PAGE = Signature("a page", rb"<page\b")


@pytest.mark.parametrize("fmt", FORMATS)
def test_refuse_foreign_accepts_earlier_results(tmp_path: Path, fmt: str) -> None:
    (tmp_path / "a").write_text(render(transcript(), fmt), encoding="utf-8")
    refuse_foreign(tmp_path / "a", FORMATS[fmt].signature)


@pytest.mark.parametrize("name", ["a.srt", "a.vtt", "a.txt", "a.jsonl"])
def test_refuse_foreign_accepts_earlier_captions(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    kind = EventFile if name == "a.jsonl" else CaptionFile
    for _ in range(2):
        with kind(path) as file:
            for event in EVENTS:
                file.put(event)
    kind(path).check(None)


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
def test_refuse_foreign_accepts_files_of_other_programs(
    tmp_path: Path, fmt: str, content: bytes
) -> None:
    (tmp_path / "a").write_bytes(content)
    refuse_foreign(tmp_path / "a", FORMATS[fmt].signature)


def test_refuse_foreign_accepts_empty_missing_and_devices(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path in ("empty", "missing", "empty/below"):
        refuse_foreign(tmp_path / path, PAGE)
    refuse_foreign(Path("/dev/null"), PAGE)


@pytest.mark.parametrize("path", [".", "/", ".."])
def test_refuse_foreign_folder_is_refused(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="folder"):
        refuse_foreign(Path(path), PAGE)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_refuse_foreign_recording_is_refused(
    tmp_path: Path, fmt: str, suffix: str
) -> None:
    path = write(tmp_path / f"a.{suffix}", tone(16_000))
    before = path.read_bytes()
    with pytest.raises(OutputError, match=FORMATS[fmt].signature.kind):
        refuse_foreign(path, FORMATS[fmt].signature)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("fmt", "content"),
    [
        ("srt", b"years of work"),
        ("vtt", b"WEBVTTX"),
        ("tsv", b"name\tvalue\n"),
        ("json", b'{"name": "settings"}'),
        ("json", b"[]"),
        ("txt", b"text\0and more"),
    ],
)
def test_refuse_foreign_other_content_is_refused(
    tmp_path: Path, fmt: str, content: bytes
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(OutputError, match=FORMATS[fmt].signature.kind):
        refuse_foreign(tmp_path / "a", FORMATS[fmt].signature)


def test_refuse_foreign_manifest_for_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"audio": "a.wav", "text": "a manifest"}\n')
    with pytest.raises(OutputError, match="events"):
        EventFile(path).check(None)


def test_refuse_foreign_unreadable_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.txt").write_text("text")
    monkeypatch.setattr(Path, "open", denied)  # modes do not stop the superuser
    with pytest.raises(OutputError, match="Permission denied"):
        refuse_foreign(tmp_path / "a.txt", FORMATS["txt"].signature)


def test_file_id_is_equal_for_links(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    (tmp_path / "soft").symlink_to("a")
    os.link(path, tmp_path / "hard")
    (tmp_path / "other").touch()
    with path.open("rb") as file:
        assert file_id(tmp_path / "soft") == file_id(tmp_path / "hard") == file_id(path)
        assert file_id(file) == file_id(str(path)) != file_id(tmp_path / "other")


def test_file_id_of_missing_path_or_device_is_none(tmp_path: Path) -> None:
    assert file_id(tmp_path / "missing") is None
    assert file_id("x" * 300) is file_id("\0") is file_id(Path("/dev/null")) is None


def test_file_id_differs_between_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    for disk in (1, 2):
        status = os.stat_result((stat.S_IFREG, 5, disk, 1, 0, 0, 0, 0, 0, 0))
        monkeypatch.setattr(os, "stat", lambda _, status=status: status)
        assert file_id("a") == (disk, 5)
