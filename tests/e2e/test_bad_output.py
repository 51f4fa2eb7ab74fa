"""Output that cannot be written is one line, and killed runs are resumed to the same files."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import (
    DEMO,
    DEMO_TEXT,
    PATIENCE_S,
    Command,
    heeds_interrupts,
    one_line,
)
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


def test_transcribe_output_over_an_input_is_refused(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    recording = tmp_path / "recording.txt"  # audio is recognised by its content
    shutil.copy(DEMO, recording)
    before = recording.read_bytes()
    result = whisper_hailo(
        "transcribe", "--model", "micro", "--output-dir", tmp_path, recording
    )
    assert result.returncode == 2
    assert recording.name in one_line(result)
    assert recording.read_bytes() == before


def test_transcribe_odd_file_names_in_any_locale_work(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    names = [os.fsdecode(b"\xff\xfe.flac"), "日本語 ñ.flac", "two\nlines.flac"]
    files = [tmp_path / name for name in names]
    for file in files:
        shutil.copy(DEMO, file)
    for env in (
        {"LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "utf-8"},
    ):
        for words in ([], ["--json"]):
            result = whisper_hailo(
                "transcribe", "--model", "micro", *words, *files, env=env
            )
            assert result.returncode == 0, result.stderr

            assert result.stdout.count(DEMO_TEXT.split()[-1]) >= len(files)
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["audio"] for line in printed] == [str(file) for file in files]
    missing = whisper_hailo("transcribe", "--model", "micro", tmp_path / "no\nsuch.wav")
    assert r"no\nsuch.wav'" in one_line(missing)


def test_transcribe_closed_streams_change_no_file(
    environment: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    program = f"{sys.executable} -m whisper_hailo transcribe --model micro"
    command = f"{program} --output-dir {out} {DEMO}"
    for closed in (">&-", "2>&-", ">&- 2>&-", "<&-"):
        process = subprocess.run(
            ["sh", "-c", f"{command} {closed}"],
            env=environment,
            check=False,
            timeout=PATIENCE_S,
        )
        assert process.returncode == 0, closed
        assert (out / "demo.txt").read_text(
            encoding="utf-8"
        ).split() == DEMO_TEXT.split()
        (out / "demo.txt").unlink()


def test_convert_terminated_leaves_all_or_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """SIGTERM after a number of files: the directory is complete, or not there."""
    codes = set()
    for n_written in (0, 1, 2, 3, 4, 5, 6, 7):
        out = tmp_path / "out"
        process = subprocess.Popen(
            [sys.executable, "-m", "whisper_hailo", "convert", "micro", str(out)],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while len(list(tmp_path.rglob("*"))) < n_written and process.poll() is None:
            time.sleep(0.001)
        process.terminate()
        codes.add(process.wait(timeout=PATIENCE_S))
        entries = [entry.name for entry in tmp_path.iterdir()]
        assert entries in ([], ["out"])
        if entries:
            assert (out / "model.json").is_file()
            shutil.rmtree(out)
    assert codes <= {0, 128 + signal.SIGTERM, -signal.SIGTERM}
    assert codes & {128 + signal.SIGTERM, -signal.SIGTERM}


def test_transcribe_full_standard_output_is_one_line(whisper_hailo: Command) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        result = whisper_hailo(
            "transcribe",
            "--model",
            "micro",
            DEMO,
            capture_output=False,
            stdout=full,
            stderr=-1,
        )
    assert result.returncode == 7
    assert os.strerror(errno.ENOSPC) in one_line(result)


def limit_file_size() -> None:
    """Writing more than 64 KiB to one file fails, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))


def test_convert_full_disk_leaves_nothing(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    result = whisper_hailo(
        "convert", "micro", tmp_path / "out", preexec_fn=limit_file_size
    )
    assert result.returncode == 7
    assert os.strerror(errno.EFBIG) in one_line(result)
    assert not list(tmp_path.iterdir())


def test_transcribe_unwritable_cache_names_its_variable(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    env = {"WHISPER_HAILO_CACHE": str(tmp_path / "file" / "cache")}
    result = whisper_hailo("transcribe", "--model", "micro", DEMO, env=env)
    assert result.returncode == 7
    assert "WHISPER_HAILO_CACHE" in one_line(result)


def test_transcribe_unwritable_output_folder_is_named(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    result = whisper_hailo("transcribe", "--model", "micro", "--output-dir", file, DEMO)
    assert result.returncode == 7
    assert str(file) in one_line(result)


def test_transcribe_reader_that_left_is_no_error(whisper_hailo: Command) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        result = whisper_hailo(
            "transcribe",
            "--model",
            "micro",
            DEMO,
            capture_output=False,
            stdout=pipe,
            stderr=-1,
        )
    assert result.returncode == 0
    # The lines name what runs; none is an error.
    first_words = {line.split()[0] for line in result.stderr.splitlines()}
    assert first_words <= {"converting", "encoder", "decoder", f"{DEMO}:"}


def test_convert_foreign_directory_is_refused(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    keep = tmp_path / "out" / "thesis.txt"
    keep.parent.mkdir()
    keep.write_text("years of work", encoding="utf-8")
    result = whisper_hailo("convert", "micro", keep.parent)
    assert result.returncode != 0
    assert "out" in one_line(result)
    assert keep.read_text(encoding="utf-8") == "years of work"


@pytest.mark.parametrize("shape", ["2>/dev/full", "2>&-", "2>&1 >/dev/null | true"])
def test_transcribe_failing_standard_error_stops_nothing(
    environment: dict[str, str], tmp_path: Path, shape: str
) -> None:
    """Standard error would have the error of the missing input and the output of the other."""
    missing = tmp_path / "missing.wav"
    out = tmp_path / "out"
    words = f"transcribe --model micro --output-dir {out} {missing} {DEMO}"
    command = f"{sys.executable} -m whisper_hailo {words} {shape}"
    process = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        env=environment, check=False, timeout=PATIENCE_S, capture_output=True, text=True,
    )  # fmt: skip
    assert process.stdout == "3\n"
    assert (out / "demo.txt").read_text(encoding="utf-8").split() == DEMO_TEXT.split()


@pytest.mark.parametrize(
    ("words", "shape", "code"),
    [
        ("--help", "| true", 0),
        ("transcribe --help", "| true", 0),
        ("--version", "| true", 0),
        ("--help", ">/dev/full", 7),
        ("caption --help", ">/dev/full", 7),
        ("--version", ">/dev/full", 7),
    ],
)
def test_help_without_reader_ends_with_its_code(
    environment: dict[str, str], words: str, shape: str, code: int
) -> None:
    # The program starts when the reader has left.
    command = f"(sleep 0.5; exec {sys.executable} -m whisper_hailo {words}) {shape}"
    process = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}} >&2"],
        env=environment, check=False, timeout=PATIENCE_S, capture_output=True, text=True,
    )  # fmt: skip
    *messages, last = process.stderr.splitlines()
    assert last == str(code)
    if code:
        (message,) = messages
        assert message.startswith("whisper-hailo: ")
        assert os.strerror(errno.ENOSPC) in message
    else:
        assert not messages


def test_command_in_a_deleted_directory_has_its_code(
    environment: dict[str, str], whisper_hailo: Command, tmp_path: Path
) -> None:
    whisper_hailo("transcribe", "--model", "micro", DEMO)  # the model is converted
    codes = {
        f"transcribe --model micro {DEMO}": 0,
        "transcribe --model micro a.wav": 3,
        f"transcribe --model micro --output-dir out {DEMO}": 2,
        "convert micro out": 2,
    }
    for words, code in codes.items():
        gone = tmp_path / "gone"
        gone.mkdir()
        command = f"rmdir {gone}; exec {sys.executable} -m whisper_hailo {words}"
        process = subprocess.run(
            ["sh", "-c", command],
            cwd=gone, env=environment, check=False, timeout=PATIENCE_S, capture_output=True,
            text=True,
        )  # fmt: skip
        assert process.returncode == code, process.stderr
        if code:
            assert one_line(process)


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
