"""Every task of `tests/first_hour.py` on real recordings, typed as in other programs."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, PATIENCE_S
from tests.first_hour import FIRST_HOUR
from tests.unit.cli.test_compat import COMMANDS
from whisper_hailo.cli.app import run
from whisper_hailo_lab.clip_archives import unpack_clips

GERMAN = unpack_clips() / "phrases" / "phrases-018.ogg"
WORDS = {"talk.flac": "Thursday", "talk.ogg": "Wien"}


@pytest.fixture
def talks(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Environment of commands, with the recordings in the working directory."""
    shutil.copy(DEMO, tmp_path / "talk.flac")
    shutil.copy(GERMAN, tmp_path / "talk.ogg")
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "WHISPER_HAILO_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, environment[name])
    return environment


def expected_words(typed: str) -> list[str]:
    """Return a word of each recording."""
    if "-tr" in typed or "translate" in typed:
        return ["Vienna"]
    return [word for name, word in WORDS.items() if name in typed]


@pytest.mark.parametrize("program", COMMANDS)
@pytest.mark.usefixtures("talks")
def test_command_first_hour_options_give_the_text(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for _, typed, _ in FIRST_HOUR[program]:
        before = set(Path().rglob("*"))
        code = run(["transcribe", "--model", "micro", *shlex.split(typed)])
        captured = capsys.readouterr()
        assert code == 0, f"{typed}: {captured.err}"
        written = sorted(set(Path().rglob("talk*.*")) - before)
        texts = [captured.out, *(path.read_text(encoding="utf-8") for path in written)]
        for word in expected_words(typed):
            assert any(word in text for text in texts), f"{typed}: {texts}"
        for path in written:
            path.unlink()


def test_transcriber_first_hour_calls_give_the_text(
    talks: dict[str, str],
) -> None:
    rows = FIRST_HOUR["faster-whisper"]
    script = [
        "from whisper_hailo import Transcriber",
        "from_model = Transcriber.from_model",
    ]
    for task, typed, _ in rows:
        model, *calls = [code.strip("`") for code in typed.split("`, `")]
        script.append(f"with {model} as one:")
        script.append("    transcribe = one.transcribe")
        script += [f"    print({task!r}, {call}.text)" for call in calls]
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(script)],
        env=talks, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    for task, typed, _ in rows:
        output = " ".join(
            line for line in result.stdout.splitlines() if line.startswith(task)
        )
        for word in expected_words(typed):
            assert word in output, f"{typed}: {output}"
