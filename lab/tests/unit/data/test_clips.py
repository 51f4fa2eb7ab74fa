"""The frozen clips and their manifest."""

from __future__ import annotations

from whisper_hailo_lab.clip_archives import read_manifest, unpack_clips
from whisper_hailo_lab.data.clips import find_clips, text_beside


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
