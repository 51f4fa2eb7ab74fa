"""Files and functions stay small enough to be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

TESTS: Final = Path(__file__).parents[1]
SOURCES: Final = TESTS.parent / "src"
MOST_OF_A_FILE: Final = 450
MOST_OF_A_FUNCTION: Final = 40
COMMANDS: Final = ("commands", "cli")
"""Folders of the product's and of the laboratory's."""

pytestmark = pytest.mark.slow  # all of the source and of the tests, the former read by `ast`

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def length(function: _Function, *, is_command: bool = False) -> int:
    """Lines without the docstring; of a command without its signature, which is its options."""
    first, last = function.body[0], function.end_lineno or 0
    begin = first.lineno if is_command else function.lineno
    described = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if described else 0
    return last - begin + 1 - docstring


def functions(text: str) -> Iterator[_Function]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def excess(name: str, text: str) -> list[str]:
    """What is to be said of a file that is too long; nothing of others."""
    n_lines = text.count("\n")
    if n_lines <= MOST_OF_A_FILE:
        return []
    return [f"{name} has {n_lines} lines, expected {MOST_OF_A_FILE} at most"]


@pytest.mark.parametrize("package", ["whisper_hailo", "whisper_hailo_lab"])
def test_no_file_and_no_function_outgrows_its_bound(package: str) -> None:
    too_long = []
    for path in sorted((SOURCES / package).rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(SOURCES).as_posix()
        too_long += excess(name, text)
        is_command = path.parent.name in COMMANDS
        for function in functions(text):
            of_it = length(function, is_command=is_command)
            if of_it > MOST_OF_A_FUNCTION:
                too_long.append(
                    f"{name}:{function.lineno} {function.name} has {of_it} lines, "
                    f"expected {MOST_OF_A_FUNCTION} at most"
                )
    assert not too_long, "; ".join(too_long)


def test_no_file_of_tests_outgrows_its_bound() -> None:
    too_long = []
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        too_long += excess(name, path.read_text(encoding="utf-8"))
    assert not too_long, "; ".join(too_long)


def test_a_docstring_is_not_counted_and_of_a_command_its_options_neither() -> None:
    (function,) = functions(
        'def f(\n    a: int,\n) -> int:\n    """Say.\n\n    More.\n    """\n    return a\n'
    )
    assert length(function) == 4
    assert length(function, is_command=True) == 1
    (bare,) = functions("def f(a: int) -> int:\n    b = a\n    return b\n")
    assert length(bare) == 3
