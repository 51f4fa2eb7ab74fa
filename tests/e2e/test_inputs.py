"""Inputs that are odd, closed, broken or missing: each is one line, the others are transcribed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.e2e.conftest import DEMO, DEMO_TEXT, PATIENCE_S, Command, one_line
from tests.fakes.sounds import write_media

MICRO = ("transcribe", "--model", "micro")


@pytest.fixture(scope="module")
def surround(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight channels in a container that only FFmpeg reads."""
    return write_media(
        tmp_path_factory.mktemp("media") / "7.1.mkv", "flac", 48_000, layout="7.1"
    )


def without_root_rights(*command: object) -> list[str]:
    """Return a command that runs without root's right to read everything."""
    if os.geteuid() != 0:
        return [*map(str, command)]
    if shutil.which("setpriv") is None:
        pytest.skip(
            "the superuser may look everywhere, and there is no setpriv to drop that right"
        )
    return [
        "setpriv",
        "--bounding-set=-dac_override,-dac_read_search",
        *map(str, command),
    ]


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder without read permission."""
    folder = tmp_path / "many" / "closed"
    folder.mkdir(parents=True)
    shutil.copy(DEMO, folder.parent)
    shutil.copy(DEMO, folder)
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_transcribe_broken_inputs_leave_the_others(
    whisper_hailo: Command, tmp_path: Path, surround: Path, batch_size: int
) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "never.wav")
    (tmp_path / "noise.m4a").write_bytes(b"\0\0\0\x18ftypM4A " + bytes(range(256)) * 40)
    bad = [
        "x" * 300 + ".wav",
        "",
        "\x1b[31mred\n.wav",
        tmp_path / "empty",
        tmp_path / "noise.m4a",
    ]
    words = [*bad, tmp_path / "never.wav", surround, DEMO]
    result = whisper_hailo(*MICRO, "--json", "--batch-size", batch_size, *words)
    assert result.returncode == 3
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["audio"] for line in printed] == [str(word) for word in words]
    assert [line.get("exit_code") for line in printed] == [3] * 6 + [None] * 2
    assert printed[-1]["text"] == DEMO_TEXT
    errors = [
        line
        for line in result.stderr.splitlines()
        if line.startswith("whisper-hailo: ")
    ]
    assert len(errors) == 6
    assert max(map(len, errors)) <= 500
    assert "File name too long" in errors[0]
    assert "'' is not a valid file name" in errors[1]
    assert r"'\x1b[31mred\n.wav' does not exist" in errors[2]
    assert "holds no audio files" in errors[3]
    assert "noise.m4a is not readable audio" in errors[4]
    assert "a pipe that received no data for 10 s" in errors[5]


def test_transcribe_closed_folder_is_named(
    environment: dict[str, str], closed: Path
) -> None:
    for folder in (closed, closed.parent):
        command = (sys.executable, "-m", "whisper_hailo", *MICRO, folder, DEMO)
        result = subprocess.run(
            without_root_rights(*command), env=environment, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert result.returncode == 3, result.stderr
        line = one_line(result)
        assert f"{closed} cannot be read (Permission denied)" in line
        assert result.stdout.count(DEMO_TEXT.split()[-1]) == (
            1 if folder == closed else 2
        )


def test_transcribe_split_accepts_changing_channels(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    parts = [
        write_media(tmp_path / f"{layout}.aac", "aac", 16_000, layout=layout)
        for layout in ("stereo", "mono")
    ]
    chained = tmp_path / "chained.aac"
    chained.write_bytes(b"".join(part.read_bytes() for part in parts))
    result = whisper_hailo(*MICRO, "--channels", "split", chained)
    assert result.returncode == 0, result.stderr


def test_transcribe_split_of_standard_input_equals_the_file(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    """Two readers of one file, in turns, as times of segments and a batch make them."""
    audio, rate_hz = soundfile.read(DEMO, dtype="float32")
    late = np.concatenate([np.zeros(5 * rate_hz, np.float32), audio])[: audio.size]
    soundfile.write(tmp_path / "two.wav", np.stack([audio, late], axis=1), rate_hz)
    words = (*MICRO, "--timestamps", "--channels", "split", "--batch-size", 4)
    by_name = whisper_hailo(*words, tmp_path / "two.wav")
    assert by_name.returncode == 0, by_name.stderr
    with (tmp_path / "two.wav").open("rb") as file:
        redirected = whisper_hailo(*words, "-", stdin=file)
    content = (tmp_path / "two.wav").read_bytes()
    piped = whisper_hailo(*words, "-", input=content, text=False)
    assert redirected.stdout == piped.stdout.decode() == by_name.stdout
    assert "breaks off" not in redirected.stderr


def test_transcribe_foreign_output_file_is_refused(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    """Nor is anything else that only has the name of a result."""
    shutil.copy(DEMO, tmp_path / "demo.flac")
    shutil.copy(DEMO, tmp_path / "other.flac")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "demo.json").write_text('{"settings": 1}')
    words = ("--output-dir", tmp_path / "out", "--format", "json")
    result = whisper_hailo(
        *MICRO, *words, tmp_path / "demo.flac", tmp_path / "other.flac"
    )
    assert result.returncode == 7
    assert "demo.json exists and does not look like a JSON transcript" in one_line(
        result
    )
    assert (tmp_path / "out" / "demo.json").read_text() == '{"settings": 1}'
    other = (tmp_path / "out" / "other.json").read_text()
    assert json.loads(other)["text"] == DEMO_TEXT
    again = whisper_hailo(*MICRO, *words, tmp_path / "other.flac")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out" / "other.json").read_text() == other


def test_convert_after_a_killed_run_leaves_nothing(
    environment: dict[str, str], whisper_hailo: Command, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "whisper_hailo",
        "convert",
        "micro",
        str(tmp_path / "out"),
    ]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob(".out.writing.*/*")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / ".whisper-hailo.writing.left").touch()
    assert len(list(tmp_path.iterdir())) == 2
    assert whisper_hailo("convert", "micro", tmp_path / "out").returncode == 0
    result = whisper_hailo(
        "transcribe", "--model", tmp_path / "out", "--output-dir", tmp_path, DEMO
    )
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.txt", "out"]
