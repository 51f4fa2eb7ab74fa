from __future__ import annotations

import json
import re
import subprocess
import wave
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from tests.clients.conftest import CLIENTS
from whisper_hailo.audio import load_audio

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "src" / "whisper_hailo" / "assets" / "demo.flac"
TEXT = DEMO.with_suffix(".txt").read_text(encoding="utf-8")
PROGRAMS = Path(__file__).with_name("programs")
PATIENCE_S = 300

LIVE = ("realtime", "turns")
"""In the names of cases whose sound comes as it is spoken: its windows are cut at pauses, so that
close choices differ."""

LEAST_ALIKE = 0.9


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a WAV file at 16 kHz."""
    path = tmp_path_factory.mktemp("recordings") / "speech.wav"
    samples = (load_audio(DEMO) * 32767).round().astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(samples.tobytes())
    return path


def split_words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def run_client(
    command: list[str | Path], environment: dict[str, str]
) -> dict[str, str]:
    """Run a client; return the text of each of its cases."""
    done = subprocess.run(
        command, env=environment, timeout=PATIENCE_S, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["case"]: line["text"] for line in map(json.loads, lines)}


def check_texts(texts: dict[str, str]) -> None:
    assert texts
    for case, text in texts.items():
        if any(word in case for word in LIVE):
            matcher = SequenceMatcher(None, split_words(TEXT), split_words(text))
            assert matcher.ratio() >= LEAST_ALIKE, (case, text)
        else:
            assert split_words(text) == split_words(TEXT), case


@pytest.mark.parametrize(
    "name", ["openai", "litellm", "livekit", "pipecat", "open_webui"]
)
def test_client_at_its_defaults_gets_the_text(
    name: str, environment: dict[str, str], address: str, recording: Path
) -> None:
    program = PROGRAMS / f"{name}_python.py"
    python = CLIENTS / "bin" / "python"
    check_texts(run_client([python, program, address, recording], environment))


def test_client_for_node_at_its_defaults_gets_the_text(
    environment: dict[str, str],
    certificate: tuple[Path, Path],
    secure_address: str,
    recording: Path,
) -> None:
    if not (CLIENTS / "node_modules").exists():
        pytest.skip("npm is not installed")
    # Node looks for packages beside the program.
    program = CLIENTS / "openai_node.mjs"
    program.write_bytes((PROGRAMS / program.name).read_bytes())
    # Its realtime class speaks TLS only.
    trusting = environment | {"NODE_EXTRA_CA_CERTS": str(certificate[0])}
    check_texts(run_client(["node", program, secure_address, recording], trusting))
