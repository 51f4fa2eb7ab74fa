"""The second distribution: its commands, and the version that it goes with."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

from whisper_hailo.cli.app import ADDED, TOOLS
from whisper_hailo.core.version import __version__

PROJECT = Path(__file__).parents[3] / "src" / "whisper_hailo_tools" / "pyproject.toml"


def test_the_tools_need_the_program_of_their_own_version() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == [f"whisper-hailo=={__version__}"]


def test_every_command_of_the_tools_can_be_imported() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    places = project["entry-points"][ADDED]
    assert places.keys() == TOOLS
    for place in places.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))
