"""Channels of a recording as speakers, in `transcribe`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.fakes.transcribe_command import Many, many, stereo
from whisper_hailo.cli import progress
from whisper_hailo.cli.app import run
from whisper_hailo.core.errors import AudioError, ExitCode

__all__ = ["many", "stereo"]


@pytest.mark.parametrize("words", ["-di", "--diarize", "--channels split"])
@pytest.mark.usefixtures("many")
def test_transcribe_channel_aliases_split_speakers(
    words: str, stereo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", str(stereo), *words.split(), "--json"]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    assert [segment["speaker"] for segment in segments] == [1, 0]


@pytest.mark.parametrize(("words", "batch_size"), [("", None), ("--batch-size 4", 4)])
def test_transcribe_channels_split_merges_by_time(
    many: Many, words: str, batch_size: int | None, stereo: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    typed = [
        "transcribe",
        stereo.name,
        "--channels",
        "split",
        "--task",
        "translate",
        "--long",
    ]
    assert run([*typed, "overlap", *words.split(), "--json"]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    assert [(segment["speaker"], segment["start"]) for segment in segments] == [
        (1, 0.0),
        (0, 1.0),
    ]
    ((options, long, size),) = many.together
    assert (options.task, long.strategy if long else "", size) == (
        "translate",
        "overlap",
        batch_size,
    )


def test_transcribe_channels_progress_line_is_erased(
    many: Many,
    monkeypatch: pytest.MonkeyPatch,
    stereo: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    monkeypatch.setattr(progress, "terminal_width", lambda: 80)
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    monkeypatch.setattr(many, "before_progress", lambda: now.append(now.pop() + 20.0))
    many.failing = {0: AudioError("it is broken")}
    assert run(["transcribe", str(stereo), "--channels", "split"]) == ExitCode.AUDIO
    erase = "\r\x1b[K"
    output = f"{erase}stereo.wav: 1:40 of 10:00, 5.0 x real time, 1:40 left{erase}whisper-hailo: "
    assert capsys.readouterr().err.startswith(output)


def test_transcribe_failing_channel_fails_recording(
    many: Many, stereo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mono = tmp_path / "mono.wav"
    soundfile.write(mono, np.zeros(1600), 16_000)
    many.failing = {1: AudioError("stereo.wav is broken")}
    assert (
        run(["transcribe", mono.name, stereo.name, "--channels", "split"])
        == ExitCode.AUDIO
    )
    output = capsys.readouterr()
    assert output.out == ""
    first, second = output.err.splitlines()[-2:]
    assert "mono.wav" in first
    assert second == "whisper-hailo: stereo.wav is broken"
