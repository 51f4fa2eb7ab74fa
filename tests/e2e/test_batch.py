"""An archive on this machine, interrupted and with broken files, and what is decoded together."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.conftest import Command, one_line
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Transcript
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions, SearchOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo_lab.clip_archives import unpack_clips

CLIPS = sorted((unpack_clips() / "seen").glob("*.ogg"))
OPTIONS = ("--model", "micro", "--language", "en", "--format", "srt")
SHORTEST_S = 0.01
LONGEST_S = 6.0
LAYOUTS = {
    "greedy": DecodingOptions(),
    "beam": DecodingOptions(search=SearchOptions(beam_size=3)),
    "sampled": DecodingOptions(
        search=SearchOptions(temperatures=(0.7,), best_of=2, seed=3)
    ),
    "timed": DecodingOptions(timestamps=True),
    "prompted": DecodingOptions(
        prompts=PromptOptions(initial_prompt="Vienna", hotwords="peninsula")
    ),
    "conditioned": DecodingOptions(
        prompts=PromptOptions(condition_on_previous_text=True)
    ),
}


def make_archive(folder: Path) -> Path:
    """Make a folder of thirty files, two of which are no recordings."""
    folder.mkdir()
    for clip in CLIPS[:28]:
        (folder / clip.name).symlink_to(clip)
    (folder / "poison.wav").write_bytes(b"no sound")
    (folder / "empty.flac").touch()
    return folder


def read_results(folder: Path) -> dict[str, bytes]:
    paths = [
        path
        for name in ("transcripts", "srt", "failures")
        for path in (folder / name).rglob("*.*")
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def uninterrupted(
    whisper_hailo: Command, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    source = make_archive(folder / "archive")
    run = whisper_hailo(
        "batch", source, *OPTIONS, "-o", folder / "job", "--workers", 1, "-q"
    )
    assert run.returncode == 3
    assert run.stdout == ""
    return source, read_results(folder / "job")


def test_batch_transcribes_recordings_and_lists_failures(
    whisper_hailo: Command, uninterrupted: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    source, written = uninterrupted
    lines = written["transcripts/part-00000.jsonl"].splitlines()
    records = {record["id"]: record for record in map(json.loads, lines)}
    assert list(records) == sorted(path.stem for path in source.iterdir())
    clip = CLIPS[3]
    alone = whisper_hailo(
        "transcribe", clip, "--model", "micro", "--language", "en", "-q"
    )
    assert records[clip.stem]["text"] == " ".join(alone.stdout.split("\n")).strip()
    assert "-->" in written[f"srt/{clip.stem}.srt"].decode()
    job = source.parent / "job"
    listed = job / "failures" / "part-00000.jsonl"
    failures = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [(entry["id"], entry["error"]["kind"]) for entry in failures] == [
        ("empty", "audio"),
        ("poison", "audio"),
    ]
    status = whisper_hailo("batch", "status", job)
    assert re.findall(r"\d+", status.stdout.splitlines()[0]) == ["28", "30", "2", "0"]
    status_fields = json.loads(whisper_hailo("batch", "status", job, "--json").stdout)
    assert status_fields["items"] == 30
    assert status_fields["remaining"] == 0
    assert status_fields["failures"] == {"audio": 2}
    # The list of failures is a manifest, too.
    again = whisper_hailo("batch", listed, *OPTIONS, "-o", tmp_path / "again", "-q")
    assert again.returncode == 3
    status_fields = json.loads(
        whisper_hailo("batch", "status", tmp_path / "again", "--json").stdout
    )
    assert status_fields["items"] == 2
    assert status_fields["failed"] == 2


def test_batch_text_equals_transcribe(whisper_hailo: Command, tmp_path: Path) -> None:
    sounds = [load_audio(clip) for clip in CLIPS[:20]]
    long = tmp_path / "long.wav"  # of many windows
    soundfile.write(long, np.concatenate(sounds), SAMPLE_RATE_HZ, subtype="PCM_16")
    recordings = [*CLIPS[:20], long]
    lines = [json.dumps({"audio": str(path), "id": path.stem}) for path in recordings]
    manifest = tmp_path / "archive.jsonl"
    manifest.write_text("\n".join(lines))
    words = ("--model", "micro", "--language", "en", "-q")
    job = ("-o", tmp_path / "job", "--batch-size", 1)
    assert whisper_hailo("batch", manifest, *words, *job).returncode == 0
    files = ("-f", "json", "-o", tmp_path / "texts", "--batch-size", 1)
    assert whisper_hailo("transcribe", *recordings, *words, *files).returncode == 0
    written = (
        (tmp_path / "job" / "transcripts" / "part-00000.jsonl").read_text().splitlines()
    )
    for path, line in zip(recordings, written, strict=True):
        record = json.loads(line)
        uninterrupted = json.loads(
            (tmp_path / "texts" / f"{path.stem}.json").read_text()
        )
        expected_segments = [
            (entry["start"], entry["end"], entry["text"])
            for entry in uninterrupted["segments"]
        ]
        assert record["text"] == uninterrupted["text"]
        assert [
            (entry["start"], entry["end"], entry["text"])
            for entry in record["segments"]
        ] == expected_segments
    assert record["duration"] > 60


def test_batch_killed_runs_give_the_same_bytes(
    environment: dict[str, str],
    uninterrupted: tuple[Path, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    source, written = uninterrupted
    words = ("batch", source, *OPTIONS, "-o", tmp_path / "job", "--workers", 2, "-q")
    command = [sys.executable, "-m", "whisper_hailo", *map(str, words)]
    for wait_s in (1.0, 3.0, 5.0):
        run = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        time.sleep(wait_s)
        for child in find_children(run.pid)[:1]:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.2)
        run.kill()
        run.wait()
    last = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert last.returncode == 3, last.stderr
    assert read_results(tmp_path / "job") == written


def limit_file_size() -> None:
    """Writing more than 12 KiB to one file fails, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_288, 12_288))


def test_batch_full_disk_resumes_with_the_same_command(
    environment: dict[str, str],
    uninterrupted: tuple[Path, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    source, written = uninterrupted
    words = ("batch", source, *OPTIONS, "-o", tmp_path / "job", "--workers", 1, "-q")
    command = [sys.executable, "-m", "whisper_hailo", *map(str, words)]
    full = subprocess.run(
        command, env=environment, capture_output=True, text=True, preexec_fn=limit_file_size,
        check=False,
    )  # fmt: skip
    assert full.returncode == 7
    (line,) = full.stderr.splitlines()
    assert os.strerror(errno.EFBIG) in line
    assert not [
        name
        for name in read_results(tmp_path / "job")
        if name.startswith("transcripts")
    ]
    again = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert again.returncode == 3, again.stderr
    assert read_results(tmp_path / "job") == written


def find_children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def test_batch_impossible_commands_are_one_line(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    for words, code, message in (
        (("batch", tmp_path), 2, "--output-dir"),
        (
            ("batch", tmp_path, "-o", tmp_path / "o", "-m", "micro"),
            3,
            tmp_path.name,
        ),
        (("batch", "status", tmp_path), 2, tmp_path.name),
        (("batch", "a", "b", "-o", tmp_path / "o", "-m", "micro"), 3, "a "),
        (("batch", tmp_path, "-o", "o", "--address", "x"), 2, "--address"),
        (("batch", tmp_path, "-o", "o", "--workers", 0), 2, "--workers is 0"),
    ):
        result = whisper_hailo(*words)
        assert result.returncode == code, result.stderr
        assert message in one_line(result)


@pytest.fixture(scope="module")
def micro() -> Iterator[Transcriber]:
    with Transcriber.from_model(
        "micro", quantize="none", window_s=3, threads=1
    ) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def speech() -> FloatArray:
    clips = sorted((unpack_clips() / "seen").glob("*.ogg"))[:3]
    return np.concatenate([load_audio(clip) for clip in clips])


@st.composite
def cuts(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Draw where recordings begin in the speech, as a share of it, and their length."""
    begin = st.floats(0, 0.6)
    length_s = st.floats(SHORTEST_S, LONGEST_S)
    return draw(st.lists(st.tuples(begin, length_s), min_size=2, max_size=4))


def exact_segments(transcript: Transcript) -> list[Segment]:
    """Return segments without the fields that another order of sums rounds differently."""
    return [
        replace(s, avg_logprob=0.0, no_speech_prob=0.0) for s in transcript.segments
    ]


@pytest.mark.parametrize("name", LAYOUTS)
@given(cuts(), st.integers(2, 5), st.sampled_from(["auto", "consecutive"]))
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_transcribe_many_segments_equal_single_runs(  # noqa: PLR0917
    micro: Transcriber,
    speech: FloatArray,
    name: str,
    layout: list[tuple[float, float]],
    batch_size: int,
    strategy: str,
) -> None:
    options = replace(LAYOUTS[name], max_new_tokens=12)
    long = LongOptions(strategy=strategy)
    recordings = []
    for begin, length_s in layout:
        at = int(begin * speech.size)
        recordings.append(speech[at : at + int(length_s * 16_000)])
    batched_transcripts = micro.transcribe_many(
        recordings, options, long=long, batch_size=batch_size
    )
    for recording, batched in zip(recordings, batched_transcripts, strict=True):
        assert isinstance(batched, Transcript)
        alone = micro.transcribe(recording, options, long=long)
        assert exact_segments(batched) == exact_segments(alone)
