"""The everyday commands as a new user types them, which `scripts/test-pythons` runs, too."""

from __future__ import annotations

import difflib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from tests.e2e.conftest import DEMO, DEMO_TEXT, Command
from tests.e2e.serving import serve
from whisper_hailo.audio import load_audio

av = pytest.importorskip("av", reason="the media extra is not installed")
pytest.importorskip("openai", reason="openai is not installed: requirements/dev.txt")
pytest.importorskip("fastapi", reason="the server extra is not installed")

from whisper_hailo_lab.experiments.server_clients import (  # noqa: E402
    openai_client,
    realtime_client,
    wyoming_client,
)

MODEL = ("--model", "micro", "--threads", "1")
ALIKE = 0.9
"""Share of letters that lossy audio keeps; the same audio without loss keeps all of them."""


@pytest.fixture(scope="module")
def m4a(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bundled recording as a telephone writes it: AAC in MP4."""
    path = tmp_path_factory.mktemp("media") / "demo.m4a"
    samples = load_audio(DEMO).astype(np.float32)[None]
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=16_000, layout="mono")
        to_stream = av.AudioResampler(
            format=stream.format.name, layout="mono", rate=16_000
        )
        for start in range(0, samples.shape[1], 1024):
            frame = av.AudioFrame.from_ndarray(
                samples[:, start : start + 1024].copy(), format="flt", layout="mono"
            )
            frame.sample_rate = 16_000
            frame.pts = start
            for part in to_stream.resample(frame):
                container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return path


def text_similarity(text: str) -> float:
    """Return how much of the bundled recording's text this is, in [0, 1]."""
    return difflib.SequenceMatcher(None, " ".join(text.split()), DEMO_TEXT).ratio()


def test_transcribe_m4a_prints_text(whisper_hailo: Command, m4a: Path) -> None:
    result = whisper_hailo("transcribe", m4a, *MODEL)
    assert result.returncode == 0, result.stderr
    assert text_similarity(result.stdout) > ALIKE


@pytest.mark.parametrize("command", ["transcribe", "caption"])
def test_commands_that_resample_leak_no_resampler(
    command: str, whisper_hailo: Command, tmp_path: Path
) -> None:
    """soxr reports on standard error what is alive when Python ends."""
    recording = tmp_path / "cd.wav"
    soundfile.write(recording, soxr.resample(load_audio(DEMO), 16_000, 44_100), 44_100)
    result = whisper_hailo(command, recording, *MODEL)
    assert result.returncode == 0, result.stderr
    assert text_similarity(result.stdout) > ALIKE
    assert "nanobind" not in result.stderr


def test_caption_file_writes_subtitles(whisper_hailo: Command, tmp_path: Path) -> None:
    subtitles = tmp_path / "demo.srt"
    result = whisper_hailo("caption", DEMO, *MODEL, "--output", subtitles)
    assert result.returncode == 0, result.stderr
    lines = subtitles.read_text(encoding="utf-8").splitlines()
    spoken = [
        line for line in lines if line and "-->" not in line and not line.isdigit()
    ]
    assert text_similarity(" ".join(spoken)) > ALIKE


def test_convert_makes_a_model_that_transcribes(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    converted = whisper_hailo("convert", "micro", tmp_path / "model")
    assert converted.returncode == 0, converted.stderr
    result = whisper_hailo(
        "transcribe", DEMO, "--model", tmp_path / "model", "--threads", "1"
    )
    assert result.returncode == 0, result.stderr
    assert " ".join(result.stdout.split()) == DEMO_TEXT


def test_batch_writes_a_record_of_each_recording(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    for name in ("a.flac", "b.flac"):
        shutil.copy(DEMO, archive / name)
    result = whisper_hailo(
        "batch", archive, *MODEL, "-o", tmp_path / "job", "--workers", "1"
    )
    assert result.returncode == 0, result.stderr
    parts = sorted((tmp_path / "job" / "transcripts").glob("part-*.jsonl"))
    records = [
        json.loads(line) for part in parts for line in part.read_text().splitlines()
    ]
    assert {record["id"]: record["text"].strip() for record in records} == {
        "a": DEMO_TEXT,
        "b": DEMO_TEXT,
    }


def test_serve_answers_every_protocol(environment: dict[str, str]) -> None:
    with serve(
        environment, "--http", "127.0.0.1:0", "--wyoming", "tcp://127.0.0.1:0"
    ) as served:
        http = served.wait_for(r"serving at (http\S+)")
        wyoming = served.wait_for(r"serving at (tcp\S+)")
        answers = {
            "OpenAI": openai_client(http)(),
            "realtime": realtime_client(http)(),
            "Wyoming": wyoming_client(wyoming)(),
        }
        assert answers == dict.fromkeys(answers, DEMO_TEXT)
        assert served.end() == 0
