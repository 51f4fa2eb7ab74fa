"""Timing of one file: the real command, tables and JSON."""

from __future__ import annotations

import json

from tests.e2e.conftest import DEMO, DEMO_TEXT, Command, one_line


def test_time_json_has_every_stage_and_the_memory(whisper_hailo: Command) -> None:
    words = ("--model", "micro", "--threads", 1, "--iterations", 2, "--json")
    result = whisper_hailo("time", DEMO, *words)
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    assert printed["text"] == DEMO_TEXT
    stages = printed["stages_ms"]
    for name in (
        "mel",
        "encode",
        "cross K/V",
        "first token",
        "further tokens",
        "total",
    ):
        assert stages[name]["n"] == 2
        assert set(stages[name]) == {"mean", "std", "min", "max", "median", "n"}
    assert stages["per token"]["n"] == sum(map(len, printed["token_ms"])) > 20
    assert set(printed["memory_mib"]) == {"encoder", "decoder", "peak"}
    assert printed["temperature_c"] == []
    assert printed["settings"]["encoder"] == "onnx-int8"


def test_time_prints_a_table(whisper_hailo: Command) -> None:
    result = whisper_hailo("time", DEMO, "--model", "micro", "--iterations", 1)
    assert result.returncode == 0, result.stderr
    assert DEMO_TEXT in result.stdout
    assert "per token" in result.stdout


def test_time_refusals_are_one_line(whisper_hailo: Command) -> None:
    result = whisper_hailo("time", "nowhere.wav", "--model", "micro")
    assert result.returncode == 3
    assert result.stdout == ""
    assert "nowhere.wav" in one_line(result)
    result = whisper_hailo("time", DEMO, "--model", "micro", "--iterations", 0)
    assert result.returncode == 2
    assert "--iterations" in one_line(result)
