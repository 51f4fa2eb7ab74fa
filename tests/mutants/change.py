"""Small faults: which there are in a file, and how each looks.

Text of messages and logs, annotations and decorators are left alone: no test should hold them.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.mutants.slips import UNTOLD, replacements

ROOT: Final = Path(__file__).parents[2]
SRC: Final = ROOT / "src"


@dataclass(slots=True)
class Mutant:
    """One fault at one place.

    Attributes:
        path: of the file, from the repository's root.
        function: outermost function, with its classes; empty where the fault acts at import.
        before: source of the statement or condition, in one line.
        after: the same with the fault.
        lines: first and last line of it.
        killed_by: name of the test that fails; empty where none does.
        covered: tests that run the line.
        tried: how many of them were run.
    """

    path: str
    function: str
    before: str
    after: str
    lines: tuple[int, int]
    at: int
    killed_by: str = ""
    covered: int = 0
    tried: int = 0

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it from others while lines move."""
        return self.path, self.function, self.before, self.after

    def rank(self, seed: int) -> str:
        """Its place in the order of a seed; the same whatever else is in the file."""
        return hashlib.sha256(repr((seed, *self.key)).encode()).hexdigest()


@dataclass(slots=True)
class _Place:
    """Where a node hangs."""

    owner: Any
    name: str
    index: int | None

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.owner, self.name, node)
        else:
            getattr(self.owner, self.name)[self.index] = node


@dataclass(slots=True)
class _Edit:
    place: _Place
    old: ast.AST
    new: ast.AST
    shown: ast.AST
    shown_at: _Place
    function: str


@dataclass(slots=True)
class Source:
    """A file and all faults that could be in it.

    Args:
        path: from the repository's root.
    """

    path: str
    tree: ast.Module = field(init=False)
    mutants: list[Mutant] = field(init=False)
    _edits: list[_Edit] = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse((ROOT / self.path).read_text(encoding="utf-8"))
        self._edits = list(_edits(self.tree))
        self.mutants = []
        texts: dict[int, str] = {}
        for at, edit in enumerate(self._edits):
            before = texts.setdefault(id(edit.shown), _one_line(edit.shown))
            edit.place.put(edit.new)
            # Where the statement itself is exchanged, what hangs there now is shown.
            now = edit.new if edit.old is edit.shown else edit.shown
            after = _one_line(now)
            edit.place.put(edit.old)
            lines = (edit.shown.lineno, edit.shown.end_lineno)  # type: ignore[attr-defined]
            self.mutants.append(Mutant(self.path, edit.function, before, after, lines, at))

    def mutated(self, mutant: Mutant) -> ast.Module:
        """The file's tree with the fault, until `restore`."""
        edit = self._edits[mutant.at]
        edit.place.put(edit.new)
        return ast.fix_missing_locations(self.tree)

    def restore(self, mutant: Mutant) -> None:
        """Take the fault out again."""
        edit = self._edits[mutant.at]
        edit.place.put(edit.old)


def _one_line(node: ast.AST) -> str:
    if isinstance(node, ast.arguments):
        return f"def {node.of}({ast.unparse(node)})"  # type: ignore[attr-defined]
    if isinstance(node, ast.comprehension):
        return re.sub(r"^\[0", "", ast.unparse(ast.ListComp(ast.Constant(0), [node])))[:-1].strip()
    return re.sub(r"\s+", " ", ast.unparse(ast.fix_missing_locations(node)))


def _edits(tree: ast.Module) -> Iterator[_Edit]:
    walker = _Walker()
    walker.walk(tree)
    yield from walker.edits


class _Walker:
    """Goes through a tree and notes what may be exchanged where."""

    def __init__(self) -> None:
        self.edits: list[_Edit] = []
        self._classes: list[str] = []
        self._function = ""
        self._shown: ast.AST | None = None
        self._shown_at: _Place | None = None

    def walk(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for index, child in enumerate(children):
                if isinstance(child, ast.AST) and not _is_left_alone(node, name, child):
                    at = _Place(node, name, index if isinstance(value, list) else None)
                    self._visit(child, at)

    def _visit(self, node: ast.AST, place: _Place) -> None:
        kept = self._shown, self._shown_at
        is_block = hasattr(node, "body") and isinstance(node, ast.stmt)
        heads_block = isinstance(place.owner, ast.stmt) and hasattr(place.owner, "body")
        if isinstance(node, ast.stmt) or heads_block:
            self._shown, self._shown_at = node, place
        if isinstance(node, ast.ClassDef):
            self._classes.append(node.name)
            self.walk(node)
            self._classes.pop()
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not self._function:
            self._defaults(node)
            self._function = ".".join([*self._classes, node.name])
            for index, child in enumerate(node.body):
                if not _is_left_alone(node, "body", child):
                    self._visit(child, _Place(node, "body", index))
            self._function = ""
        else:
            self._note(node, place, is_block=is_block)
            self.walk(node)
        self._shown, self._shown_at = kept

    def _defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Of arguments, which act at import; shown as the function's head."""
        head: Any = node.args
        head.lineno, head.end_lineno = node.lineno, node.body[0].lineno - 1
        head.of = node.name
        self._shown, self._shown_at = head, _Place(node, "args", None)
        self.walk(head)

    def _note(self, node: ast.AST, place: _Place, *, is_block: bool) -> None:
        if self._shown is None or self._shown_at is None:
            return
        if is_block:
            plain = isinstance(node, ast.If) and not isinstance(
                node.test, ast.Compare | ast.UnaryOp
            )
            if plain:  # a comparison has its own opposite
                negated = ast.UnaryOp(ast.Not(), node.test)
                spot = _Place(node, "test", None)
                self.edits.append(_Edit(spot, node.test, negated, node.test, spot, self._function))
            return
        if not hasattr(self._shown, "lineno"):
            return
        for new in replacements(node):
            ast.copy_location(new, node)
            self.edits.append(_Edit(place, node, new, self._shown, self._shown_at, self._function))


def _is_left_alone(parent: ast.AST, name: str, child: ast.AST) -> bool:
    if name in {"annotation", "returns", "decorator_list", "bases", "keywords"} and not (
        isinstance(parent, ast.Call)
    ):
        return True
    if isinstance(parent, ast.keyword) and parent.arg in UNTOLD:
        return True
    if isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(child, ast.Expr):
        told = ast.unparse(child)
        return isinstance(child.value, ast.Constant) or told.startswith(("logger.", "super()"))
    if isinstance(child, ast.Call) and ast.unparse(child.func).endswith(("TypeVar", "cast")):
        return True
    return isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
