"""Figures that are older than the code they describe, by the history of both."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo_lab.repository import RESULTS, ROOT
from whisper_hailo_lab.tables import make_table

_WORDS: Final = ("audio", "backends", "convert", "decoding", "text", "transcription")
"""Folders of the product that words and their times come from."""

DESCRIBED: Final[Mapping[str, tuple[str, ...]]] = {
    "aarch64": ("backends", "convert", "decoding"),
    "accuracy": _WORDS,
    "captions": (*_WORDS, "live"),
    "device_faults": ("backends/hailo", "live"),
    "retries": ("decoding", "transcription"),
    "server": ("http", "serve"),
    "speakers": ("speakers",),
    "spoken_commands": ("live", "serve"),
    "untranscribed": ("transcription",),
}
"""Folders of `src/whisper_hailo` whose change can change a result, by the result's name."""


@dataclass(frozen=True, slots=True)
class Age:
    """A kept result, the day it was written, and what has changed in its code since.

    Attributes:
        result: its name, without `.json`.
        written: date of the commit that wrote it last, such as 2026-11-28.
        n_commits: commits since then that changed its folders.
        n_lines: lines that they added or removed.
    """

    result: str
    written: str
    n_commits: int
    n_lines: int

    @property
    def is_older(self) -> bool:
        """Whether its code has changed since it was written."""
        return self.n_commits > 0


def find_ages(results: Path = RESULTS, root: Path = ROOT) -> Iterator[Age]:
    """Yield the age of each kept result that the repository's history knows.

    Raises:
        subprocess.CalledProcessError: `root` is not a clone with its history.
    """
    for name in sorted(DESCRIBED):
        path = results / f"{name}.json"
        commit, _, written = _git(
            root, "log", "-1", "--format=%H %cs", "--", str(path)
        ).partition(" ")
        if not commit:
            continue
        folders = [
            str(root / "src/whisper_hailo" / folder) for folder in DESCRIBED[name]
        ]
        since = f"{commit}..HEAD"
        commits = _git(root, "log", "--format=%h", since, "--", *folders).split()
        changes = _git(root, "diff", "--numstat", since, "--", *folders)
        yield Age(name, written, len(commits), _count_lines(changes))


def describe_ages(ages: list[Age]) -> str:
    """Return a table of the results whose code has changed since, one line each."""
    rows = [
        {
            "result": age.result,
            "written": age.written,
            "n_commits": age.n_commits,
            "n_lines": age.n_lines,
        }
        for age in ages
        if age.is_older
    ]
    columns = (
        ("result", "{result}"),
        ("last written", "{written}"),
        ("commits since", "{n_commits}"),
        ("lines changed", "{n_lines}"),
    )
    return make_table(rows, columns).markdown()


def _git(root: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    )
    return process.stdout.strip()


def _count_lines(changes: str) -> int:
    """Return the sum of `git diff --numstat`; binary files have `-` for their lines."""
    counts = [field for line in changes.splitlines() for field in line.split("\t")[:2]]
    return sum(int(count) for count in counts if count != "-")
