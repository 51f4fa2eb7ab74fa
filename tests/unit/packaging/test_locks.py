"""Locked versions that depend on the Python are documented."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]

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
