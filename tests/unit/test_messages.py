"""Names of files in messages are shown in one way, by `core.names.shown`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # all of the source, read by `ast`

SRC = Path(__file__).parents[2] / "src"
ALONE = {"hef_build", "decode.py"}
"""Programs that travel or start without the rest of the package."""

PATHS = {"path", "_path", "directory", "_directory", "folder", "out", "model_dir", "place", "hef"}
"""What a path is called here, by itself or as an attribute."""


def _bare_names(path: Path) -> Iterator[str]:
    """Paths that go into an error as they are."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
            continue
        for part in ast.walk(node.exc):
            if not isinstance(part, ast.FormattedValue) or part.conversion != -1:
                continue
            value = part.value
            name = getattr(value, "attr", None) or getattr(value, "id", None)
            if name in PATHS:
                yield f"{path.name}:{part.lineno} {ast.unparse(value)}"


@pytest.mark.parametrize("package", ["whisper_hailo", "whisper_hailo_lab"])
def test_no_error_has_a_bare_path_in_it(package: str) -> None:
    files = [file for file in (SRC / package).rglob("*.py") if not ALONE & set(file.parts)]
    assert len(files) > 50
    assert [name for file in files for name in _bare_names(file)] == []
