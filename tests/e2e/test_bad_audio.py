"""Bad audio and options: one clear line, the documented exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from tests.e2e.conftest import DEMO, DEMO_TEXT, Command, one_line


def write_wav(
    path: Path, samples: np.ndarray, rate_hz: int = 16_000, subtype: str = "PCM_16"
) -> Path:
    sf.write(path, samples, rate_hz, subtype=subtype)
    return path


def write_bad_audio(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.wav"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("RIFF of a different kind\n", encoding="utf-8")
    elif kind == "header":
        path.write_bytes(write_wav(path, np.zeros(100)).read_bytes()[:20])
    elif kind == "nothing":
        write_wav(path, np.zeros(0))
    elif kind == "nan":
        write_wav(path, np.full(16_000, np.nan), subtype="FLOAT")
    elif kind == "folder":
        path.mkdir()
    return path


@pytest.mark.parametrize(
    "kind", ["missing", "empty", "text", "header", "nothing", "nan", "folder"]
)
def test_transcribe_unusable_audio_names_the_file(
    whisper_hailo: Command, tmp_path: Path, kind: str
) -> None:
    path = write_bad_audio(tmp_path, kind)
    result = whisper_hailo("transcribe", "--model", "micro", path)
    assert result.returncode == 3
    assert path.name in one_line(result)
    assert not result.stdout


@pytest.mark.parametrize("n_samples", [1, 100, 16_000])
def test_transcribe_silence_of_any_length_has_no_text(
    whisper_hailo: Command, tmp_path: Path, n_samples: int
) -> None:
    path = write_wav(tmp_path / "quiet.wav", np.zeros(n_samples))
    result = whisper_hailo("transcribe", "--model", "micro", path)
    assert result.returncode == 0, result.stderr
    assert not result.stdout.strip()
    assert path.name in result.stderr


def test_transcribe_inputs_of_one_name_keep_both_outputs(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    twin = tmp_path / "copies" / DEMO.name
    out = tmp_path / "out"
    twin.parent.mkdir()
    shutil.copy(DEMO, twin)
    result = whisper_hailo(
        "transcribe", "--model", "micro", "--output-dir", out, DEMO, twin
    )
    assert result.returncode == 0, result.stderr
    first, second = (path.read_text("utf-8") for path in sorted(out.rglob("*.txt")))
    assert first == second != ""


def test_transcribe_unreachable_hub_names_alternatives(whisper_hailo: Command) -> None:
    result = whisper_hailo("transcribe", DEMO)
    assert result.returncode == 5
    line = one_line(result)
    assert "openai/whisper-tiny" in line
    assert "--model micro" in line


def write_long_recording(path: Path, silence_s: int) -> Path:
    """Write a sparse file of silence with the demo at its end."""
    samples, rate_hz = sf.read(DEMO, dtype="int16")
    content = write_wav(path, samples).read_bytes()
    n_silent = silence_s * rate_hz * 2
    header = bytearray(content[:44])
    data = content[44:]
    header[4:8] = (n_silent + len(data) + 36).to_bytes(4, "little")
    header[40:44] = (n_silent + len(data)).to_bytes(4, "little")
    with path.open("wb") as file:
        file.write(header)
        file.seek(n_silent, os.SEEK_CUR)
        file.write(data)
    return path


def measure_peak_mib(environment: dict[str, str], *words: object) -> tuple[float, str]:
    """Return the peak resident memory of a run of the command, and its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *map(str, words)],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024, output


def test_transcribe_long_recording_takes_flat_memory(
    environment: dict[str, str], whisper_hailo: Command, tmp_path: Path
) -> None:
    whisper_hailo("transcribe", "--model", "micro", DEMO)  # the model is converted
    words = ["transcribe", "--model", "micro", "--json"]
    minute_mib, _ = measure_peak_mib(
        environment, *words, write_long_recording(tmp_path / "minute.wav", 60)
    )
    long = write_long_recording(tmp_path / "long.wav", 900)
    long_mib, output = measure_peak_mib(environment, *words, long)
    printed = json.loads(output)
    assert printed["duration"] > 900
    assert printed["text"].split()[-3:] == DEMO_TEXT.split()[-3:]
    # Samples of 15 minutes are 55 MiB as float32, their log-mel 27, what the encoder gives 22.
    assert long_mib < minute_mib + 20
