"""Environments that `make` makes where the system has Hailo's binding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
from tests.standin import FOLDER


@pytest.mark.parametrize("installed", [True, False])
def test_make_sees_a_binding_of_the_system(tmp_path: Path, installed: bool) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(FOLDER) if installed else ""}
    words = [
        "make",
        "-n",
        f"VENV={tmp_path}/venv",
        f"PYTHON={sys.executable}",
        str(python),
    ]
    done = subprocess.run(
        words, cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert ("--system-site-packages" in done.stdout) == installed
    assert f" {tmp_path}/venv" in done.stdout


@pytest.mark.parametrize(
    ("version", "older"), [("4.23.0", True), ("5.2.0", False), ("", False)]
)
def test_make_takes_the_numpy_that_a_binding_of_the_system_knows(
    tmp_path: Path, version: str, older: bool
) -> None:
    package = tmp_path / "hailo_platform"
    package.mkdir()
    text = f'import _pyhailort\n__version__ = "{version}"\n' if version else ""
    (package / "__init__.py").write_text(text, encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    goal = f"{tmp_path}/venv/dev.stamp"
    words = ["make", "-n", f"VENV={tmp_path}/venv", f"PYTHON={sys.executable}", goal]
    done = subprocess.run(
        words, cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    wanted = older and sys.version_info < (3, 13)
    assert sum("requirements/numpy1.txt" in line for line in lines) == 2 * wanted
    after_dev = lines[-2] if wanted else lines[-1]
    assert ("numpy1.txt" in after_dev) == wanted, (
        "the last word, after every other requirement"
    )
