"""`scripts/check`: its lanes, in a copy of the repository where every program is a stub."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STUB = """#!/bin/sh
line="$(basename "$0") $*"
echo "$line" >> "$LOG"
case "$line" in *"$FAILS"*) exit "$CODE" ;; esac
"""
PROGRAMS = (
    ".venv/bin/lint-imports",
    ".venv/bin/mypy",
    ".venv/bin/python",
    ".venv/bin/ruff",
    "bin/make",
    "lab/scripts/test-aarch64",
    "lab/scripts/test-processors",
    "scripts/check-density",
    "scripts/test-hailort",
    "scripts/test-pythons",
)


class Repository:
    """The script beside stubs that log how they are started."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in PROGRAMS:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(STUB, encoding="utf-8")
            path.chmod(0o755)
        shutil.copy(ROOT / "scripts" / "check", root / "scripts")

    def check(
        self, *lanes: str, failing: str = "nothing", code: int = 1
    ) -> tuple[int, str, str]:
        """Return exit code, output and the log of the stubs."""
        log = self.root / "log"
        log.write_text("", encoding="utf-8")
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        env = {"PATH": path, "LOG": str(log), "FAILS": failing, "CODE": str(code)}
        command = [self.root / "scripts" / "check", *lanes]
        process = subprocess.run(
            command, env=env, capture_output=True, text=True, check=False
        )
        return (
            process.returncode,
            process.stdout + process.stderr,
            log.read_text(encoding="utf-8"),
        )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_check_without_failure_runs_every_lane(repository: Repository) -> None:
    code, output, log = repository.check()
    assert code == 0, output
    started = {line.split()[0] for line in log.splitlines()}
    assert started == {Path(name).name for name in PROGRAMS}
    text = (ROOT / "scripts" / "check").read_text(encoding="utf-8")
    lanes = set(re.findall(r"^([a-z0-9_]+)\(\) \{", text, flags=re.MULTILINE))
    lanes -= {"run", "run_in_parallel"}
    assert set(re.findall(r"^== (\w+)$", output, flags=re.MULTILINE)) == lanes


@pytest.mark.parametrize(
    ("failing", "is_last_stage"),
    [
        ("ruff format", False),
        ("mypy", False),
        ("make test", False),
        ("make e2e", True),
        ("make dist", True),
        ("test-aarch64 short", True),
        ("test-pythons --skip", True),
        ("tests.fuzz", True),
    ],
)
def test_check_with_a_failing_lane_fails(
    repository: Repository, failing: str, is_last_stage: bool
) -> None:
    code, output, log = repository.check(failing=failing)
    assert code == 1, output
    assert "exit code 1" in output
    assert ("make e2e" in log) == is_last_stage


def test_check_skips_a_lane_that_cannot_run_here(repository: Repository) -> None:
    code, output, log = repository.check(failing="test-processors", code=77)
    assert code == 0, output
    assert re.search(r"^processors: ", output, flags=re.MULTILINE)
    assert "test-aarch64 short" in log


def test_check_of_named_lanes_runs_these(repository: Repository) -> None:
    code, output, log = repository.check("types", "unit")
    assert code == 0, output
    assert log.splitlines() == ["mypy ", "make test"]
