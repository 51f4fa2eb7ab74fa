"""Inputs that are odd, closed or broken are one line each; difficult audio is transcribed."""

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
import soundfile as sf

from tests.e2e.conftest import DEMO, DEMO_TEXT, PATIENCE_S, Command, one_line
from tests.fakes.sounds import music, write_media
from tests.shared import WHOLE_WINDOWS
from whisper_hailo import Transcriber
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import DEFAULT_TEMPERATURES, DecodingOptions
from whisper_hailo_lab.clip_archives import unpack_clips

MICRO = ("transcribe", "--model", "micro")
DATA = unpack_clips()
MODEL = ("transcribe", "--model", "micro", "--threads", 1)


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


def read_clip(path: Path) -> FloatArray:
    audio: FloatArray = soundfile.read(path, dtype="float32")[0]
    return audio


@pytest.fixture(scope="module")
def transcriber() -> Iterator[Transcriber]:
    with Transcriber.from_model("micro", threads=1) as opened:
        yield opened


def test_transcribe_music_has_rising_times(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "music.wav", music(40.0), 16_000)
    decode_all = ("--timestamps", "--no-skip-silence", "--json")
    result = whisper_hailo(*MODEL, *decode_all, tmp_path / "music.wav")
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    edges = [edge for s in printed["segments"] for edge in (s["start"], s["end"])]
    assert edges
    assert edges == sorted(edges)
    assert all(0 <= edge <= 40 for edge in edges)
    for segment in printed["segments"]:
        # Repetitive text was tried again up to the highest temperature.
        assert (
            segment["compression_ratio"] <= 2.4
            or segment["temperature"] == DEFAULT_TEMPERATURES[-1]
        )


def test_transcribe_vad_of_music_and_silence_has_no_text(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    quiet = np.zeros(600 * 16_000, np.float32)
    soundfile.write(tmp_path / "hold.wav", np.concatenate([music(20.0), quiet]), 16_000)
    result = whisper_hailo(*MODEL, "--long", "vad", tmp_path / "hold.wav")
    assert result.returncode == 0
    assert result.stdout.strip() == ""
    assert " 620.0 s" in result.stderr


def test_transcribe_offset_and_clipping_keep_words(
    transcriber: Transcriber,
) -> None:
    audio = read_clip(DEMO)
    clean = transcriber.transcribe(audio).text.split()
    louder = np.clip(2 * audio / np.abs(audio).max(), -1, 1)
    for damaged, most in ((audio * 0.5 + 0.4, 0), (louder, len(clean) // 3)):
        words = transcriber.transcribe(damaged).text.split()
        assert len(set(clean) - set(words)) <= most


@pytest.mark.parametrize("index", range(3))
def test_transcribe_detects_the_language_of_each_window(index: int) -> None:
    """Each window has the language that its clip has alone."""
    with Transcriber.from_model("micro", window_s=10, threads=1) as transcriber:
        check_languages_of_windows(transcriber, index)


def check_languages_of_windows(transcriber: Transcriber, index: int) -> None:
    options = DecodingOptions(language="auto", detect_each_window=True)
    parts = [
        read_clip(sorted((DATA / name).glob("*.ogg"))[index])
        for name in ("german", "seen")
    ]
    padded = [np.pad(part, (0, 9 * 16_000 - part.size)) for part in parts]
    whole = transcriber.transcribe(np.concatenate(padded), options, long=WHOLE_WINDOWS)
    alone = [
        transcriber.transcribe(part, options, long=WHOLE_WINDOWS) for part in padded
    ]
    assert [t.language for t in alone] == ["de", "en"]
    assert whole.language == "de"
    assert [s.language for s in whole.segments] == [
        s.language for t in alone for s in t.segments
    ]
    assert whole.text == " ".join(t.text for t in alone)


def test_transcribe_accepts_any_script_and_cuts_long_prompts(
    whisper_hailo: Command,
) -> None:
    long = "a word " * 1000
    result = whisper_hailo(
        *MODEL, "--hotwords", "😀 ก ข", "--initial-prompt", long, DEMO, DEMO
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("--initial-prompt") == 1
