"""Killed runs are resumed: their files are those of an uninterrupted run."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import Command, heeds_interrupts
from whisper_hailo.text.formats import FORMATS
from whisper_hailo_lab.clip_archives import unpack_clips

SEEN = unpack_clips() / "seen"
N_CLIPS = 6
MICRO = (
    "transcribe",
    "--model",
    "micro",
    "--threads",
    1,
    "--format",
    "all",
    "--word-timestamps",
)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings in two folders."""
    root = tmp_path_factory.mktemp("clips")
    for index, clip in enumerate(sorted(SEEN.glob("*.ogg"))[:N_CLIPS]):
        folder = root / ("a" if index < N_CLIPS // 2 else "b/c")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(clip, folder)
    return root


def read_tree(folder: Path, suffix: str = "") -> dict[str, str]:
    """Return content by name; files that a killed process was writing have hidden names."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob(f"*{suffix}"))
        if path.is_file() and ".part" not in path.name and not path.name.startswith(".")
    }


@pytest.fixture(scope="module")
def uninterrupted(
    whisper_hailo: Command, clips: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Files of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert whisper_hailo(*MICRO, "--output-dir", folder, clips).returncode == 0
    files = read_tree(folder)
    assert len(files) == N_CLIPS * len(FORMATS)
    return files


def kill_after(n_files: int, environment: dict[str, str], *words: object) -> None:
    """Start the command and kill it as soon as it has reported a number of files."""
    process = subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *map(str, words)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            n_files -= line.startswith("wrote ")
            if not n_files:
                process.kill()
                break
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("n_files", [1, 7])
def test_transcribe_resumed_equals_an_uninterrupted_run(  # noqa: PLR0917
    environment: dict[str, str],
    whisper_hailo: Command,
    clips: Path,
    uninterrupted: dict[str, str],
    tmp_path: Path,
    n_files: int,
) -> None:
    words = (*MICRO, "--output-dir", tmp_path, clips)
    kill_after(n_files, environment, *words)
    files_left = read_tree(tmp_path)
    assert n_files <= len(files_left) < len(uninterrupted)
    assert (
        files_left.items() <= uninterrupted.items()
    )  # whole files, none of them half written
    # As if it had been killed between two formats of its first recording.
    (tmp_path / next(iter(files_left))).unlink()
    resumed = whisper_hailo(*words, "--skip-existing")
    assert resumed.returncode == 0, resumed.stderr
    assert read_tree(tmp_path) == uninterrupted
    again = whisper_hailo(*words, "--skip-existing")
    assert f"{N_CLIPS} of {N_CLIPS}" in again.stderr
    assert "wrote" not in again.stderr


@pytest.mark.parametrize("seed", range(3))
def test_transcribe_skip_existing_fills_in_missing_files(
    whisper_hailo: Command,
    clips: Path,
    uninterrupted: dict[str, str],
    tmp_path: Path,
    seed: int,
) -> None:
    kept = np.random.default_rng(seed).random(len(uninterrupted)) < 0.7
    for (name, text), is_kept in zip(uninterrupted.items(), kept, strict=True):
        if is_kept:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    result = whisper_hailo(*MICRO, "--output-dir", tmp_path, "--skip-existing", clips)
    assert result.returncode == 0, result.stderr
    assert read_tree(tmp_path) == uninterrupted
    stems = {str(Path(name).with_suffix("")) for name in uninterrupted}
    whole = sum(
        all(kept[i] for i, name in enumerate(uninterrupted) if name.startswith(stem))
        for stem in stems
    )
    assert result.stderr.count("wrote ") == (N_CLIPS - whole) * len(FORMATS)


def test_transcribe_resumed_batches_have_the_same_texts(
    environment: dict[str, str],
    whisper_hailo: Command,
    clips: Path,
    uninterrupted: dict[str, str],
    tmp_path: Path,
) -> None:
    """Only texts are compared: other batches round probabilities in another order."""
    words = (*MICRO, "--batch-size", 4, "--output-dir", tmp_path, clips)
    kill_after(3, environment, *words)
    assert len(read_tree(tmp_path)) < len(uninterrupted)
    assert whisper_hailo(*words, "--skip-existing").returncode == 0
    assert read_tree(tmp_path).keys() == uninterrupted.keys()
    texts = {
        name: text for name, text in uninterrupted.items() if name.endswith(".txt")
    }
    assert read_tree(tmp_path, ".txt") == texts


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of many windows."""
    path = tmp_path_factory.mktemp("minutes") / "talk.wav"
    clips = [
        soundfile.read(clip, dtype="float32")[0] for clip in sorted(SEEN.glob("*.ogg"))
    ]
    soundfile.write(path, np.resize(np.concatenate(clips), 150 * 16_000), 16_000)
    return path


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_transcribe_interrupted_recording_is_resumed(
    environment: dict[str, str],
    whisper_hailo: Command,
    minutes: Path,
    tmp_path: Path,
    ending: int,
) -> None:
    words = (*MICRO[:-1], "--output-dir", tmp_path, minutes)
    process = subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *map(str, words)],
        env=environment, stderr=subprocess.PIPE,
        preexec_fn=heeds_interrupts,  # noqa: PLW1509 - it takes no lock
    )  # fmt: skip
    growing = tmp_path / "talk.part.jsonl"
    while not growing.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(ending)
    error = process.communicate()[1].decode()
    assert process.returncode == (130 if ending == signal.SIGINT else -ending)
    assert ("resumes" in error) is (ending == signal.SIGINT)
    resumed = whisper_hailo(*words)
    assert "talk.wav: resuming after" in resumed.stderr
    uninterrupted = whisper_hailo(*words[:-2], tmp_path / "uninterrupted", minutes)
    assert uninterrupted.returncode == resumed.returncode == 0
    files = read_tree(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"talk.{fmt}" for fmt in FORMATS),
        "uninterrupted",
    }
    for fmt in FORMATS:
        assert files[f"talk.{fmt}"] == files[f"uninterrupted/talk.{fmt}"]


def test_transcribe_prints_text_as_it_comes(
    environment: dict[str, str], minutes: Path
) -> None:
    words = ("transcribe", "--model", "micro", "--timestamps", minutes)
    process = subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *map(str, words)],
        env=environment, stdout=-1, stderr=-1, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    first = process.stdout.readline()
    still_runs = process.poll() is None
    process.kill()
    process.communicate()
    assert re.match(r"\[00:0\d\.\d{3} --> 00:\d\d\.\d{3}\]  \w", first)
    assert still_runs
