"""Options of a command in groups: each group is a dataclass, and a command takes those it needs.

Typer reads a command's options from its parameters. `grouped` gives it a command whose parameters
are the fields of all groups, and hands the groups themselves to the function behind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """A command for Typer made of one that takes dataclasses.

    Args:
        command: its parameters are plain ones, as Typer has them, or dataclasses whose fields are.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[name] = kind
            parameters += _parameters(kind)
        else:
            parameters.append(
                parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)
            )

    @wraps(command)
    def run(**given: Any) -> int:  # noqa: ANN401 - whatever the options are
        for name, kind in groups.items():
            given[name] = _build(kind, given)
        return command(**given)

    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
    del run.__wrapped__
    return run


def _build(kind: type[Any], given: dict[str, Any]) -> Any:  # noqa: ANN401 - one of `kind`
    """A group, or a group of groups, from the options that belong to it."""
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: _build(hints[field.name], given)
            if is_dataclass(hints[field.name])
            else given.pop(field.name)
            for field in fields(kind)
        }
    )


def _parameters(kind: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    parameters = []
    for field in fields(kind):
        hint = hints[field.name]
        if is_dataclass(hint) and isinstance(hint, type):
            parameters += _parameters(hint)
        else:
            parameters.append(
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=_default(field),
                    annotation=hint,
                )
            )
    return parameters


def _default(field: Field[Any]) -> Any:  # noqa: ANN401 - of any type
    return inspect.Parameter.empty if field.default is MISSING else field.default
