"""Every command and every line of Python in the README is run here, as written."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.e2e.conftest import DEMO_TEXT, PATIENCE_S, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Fenced code blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_has_commands_and_python() -> None:
    assert blocks("bash")
    assert len(blocks("python")) == 1


@pytest.mark.parametrize("script", blocks("bash"))
def test_commands(script: str, environment: dict[str, str]) -> None:
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert result.returncode == 0, f"{script}\n{result.stdout}\n{result.stderr}"
    if script.startswith("make demo"):
        assert DEMO_TEXT in result.stdout


@pytest.mark.parametrize("code", blocks("python"))
def test_python(code: str, environment: dict[str, str]) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert DEMO_TEXT in result.stdout.replace("\n", " ")
