"""Options that need no conversion are taken as they were typed, which makes commands start sooner.

Typer has Pydantic make a converter for every option of the command that runs. `transcribe` has a
hundred of them, few of which anybody types, and most of these are words, which need none. Pydantic
is imported for nothing else.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperOption


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
    converted, of = one.process_value, getattr(one, "type_descriptor", None)
    annotation = getattr(of, "annotation", None)  # older Typers have none, and convert as ever

    def process_value(context: Any, value: Any) -> Any:  # noqa: ANN401 - of any option
        if value is None and not one.required:
            taken: Any = () if one.multiple or one.nargs == -1 else None
        elif annotation is str and isinstance(value, str):
            taken = value
        elif annotation == list[str] and value and isinstance(value, tuple):
            taken = list(value)
        else:
            return converted(context, value)
        return taken if one.callback is None else one.callback(context, one, taken)

    return process_value
