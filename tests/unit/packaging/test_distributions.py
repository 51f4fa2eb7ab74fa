"""The distributions that go with the program: their commands, and the version that they need."""

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


def project_of(folder: str) -> dict[str, Any]:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


@pytest.mark.parametrize("folder", COMMANDS)
def test_distribution_needs_the_others_of_its_version(folder: str) -> None:
    dependencies = set(project_of(folder)["dependencies"])
    assert f"whisper-hailo=={__version__}" in dependencies
    assert dependencies <= {
        f"whisper-hailo{name}=={__version__}" for name in ("", "-tools")
    }


@pytest.mark.parametrize("folder", COMMANDS)
def test_every_command_of_a_distribution_can_be_imported(folder: str) -> None:
    places = project_of(folder)["entry-points"][ENTRY_POINTS]
    assert places.keys() == COMMANDS[folder]
    for place in places.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))
