"""The three distributions: their commands, versions and lock files."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.cli.app import ENTRY_POINTS, LABORATORY, TOOLS
from whisper_hailo.core.version import __version__

ROOT = Path(__file__).parents[3]
COMMANDS = {"tools": TOOLS, "lab": LABORATORY}
SHARED_LOCKS = (
    "base",
    "build",
    "dev",
    "media",
    "live",
    "web",
    "server",
    "cluster",
    "e2e",
    "docs",
)
"""Exported from uv.lock for all supported Pythons."""


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


def read_versions(lock: Path) -> dict[str, set[str]]:
    """Return the versions of each package of a lock file."""
    versions: dict[str, set[str]] = defaultdict(set)
    for name, version in re.findall(
        r"^([a-z0-9._-]+)==([^ ;]+)", lock.read_text(), re.MULTILINE
    ):
        versions[name].add(version)
    return versions


def test_locks_versions_differing_by_python_are_documented() -> None:
    differing: dict[str, set[str]] = {}
    for name in SHARED_LOCKS:
        for package, versions in read_versions(
            ROOT / "requirements" / f"{name}.txt"
        ).items():
            if len(versions) > 1:
                differing[package] = versions
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9._-]+)` \| (\S+) \| (\S+) \|", page, re.MULTILINE)
    documented = {package: {older, newer} for package, older, newer in rows}
    assert documented == differing
