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
def test_make_with_system_binding_shares_site_packages(
    tmp_path: Path, installed: bool
) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(FOLDER) if installed else ""}
    words = [
        "make",
        "-n",
        f"VENV={tmp_path}/venv",
        f"PYTHON={sys.executable}",
        str(python),
    ]
    process = subprocess.run(
        words, cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert ("--system-site-packages" in process.stdout) == installed
    assert f" {tmp_path}/venv" in process.stdout


@pytest.mark.parametrize(
    ("version", "older"), [("4.23.0", True), ("5.2.0", False), ("", False)]
)
def test_make_takes_the_numpy_of_the_system_binding(
    tmp_path: Path, version: str, older: bool
) -> None:
    package = tmp_path / "hailo_platform"
    package.mkdir()
    text = f'import _pyhailort\n__version__ = "{version}"\n' if version else ""
    (package / "__init__.py").write_text(text, encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    goal = f"{tmp_path}/venv/dev.stamp"
    words = ["make", "-n", f"VENV={tmp_path}/venv", f"PYTHON={sys.executable}", goal]
    process = subprocess.run(
        words, cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    lines = process.stdout.splitlines()
    needs_numpy1 = older and sys.version_info < (3, 13)
    assert sum("requirements/numpy1.txt" in line for line in lines) == 2 * needs_numpy1
    after_dev = lines[-2] if needs_numpy1 else lines[-1]
    assert ("numpy1.txt" in after_dev) == needs_numpy1, (
        "the last word, after every other requirement"
    )
