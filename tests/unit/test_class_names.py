"""A public class has a name of its own, so that whoever reads it knows which one is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.slow  # all of the source, read by `ast`

SOURCES: Final = Path(__file__).parents[2] / "src"

TWICE: Final = {
    "Settings": "of a result, in Python and JSON; of captions, an event whose name is on the wire",
}
"""Why a name stays that two classes have."""


def places() -> dict[str, list[str]]:
    """Files of every public class of the product and of the laboratory, by its name."""
    found = defaultdict(list)
    for path in sorted(SOURCES.glob("whisper_hailo*/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCES)))
    return found


def test_no_two_public_classes_have_one_name() -> None:
    several = {name: files for name, files in places().items() if len(files) > 1}
    assert {name: files for name, files in several.items() if name not in TWICE} == {}
    assert TWICE.keys() <= several.keys(), "no longer there twice"
