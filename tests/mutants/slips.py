"""What a slip of the keyboard makes of a piece of code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, Final

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
UNTOLD: Final = {
    *("strict", "dtype", "encoding", "daemon", "name", "slots", "frozen", "exc_info"),
    *("help", "metavar", "shown"),
}
"""Keywords without which nothing that a test should hold is otherwise."""

_UNORDERED: Final = {"isinstance", "getattr", "hasattr", "min", "max"}
"""Whose first two arguments cannot be exchanged, or may be."""


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Everything that could stand there by mistake; nothing of the node itself is changed."""
    for kind, others in _OTHERS.items():
        if isinstance(node, kind):
            yield from others(node)


def _other_comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    """A bound that is or is not met, the opposite."""
    for i, op in enumerate(node.ops):
        ops = [*node.ops[:i], _COMPARED[type(op)](), *node.ops[i + 1 :]]
        yield ast.Compare(node.left, ops, node.comparators)


def _other_conditions(node: ast.BoolOp) -> Iterator[ast.AST]:
    """`and` for `or`, and each part left out."""
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for i in range(len(node.values)):
        rest = [*node.values[:i], *node.values[i + 1 :]]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _other_sums(node: ast.BinOp) -> Iterator[ast.AST]:
    is_text = any(
        isinstance(side, ast.JoinedStr) or _text(side) for side in (node.left, node.right)
    )
    if type(node.op) in _COMPUTED and not is_text:
        yield ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _other_steps(node: ast.AugAssign) -> Iterator[ast.AST]:
    if type(node.op) in _COMPUTED:
        yield ast.AugAssign(node.target, _COMPUTED[type(node.op)](), node.value)


def _without_sign(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield node.operand


def _other_values(node: ast.Constant) -> Iterator[ast.AST]:
    """One more or less, twice as much, the opposite; texts are left alone."""
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield from (ast.Constant(other) for other in (value + 1, value - 1) if value or other > 0)
    elif isinstance(value, float):
        yield ast.Constant(value * 2 if value else 1.0)


def _either_side(node: ast.IfExp) -> Iterator[ast.AST]:
    yield node.body
    yield node.orelse


def _other_slices(node: ast.Slice) -> Iterator[ast.AST]:
    """Without one of its ends."""
    if node.lower is not None:
        yield ast.Slice(None, node.upper, node.step)
    if node.upper is not None:
        yield ast.Slice(node.lower, None, node.step)


def _without_filter(node: ast.comprehension) -> Iterator[ast.AST]:
    if node.ifs:
        yield ast.comprehension(node.target, node.iter, [], node.is_async)


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    """Of a neighbour, without one of its options, with its first two arguments exchanged."""
    func = node.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if name in _CALLED:
        other = _CALLED[name]
        called: ast.expr = ast.Name(other, ast.Load())
        if isinstance(func, ast.Attribute):
            called = ast.Attribute(func.value, other, ast.Load())
        yield ast.Call(called, node.args, [] if other in {"list", "iter"} else node.keywords)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg and keyword.arg not in UNTOLD:
            yield ast.Call(func, node.args, [*node.keywords[:i], *node.keywords[i + 1 :]])
    named = (ast.Name, ast.Attribute, ast.Subscript)
    is_pair = len(node.args) > 1 and all(isinstance(arg, named) for arg in node.args[:2])
    if is_pair and name not in _UNORDERED:
        first, second, *rest = node.args
        if ast.dump(first) != ast.dump(second):
            yield ast.Call(func, [second, first, *rest], node.keywords)


def _left_out(node: ast.Expr | ast.Assign | ast.Delete) -> Iterator[ast.AST]:
    """A call for what it does, and what is kept in an object or a list."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    is_kept = isinstance(target, ast.Attribute | ast.Subscript)
    does = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if is_kept or does or isinstance(node, ast.Delete):
        yield ast.Pass()


def _other_way(node: ast.Break | ast.Continue) -> Iterator[ast.AST]:
    yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()


_OTHERS: Final[dict[Any, Callable[[Any], Iterator[ast.AST]]]] = {
    ast.Compare: _other_comparisons,
    ast.BoolOp: _other_conditions,
    ast.BinOp: _other_sums,
    ast.AugAssign: _other_steps,
    ast.UnaryOp: _without_sign,
    ast.Constant: _other_values,
    ast.IfExp: _either_side,
    ast.Slice: _other_slices,
    ast.comprehension: _without_filter,
    ast.Call: _other_calls,
    (ast.Expr, ast.Assign, ast.Delete): _left_out,
    (ast.Break, ast.Continue): _other_way,
}
