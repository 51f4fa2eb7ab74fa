"""Ages of kept results, in a repository of two commits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from whisper_hailo_lab.documents.ages import DESCRIBED, Age, describe_ages, find_ages
from whisper_hailo_lab.documents.pages import KEPT


def commit(root: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = (
            root
            / {"result": "speakers.json", "code": "src/whisper_hailo/speakers/a.py"}[
                name
            ]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", root, "add", "."], check=True)
    subprocess.run(
        ["git", "-C", root, *identity, "commit", "-qm", "Change"], check=True
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    commit(tmp_path, result="{}", code="one\ntwo\n")
    return tmp_path


def test_find_ages_unchanged_code_is_not_older(root: Path) -> None:
    (age,) = find_ages(root, root)
    assert age.result == "speakers"
    assert age.n_commits == 0
    assert not age.is_older


def test_find_ages_changed_code_counts_commits_and_lines(root: Path) -> None:
    commit(root, code="one\n")
    commit(root, code="one\nthree\nfour\n")
    (age,) = find_ages(root, root)
    assert age.n_commits == 2
    assert age.n_lines == 3  # of "two", "three" and "four"


def test_find_ages_result_written_again_is_not_older(root: Path) -> None:
    commit(root, code="three\n")
    commit(root, result="[]")
    (age,) = find_ages(root, root)
    assert not age.is_older


def test_describe_ages_lists_older_results_only() -> None:
    older = Age("speakers", "2026-11-28", 2, 30)
    current = Age("server", "2026-11-28", 0, 0)
    table = describe_ages([older, current])
    assert "speakers" in table
    assert "server" not in table


def test_described_results_are_kept() -> None:
    kept = {path.stem for path, _ in KEPT}
    assert set(DESCRIBED) <= kept | {"aarch64"}
