"""The emulated chip: the real commands on the bundled model and real recordings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, DEMO_TEXT, Command, one_line
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.score import score_texts

SPEECH = unpack_clips() / "seen"
PATIENCE_S = 900
"""Fewer seconds of work than that by far, on a machine that does nothing else."""


@pytest.fixture(scope="module")
def model(micro_hailo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(micro_hailo, tmp_path_factory.mktemp("emulate") / "micro")


def test_emulate_then_transcribe(whisper_hailo: Command, model: Path) -> None:
    result = whisper_hailo(
        "emulate", model, "--audio", SPEECH, "--count", 16, timeout=PATIENCE_S
    )
    assert result.returncode == 0, result.stderr
    assert (
        "plan script, scales from 16 windows; noise measured on 16 other"
        in result.stdout
    )
    assert "output_layer1 (525): SNR " in result.stdout
    words = ("--part", "decoder", "--audio", SPEECH, "--count", 8, "--json")
    result = whisper_hailo("emulate", model, *words, timeout=PATIENCE_S)
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert [entry["layer"] for entry in facts["outputs"]] == [
        f"output_layer{i}" for i in (1, 2, 3, 4)
    ]
    assert Path(facts["path"]).is_file()
    for chosen in (
        ["--encoder-backend", "emulator"],
        ["--encoder-backend", "emulator", "--decoder-backend", "emulator"],
    ):
        result = whisper_hailo(
            "transcribe", "-v", "--model", model, *chosen, DEMO, timeout=PATIENCE_S
        )
        assert result.returncode == 0, result.stderr
        assert "encoder emulated-script: as asked for" in result.stderr
        assert score_texts([(DEMO_TEXT, result.stdout)]).words.rate < 0.5


def test_bad_input_is_one_line(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    missing = whisper_hailo("emulate", model)
    assert missing.returncode == 2
    assert "--audio DIR" in one_line(missing)
    plan = whisper_hailo("emulate", model, "--audio", SPEECH, "--plan", "all4")
    assert plan.returncode == 2
    assert "--plan is 'all4'" in one_line(plan)
    empty = whisper_hailo("emulate", model, "--audio", tmp_path)
    assert empty.returncode == 3
    assert "audio" in one_line(empty)
    broken = tmp_path / "set.npy"
    broken.write_text("nothing")
    result = whisper_hailo("emulate", model, "--calibration", broken)
    assert result.returncode == 4
    assert "calibration" in one_line(result)
    plain = tmp_path / "plain"
    assert whisper_hailo("convert", "micro", plain).returncode == 0
    result = whisper_hailo("emulate", plain, "--audio", SPEECH)
    assert result.returncode == 4
    assert "--hailo" in one_line(result)
