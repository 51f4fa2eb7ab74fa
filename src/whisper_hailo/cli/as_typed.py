"""Options that need no conversion are taken as they were typed, which makes commands start sooner.

Typer has Pydantic make a converter for every option of the command that runs. `transcribe` has a
hundred of them, few of which anybody types, and most of these are words, which need none. Pydantic
is imported for nothing else.
"""

from __future__ import annotations

import re
from typing import Any, Final

from typer.core import TyperArgument, TyperOption

_FEW_DIGITS: Final = re.compile(r"[0-9]{1,9}")
"""What is a number in any reading; others are left to Typer, and so is a number with bounds."""


def take_as_typed(parameters: list[Any]) -> list[Any]:
    """Spare a command's parameters the conversion of what is a word, or was not typed.

    Args:
        parameters: of a Typer command; those that were spared it before stay as they are.
    """
    for one in parameters:
        if isinstance(one, TyperOption | TyperArgument) and "process_value" not in vars(one):
            one.process_value = _quick(one)  # type: ignore[method-assign]
    return parameters


def _quick(one: TyperOption | TyperArgument) -> Any:  # noqa: ANN401 - Click's `process_value`
    converted, kind = one.process_value, _kind(one)

    def process_value(context: Any, value: Any) -> Any:  # noqa: ANN401 - of any option
        if value is None and not one.required:
            taken: Any = () if one.multiple or one.nargs == -1 else None
        elif kind is str and isinstance(value, str):
            taken = value
        elif kind is int and isinstance(value, str) and _FEW_DIGITS.fullmatch(value):
            taken = int(value)
        elif kind == list[str] and value and isinstance(value, tuple):
            taken = list(value)
        else:
            return converted(context, value)
        return taken if one.callback is None else one.callback(context, one, taken)

    return process_value


def _kind(one: TyperOption | TyperArgument) -> Any:  # noqa: ANN401 - a type
    """What an option is; `None` where Typer has to look: at bounds, by a parser, in older ones."""
    of: Any = getattr(one, "type_descriptor", None)
    if getattr(of, "is_ranged", True) or of.parameter_info.parser is not None:
        return None
    return of.annotation
