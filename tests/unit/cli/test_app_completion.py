"""Completion scripts, run as shells run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whisper_hailo.cli.app import COMPLETION_VARIABLE

PROGRAM = Path(sys.executable).with_name("whisper-hailo")
PATIENCE_S = 120
SHELLS = ("bash", "zsh", "fish")


def asked(shell: str, line: str) -> list[str]:
    """The program's answer to a line that is being typed."""
    words = line.split(" ")
    environment = {
        **os.environ,
        COMPLETION_VARIABLE: f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
    }
    answer = subprocess.run(
        [PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert not answer.stderr
    return answer.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_completion_offers_commands_options_values(shell: str) -> None:
    assert "transcribe" in "".join(asked(shell, "whisper-hailo tr"))
    assert "--output-dir" in "".join(
        asked(shell, "whisper-hailo transcribe --output-d")
    )
    values = "".join(asked(shell, "whisper-hailo transcribe --task trans"))
    assert "transcribe" in values
    assert "translate" in values


@pytest.mark.slow
def test_completion_omits_aliases_of_other_programs() -> None:
    assert asked("bash", "whisper-hailo transcribe --compute") == []


def script_of(shell: str, folder: Path) -> Path:
    """Script that the program prints for a shell."""
    environment = {**os.environ, COMPLETION_VARIABLE: f"{shell}_source"}
    printed = subprocess.run(
        [PROGRAM], env=environment, capture_output=True, check=True, timeout=PATIENCE_S
    ).stdout
    (folder / "script").write_bytes(printed)
    return folder / "script"


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_is_valid_for_its_shell(shell: str, tmp_path: Path) -> None:
    script = script_of(shell, tmp_path)
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in script.read_text()
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([program, "-n", str(script)], check=True, timeout=PATIENCE_S)


@pytest.mark.slow
def test_completion_in_bash_completes_option(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    script = script_of("bash", tmp_path)
    typed = f"""
        source {script}
        COMP_WORDS=({PROGRAM} transcribe --skip-e) COMP_CWORD=2
        _whisper_hailo_completion {PROGRAM}
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        [bash, "--norc", "-c", typed], capture_output=True, text=True, check=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stdout.split() == ["--skip-existing"]
