"""Scripts, the Makefile and CI name files of the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from whisper_hailo_lab.repository import LAB, ROOT

SCRIPTS = [
    ROOT / "Makefile",
    ROOT / ".ci" / "run",
    *sorted((ROOT / "scripts").iterdir()),
    *sorted((LAB / "scripts").iterdir()),
]
NAMED = re.compile(
    r"(?<![\w/$}.-])((?:lab/|tools/)?(?:scripts|benchmarks|requirements)/[\w./-]*\w)(?![-{$\w/])"
)


@pytest.mark.parametrize(
    "script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT))
)
def test_script_names_files_that_exist(script: Path) -> None:
    named = set(NAMED.findall(script.read_text(encoding="utf-8")))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_lab_without_a_name_lists_the_experiments() -> None:
    process = subprocess.run(
        [LAB / "scripts" / "lab"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "fuzz-guided" in process.stdout
