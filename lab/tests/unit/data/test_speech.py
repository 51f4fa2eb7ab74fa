from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import soundfile

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.data.joined import JoinPlan, join_all, join_clips
from whisper_hailo_lab.data.speech import (
    SPEECH_VARIABLE,
    SpeechRecording,
    interleave_sets,
    read_speech,
    select_recordings,
    speech_folder,
)


def recording(name: str, language: str = "en", seconds: float = 2.0) -> SpeechRecording:
    group, _, identity = name.partition("/")
    text = "" if language == "none" else f"text {identity}"
    return SpeechRecording(
        group, identity, text, language, seconds, "read", (Path(identity),)
    )


RECORDINGS = [
    recording("a/1"),
    recording("a/2"),
    recording("a/3"),
    recording("b/1", "de"),
    recording("b/2", "de", 40.0),
    recording("c/1", "none", 60.0),
]


def test_read_speech_reads_the_manifest(tmp_path: Path) -> None:
    sound = np.array([0.0, 0.25, -0.5], np.float32)
    soundfile.write(tmp_path / "x.wav", sound, 16_000, "FLOAT")
    line = {
        "set": "a",
        "id": "x",
        "text": "Hi",
        "language": "en",
        "seconds": 3 / 16_000,
    }
    line |= {"kind": "read", "file": "x.wav", "licence": "CC0"}
    (tmp_path / "MANIFEST.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    (entry,) = read_speech(tmp_path)
    assert entry.key == "a/x"
    assert entry.text == "Hi"
    assert entry.has_speech
    assert entry.load().tolist() == sound.tolist()


def test_read_speech_missing_manifest_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=SPEECH_VARIABLE):
        read_speech(tmp_path)


def test_speech_folder_comes_from_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SPEECH_VARIABLE, "/somewhere")
    assert speech_folder() == Path("/somewhere")
    monkeypatch.delenv(SPEECH_VARIABLE)
    assert speech_folder().parts[-2:] == ("shared", "speech")


def test_interleave_sets_begins_with_all_sets() -> None:
    keys = [r.key for r in interleave_sets(RECORDINGS)]
    assert keys == ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]


@pytest.mark.parametrize(
    ("names", "limit", "keys"),
    [
        (["all"], 1, "a/1 b/1 c/1"),
        (["english"], None, "a/1 a/2 a/3"),
        (["languages"], None, "b/1 b/2"),
        (["nospeech"], None, "c/1"),
        (["long"], None, "b/2"),
        (["de", "a/2"], None, "a/2 b/1 b/2"),
        (["c", "a"], 2, "a/1 a/2 c/1"),
    ],
)
def test_select_recordings_by_name(
    names: list[str], limit: int | None, keys: str
) -> None:
    assert [r.key for r in select_recordings(RECORDINGS, names, limit)] == keys.split()


def test_select_recordings_unknown_name_raises() -> None:
    with pytest.raises(OptionError, match="'xx'"):
        select_recordings(RECORDINGS, ["a", "xx"])


def test_join_clips_has_seeded_pauses(tmp_path: Path) -> None:
    clips = []
    for n in range(4):
        path = tmp_path / f"{n}.wav"
        soundfile.write(
            path, np.full(16_000, 0.1 * (n + 1), np.float32), 16_000, "FLOAT"
        )
        clips.append(SpeechRecording("a", str(n), f"t{n} ", "en", 1.0, "read", (path,)))
    joined = join_clips([*clips, recording("a/9", "de")], JoinPlan("a", "en", 4.9))
    order = list("0123")
    random.Random("a-en").shuffle(order)
    assert joined.text == " ".join(f"t{n}" for n in order[: len(joined.paths)])
    assert len(joined.paths) in {3, 4}
    assert all(4_800 <= pause <= 16_000 for pause in joined.pauses)
    audio = joined.load()
    assert audio.size == round(joined.seconds * 16_000) <= 4.9 * 16_000
    assert np.count_nonzero(audio) == 16_000 * len(joined.paths)
    assert join_clips(clips, JoinPlan("a", "en", 4.9)) == joined


def test_join_clips_shares_are_disjoint() -> None:
    clips = [recording(f"a/{n}") for n in range(6)]
    halves = [
        set(join_clips(clips, JoinPlan("a", "en", 99, n, 2)).paths) for n in (0, 1)
    ]
    assert halves[0] | halves[1] == {Path(str(n)) for n in range(6)}
    assert not halves[0] & halves[1]


def test_join_all_leaves_out_missing_sets() -> None:
    clips = [recording("ljspeech/1"), recording("fleurs/1", "de"), recording("x/1")]
    assert [r.id for r in join_all(clips)] == ["fleurs_de_0", "ljspeech_en_0"]
