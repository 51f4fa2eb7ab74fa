from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lab.tests.unit.runs.test_outcomes import make_line
from whisper_hailo_lab.accuracy.setups import (
    MODELS_VARIABLE,
    AccuracySetup,
    RememberingEncoder,
    locate_model,
    make_setups,
)
from whisper_hailo_lab.accuracy.tables import compare_files
from whisper_hailo_lab.accuracy.transcribe import transcribe_all
from whisper_hailo_lab.clip_archives import find_clips, text_beside
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_lab.repository import MICRO
from whisper_hailo_lab.runs.transcripts import read_transcripts


def test_make_setups_has_all_combinations() -> None:
    setups = make_setups(
        ["base"], ["none", "int8"], ["default", "5"], ["off"], ["given"]
    )
    assert [setup.name for setup in setups] == [
        "base-none-wdefault-given-text",
        "base-none-w5-given-text",
        "base-int8-wdefault-given-text",
        "base-int8-w5-given-text",
    ]
    assert len({setup.engine_key for setup in setups}) == 4
    times = AccuracySetup("/models/base", "int8", 5.0, True, options={"beam_size": 5})
    assert times.name == "base-int8-w5-detected-timestamps-beam_size=5"
    assert times.as_json()["beam_size"] == 5


def test_locate_model_prefers_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "base").mkdir()
    monkeypatch.setenv(MODELS_VARIABLE, str(tmp_path))
    assert locate_model("base") == str(tmp_path / "base")
    assert locate_model("tiny.en") == "tiny.en"
    monkeypatch.delenv(MODELS_VARIABLE)
    assert locate_model("base") == "base"


class CountingEncoder:
    calls = 0

    def encode(self, mel: np.ndarray) -> np.ndarray:
        self.calls += 1
        return mel + 1


def test_remembering_encoder_computes_a_window_once() -> None:
    counting = CountingEncoder()
    encoder = RememberingEncoder(counting)  # type: ignore[arg-type]
    first_mel = np.zeros((1, 2, 4), np.float32)
    second_mel = np.zeros((1, 4, 2), np.float32)
    assert (encoder.encode(first_mel) == 1).all()
    assert encoder.saved_s == 0.0
    assert encoder.encode(first_mel).shape == first_mel.shape
    assert encoder.encode(second_mel).shape == second_mel.shape
    assert counting.calls == 2
    assert encoder.saved_s > 0.0
    encoder.forget()
    encoder.encode(first_mel)
    assert counting.calls == 3


@pytest.mark.slow
def test_transcribe_all_adds_missing_transcripts(tmp_path: Path) -> None:
    clips = [
        SpeechRecording(
            "seen", path.stem, text_beside(path), "en", 4.0, "made", (path,)
        )
        for path in find_clips("seen")[:2]
    ]
    setups = make_setups(
        [str(MICRO)], ["none"], ["default"], ["off", "on"], ["detected"]
    )
    first = transcribe_all(setups, clips[:1], tmp_path)
    path = tmp_path / f"{setups[0].name}.jsonl"
    line = json.loads(path.read_text(encoding="utf-8"))
    assert line["reference"] == clips[0].text
    assert line["text"]
    assert line["machine"]
    assert line["seconds_cpu"] > 0
    path.write_text(
        path.read_text(encoding="utf-8").replace(line["text"], "KEPT"), "utf-8"
    )
    both = transcribe_all(setups, clips, tmp_path)
    assert [len(lines) for lines in first.values()] == [1, 1]
    assert [len(lines) for lines in both.values()] == [2, 2]
    assert read_transcripts(path)[0].text == "KEPT"


def test_compare_files_compares_with_the_first() -> None:
    good = [make_line("red blue", "red blue", id=n) for n in "abc"]
    bad = [make_line("red blue", "red", id=n) for n in "abd"]
    table = compare_files({"good": good, "bad": bad})
    assert [row[:4] for row in table.rows] == [
        ("good", "2", "0.0 %", "0 of 4"),
        ("bad", "2", "50.0 %", "2 of 4"),
    ]
    assert table.rows[0][-1] == "-"
    assert table.rows[1][-1] == "+50.0 (+50.0 to +50.0)"
