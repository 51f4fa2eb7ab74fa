"""Whatever the project installs is locked, and compared with a hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("requirements", "benchmarks/rivals/requirements", "training")
LOCKS = sorted(lock for folder in FOLDERS for lock in (ROOT / folder).glob("*.txt"))
INSTALLERS = (ROOT / "Makefile", *sorted((ROOT / "scripts").iterdir()))

LOCKED = re.compile(r"[\w.-]+==[\w.+]+( ; [^\n]+?)?( --hash=sha256:[0-9a-f]{64})+")


def one_line_each(path: Path) -> list[str]:
    """Lines of a file, those that go on joined."""
    text = re.sub(r"\s*\\\n\s*", " ", path.read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.relative_to(ROOT)))
def test_every_requirement_has_its_version_and_its_hashes(lock: Path) -> None:
    lines = one_line_each(lock)
    assert lines
    assert [line for line in lines if not LOCKED.fullmatch(line)] == []


def test_every_installation_compares_hashes() -> None:
    found = [line for path in INSTALLERS for line in one_line_each(path) if "pip install" in line]
    assert len(found) > 3
    # The Makefile's own words are taken up by two others, one of which installs ourselves.
    free = [line for line in found if "--require-hashes" not in line]
    assert free == ["PIP_INSTALL := -m pip install --quiet --disable-pip-version-check"]
    used = [line for line in one_line_each(ROOT / "Makefile") if "$(PIP_INSTALL)" in line]
    assert used == [
        "LOCKED := $(PIP_INSTALL) --no-deps --require-hashes",
        "OURSELVES := $(PIP_INSTALL) --no-deps --no-build-isolation -e .",
    ]
