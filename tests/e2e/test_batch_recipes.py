"""The recipes of `docs/archives.md` for schedulers: what each process gets makes one job."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
from whisper_hailo_lab.clip_archives import unpack_clips

CLIPS = sorted((unpack_clips() / "seen").glob("*.ogg"))[:4]
PAGE = (ROOT / "docs" / "archives.md").read_text(encoding="utf-8")
OPTIONS = "--model micro --language en --part-items 2 --quiet"
N_PARTS = 2
SCHEDULERS = {
    "SLURM_ARRAY_TASK_ID": 1,
    "JOB_COMPLETION_INDEX": 0,
    "AWS_BATCH_JOB_ARRAY_INDEX": 0,
}
"""The variable of each, and the first number that it has."""


def find_recipe(word: str) -> str:
    """Return the command of the page that has a word."""
    (line,) = re.findall(rf"whisper-hailo batch [^\n\"']*{word}[^\n\"']*", PAGE)
    return str(line)


def localise(recipe: str) -> str:
    """Return a recipe with inputs and results in this folder."""
    for address, name in (
        ("s3://calls/archive.jsonl", "archive.jsonl"),
        ("s3://results/job", "job"),
        ("/shared/job", "job"),
    ):
        recipe = recipe.replace(address, name)
    return f"{recipe} {OPTIONS}"


def run_line(line: str, folder: Path, environment: dict[str, str]) -> None:
    """Run a line of a shell with the program of this environment."""
    subprocess.run(["sh", "-c", line], cwd=folder, env=environment, check=True)


def read_parts(job: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (job / "transcripts").iterdir()}


@pytest.fixture
def archive(environment: dict[str, str], tmp_path: Path) -> Path:
    """A folder with a manifest of two parts, and the job of one process."""
    lines = [json.dumps({"audio": str(clip)}) + "\n" for clip in CLIPS]
    (tmp_path / "archive.jsonl").write_text("".join(lines))
    line = f"whisper-hailo batch archive.jsonl -o straight {OPTIONS}"
    run_line(line, tmp_path, environment)
    assert len(read_parts(tmp_path / "straight")) == N_PARTS
    return tmp_path


@pytest.mark.parametrize("variable", SCHEDULERS)
def test_recipe_with_its_variable_makes_one_job(
    environment: dict[str, str], archive: Path, variable: str
) -> None:
    line = localise(find_recipe(variable))
    for index in range(N_PARTS):
        number = str(SCHEDULERS[variable] + index)
        run_line(line, archive, environment | {variable: number})
    assert read_parts(archive / "job") == read_parts(archive / "straight")


@pytest.mark.skipif(shutil.which("parallel") is None, reason="no GNU parallel")
def test_recipe_of_gnu_parallel_makes_one_job(
    environment: dict[str, str], archive: Path
) -> None:
    (line,) = re.findall(r"^seq 400 \| parallel .*$", PAGE, re.MULTILINE)
    line = localise(line).replace("seq 400", f"seq {N_PARTS}")
    run_line(line, archive, environment)
    assert read_parts(archive / "job") == read_parts(archive / "straight")
