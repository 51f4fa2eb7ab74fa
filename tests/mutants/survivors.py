"""Faults that live and may: each with the reason that somebody found."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.mutants.areas import AREAS
from tests.mutants.change import Mutant, Source

FOLDER: Final = Path(__file__).parent / "listed"
"""A file for each area."""

Key = tuple[str, str, str, str]


def reasons() -> dict[Key, str]:
    """Why each of the listed ones may live.

    Raises:
        ValueError: one is listed twice or without a reason.
    """
    listed: dict[Key, str] = {}
    for file in sorted(FOLDER.glob("*.toml")):
        for entry in tomllib.loads(file.read_text(encoding="utf-8")).get("survivor", []):
            key = (entry["path"], entry["function"], entry["before"], entry["after"])
            if key in listed or not entry["reason"].strip():
                raise ValueError(f"{file.name} has {key} twice or without a reason; mend it")
            listed[key] = entry["reason"]
    return listed


def stale(listed: Iterable[Key]) -> list[Key]:
    """Those that the code does not have any more."""
    files = {path for area in AREAS.values() for path in area.files()}
    wanted = set(listed)
    there = {
        mutant.key for path in {key[0] for key in wanted} & files for mutant in Source(path).mutants
    }
    return sorted(wanted - there)


def entry(mutant: Mutant, reason: str = "") -> str:
    """One as the file has it."""
    lines = ["[[survivor]]"]
    for name, text in zip(("path", "function", "before", "after"), mutant.key, strict=True):
        lines.append(f"{name} = {_literal(text)}")
    return "\n".join([*lines, f"reason = {_literal(reason)}"]) + "\n"


def _literal(text: str) -> str:
    """A string of TOML that needs as few escapes as can be."""
    if "'" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
