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

ROOT: Final = Path(__file__).parents[2]
SRC: Final = ROOT / "src"

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_PAIRS: Final = (
    ("min", "max"),
    ("any", "all"),
    ("ceil", "floor"),
    ("argmin", "argmax"),
    ("minimum", "maximum"),
    ("startswith", "endswith"),
    ("lstrip", "rstrip"),
    ("find", "rfind"),
    ("partition", "rpartition"),
    ("popleft", "pop"),
    ("union", "intersection"),
    ("mean", "sum"),
)
_CALLED: Final = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}, "sorted": "list", "reversed": "iter"}
_UNTOLD: Final = {"strict", "dtype", "encoding", "daemon", "name", "slots", "frozen", "exc_info"}
"""Keywords without which nothing that a test should hold is otherwise."""


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
        if (
            isinstance(node, ast.stmt)
            or isinstance(place.owner, ast.stmt)
            and hasattr(place.owner, "body")
        ):
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
    if isinstance(parent, ast.keyword) and parent.arg in _UNTOLD:
        return True
    if isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(child, ast.Expr):
        told = ast.unparse(child)
        return isinstance(child.value, ast.Constant) or told.startswith(("logger.", "super()"))
    if isinstance(child, ast.Call) and ast.unparse(child.func).endswith(("TypeVar", "cast")):
        return True
    return isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What a slip of the keyboard makes of a node."""
    match node:
        case ast.Compare():
            for i, op in enumerate(node.ops):
                ops = [*node.ops[:i], _COMPARED[type(op)](), *node.ops[i + 1 :]]
                yield ast.Compare(node.left, ops, node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
            for i in range(len(node.values)):
                rest = [*node.values[:i], *node.values[i + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _COMPUTED:
            op = _COMPUTED[type(node.op)]()
            if isinstance(node, ast.BinOp):
                if not _is_text(node.left) and not _is_text(node.right):
                    yield ast.BinOp(node.left, op, node.right)
            else:
                yield ast.AugAssign(node.target, op, node.value)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant():
            yield from (ast.Constant(value) for value in _other_values(node.value))
        case ast.IfExp():
            yield node.body
            yield node.orelse
        case ast.Slice():
            for name in ("lower", "upper"):
                if getattr(node, name) is not None:
                    yield ast.Slice(
                        **{n: getattr(node, n) for n in ("lower", "upper", "step") if n != name}
                    )
        case ast.comprehension() if node.ifs:
            yield ast.comprehension(node.target, node.iter, [], node.is_async)
        case ast.Call():
            yield from _other_calls(node)
        case ast.Expr(value=ast.Call()) | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _other_values(value: object) -> Iterator[bool | int | float]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        if value:
            yield value - 1
    elif isinstance(value, float):
        yield value * 2 if value else 1.0


def _other_calls(node: ast.Call) -> Iterator[ast.Call]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _CALLED:
        other = _CALLED[name]
        func: ast.expr = (
            ast.Attribute(node.func.value, other, ast.Load())
            if isinstance(node.func, ast.Attribute)
            else ast.Name(other, ast.Load())
        )
        kept = [] if other in {"list", "iter"} else node.keywords
        yield ast.Call(func, node.args, kept)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg and keyword.arg not in _UNTOLD:
            yield ast.Call(node.func, node.args, [*node.keywords[:i], *node.keywords[i + 1 :]])
    named = (ast.Name, ast.Attribute, ast.Subscript)
    if len(node.args) > 1 and all(isinstance(arg, named) for arg in node.args[:2]):
        if name not in {"isinstance", "getattr", "hasattr", "min", "max"}:
            first, second, *rest = node.args
            yield ast.Call(node.func, [second, first, *rest], node.keywords)
