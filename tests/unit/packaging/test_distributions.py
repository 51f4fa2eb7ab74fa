"""Distributions beside the program: their commands, and the version that they require."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.cli.app import ENTRY_POINTS, LABORATORY, TOOLS
from whisper_hailo.core.version import __version__

ROOT = Path(__file__).parents[3]
COMMANDS = {"tools": TOOLS, "lab": LABORATORY}


def read_project(folder: str) -> dict[str, Any]:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


@pytest.mark.parametrize("folder", COMMANDS)
def test_distribution_requires_the_program_of_its_version(folder: str) -> None:
    dependencies = set(read_project(folder)["dependencies"])
    assert f"whisper-hailo=={__version__}" in dependencies
    assert dependencies <= {
        f"whisper-hailo{name}=={__version__}" for name in ("", "-tools")
    }


@pytest.mark.parametrize("folder", COMMANDS)
def test_distribution_entry_points_can_be_imported(folder: str) -> None:
    entry_points = read_project(folder)["entry-points"][ENTRY_POINTS]
    assert entry_points.keys() == COMMANDS[folder]
    for entry_point in entry_points.values():
        module, _, function = entry_point.partition(":")
        assert callable(getattr(import_module(module), function))
