"""The frozen clips: reproducible archives, and their unpacked files."""

from __future__ import annotations

import os
from pathlib import Path

from whisper_hailo_lab.clip_archives import (
    MANIFEST,
    find_clips,
    pack_clips,
    read_manifest,
    text_beside,
    unpack_clips,
)


def write_clips(folder: Path) -> Path:
    (folder / "seen").mkdir(parents=True)
    (folder / "seen" / "seen-001.txt").write_text("two", encoding="utf-8")
    (folder / "seen" / "seen-000.txt").write_text("one", encoding="utf-8")
    (folder / MANIFEST).write_text(
        '{"id": "seen-000"}\n{"id": "seen-001"}\n', encoding="utf-8"
    )
    return folder


def test_pack_clips_is_reproducible(tmp_path: Path) -> None:
    today = write_clips(tmp_path / "today")
    yesterday = write_clips(tmp_path / "yesterday")
    os.utime(yesterday / "seen" / "seen-000.txt", (0, 0))
    for folder in (today, yesterday):
        pack_clips(folder)
    assert (today / "seen.zip").read_bytes() == (yesterday / "seen.zip").read_bytes()
    assert sorted(path.name for path in today.iterdir()) == [MANIFEST, "seen.zip"]


def test_unpack_clips_gives_the_packed_files(tmp_path: Path) -> None:
    packed = write_clips(tmp_path / "packed")
    pack_clips(packed)
    unpacked = unpack_clips(packed, tmp_path / "out")
    texts = {
        path.name: path.read_text(encoding="utf-8") for path in unpacked.rglob("*.*")
    }
    assert texts == {"seen-000.txt": "one", "seen-001.txt": "two"}
    unpack_clips.cache_clear()
    assert unpack_clips(packed, tmp_path / "out") == unpacked
    assert [path.name for path in (tmp_path / "out").iterdir()] == [unpacked.name]


def test_manifest_has_every_clip_and_its_text() -> None:
    folder = unpack_clips()
    entries = read_manifest()
    texts = {
        path.stem: path.read_text(encoding="utf-8").strip()
        for path in folder.rglob("*.txt")
    }
    assert texts == {entry["id"]: entry["text"] for entry in entries}
    assert {path.stem for path in folder.rglob("*.ogg")} == texts.keys()


def test_manifest_clips_exist_with_rising_times() -> None:
    folder = unpack_clips()
    for entry in read_manifest():
        words = [word for sentence in entry["sentences"] for word in sentence["words"]]
        starts = [start_s for _, start_s, _ in words]
        assert (folder / entry["set"] / f"{entry['id']}.ogg").is_file()
        assert starts == sorted(starts)


def test_find_clips_gives_recordings_with_texts() -> None:
    clips = find_clips("seen", "unseen")
    assert {path.parent.name for path in clips} == {"seen", "unseen"}
    assert all(text_beside(path) for path in clips)
