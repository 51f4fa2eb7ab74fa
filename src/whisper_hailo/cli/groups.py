"""The command line, built from dataclasses of options.

Typer reads a command's options from its parameters. A command here takes dataclasses whose fields
say how they are typed (`core.flags`): `flattened` gives Typer a function whose parameters are those
fields, and hands the dataclasses to the command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from whisper_hailo.cli.help import ON_OFF, UNBROKEN
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.files import at_home
from whisper_hailo.core.flags import Flag, expect_choice, flag_of, is_needed, only_of, typed_name
from whisper_hailo.core.given_options import Given, default_of, hints_of, inner_type

T = TypeVar("T")

_SHORT = 30
"""A default of so many letters is not broken into lines."""

_METAVARS: Mapping[type, str] = {int: "N", float: "X", str: "TEXT", Path: "PATH"}


@dataclass(frozen=True, slots=True)
class Only:
    """Beside a dataclass in a command's parameters: only these of its fields are options.

    Attributes:
        names: of its fields.
        but: options of its groups that it does not have, since they would have no effect.
    """

    names: tuple[str, ...]
    but: tuple[str, ...] = ()


class Common(Protocol):
    """Options that commands have beside their own."""

    def parameters(self, names: Set[str]) -> Iterable[inspect.Parameter]:
        """What a command gets whose own parameters have these names."""
        ...

    def take(self, typed: dict[str, Any]) -> None:
        """Take them out of what was typed, and act on them before the command does."""
        ...


Read = Callable[[dict[str, Any]], Any]
"""Makes an argument of a command from what Typer read."""


def flattened(command: Callable[..., Any], *common: Common) -> Callable[..., Any]:
    """A command for Typer made of one that takes dataclasses.

    Args:
        command: its parameters are plain ones, as Typer has them, dataclasses, or `Given` of them.
        common: options that it gets beside them.
    """
    hints = get_type_hints(command, include_extras=True)
    readers: dict[str, Read] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind, only, deferred = _dataclass_of(hints[name])
        if kind is None:
            parameters.append(keyword(name, hints[name], parameter.default))
        else:
            fields_of = parameters_of(kind, only.names)  # type: ignore[arg-type]  # has a hash
            parameters += (p for p in fields_of if p.name not in only.but)
            readers[name] = _reader(kind, only.names, deferred)
    names = {parameter.name for parameter in parameters}
    for one in common:
        parameters += one.parameters(names)

    def run(**typed: Any) -> Any:  # noqa: ANN401 - whatever the options are
        for one in common:
            one.take(typed)
        built = {name: read(typed) for name, read in readers.items()}
        return command(**typed, **built)

    run.__name__, run.__doc__, run.__module__ = (
        command.__name__,
        command.__doc__,
        command.__module__,
    )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}  # Typer has those of the signature, and would evaluate these again
    return run


def keyword(name: str, hint: Any, default: Any = None) -> inspect.Parameter:  # noqa: ANN401
    """A keyword-only parameter of a signature, which Typer reads as an option."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=hint)


def _dataclass_of(hint: Any) -> tuple[type[Any] | None, Only, bool]:  # noqa: ANN401
    """The dataclass that a parameter takes, which of its fields, and whether as `Given`."""
    only = Only(())
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        only = next((note for note in notes if isinstance(note, Only)), only)
    deferred = get_origin(hint) is Given
    kind = get_args(hint)[0] if deferred else hint
    return (kind if is_dataclass(kind) and isinstance(kind, type) else None), only, deferred


def _reader(kind: type[Any], only: tuple[str, ...], deferred: bool) -> Read:
    def read(typed: dict[str, Any]) -> Any:  # noqa: ANN401 - `kind`, or what was given of it
        given = given_of(kind, typed, only)
        return given if deferred else given.on()

    return read


def given_of(kind: type[T], typed: dict[str, Any], only: tuple[str, ...] = ()) -> Given[T]:
    """Takes what belongs to a dataclass out of what Typer read."""
    values: dict[str, Any] = {}
    groups: dict[str, Given[Any]] = {}
    for one, how, inner in _fields(kind, only):
        if how is not None:
            value = typed.pop(_identifier(one), None)
            if value is not None:
                values[one.name] = _parsed(one, how, value)
        if is_dataclass(inner):
            groups[one.name] = given_of(inner, typed, only_of(one))
    return Given(kind, values, groups)


def _parsed(one: Field[Any], how: Flag, value: Any) -> Any:  # noqa: ANN401 - of any field
    """The value of a field."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, Path):
        return Path(at_home(str(value)))
    if how.parse is None:
        return value
    expect_choice(one, value)
    try:
        return how.parse(value)
    except ValueError as error:
        raise OptionError(f"{typed_name(one)} is {value!r}, expected {error}") from None


@cache
def parameters_of(kind: type[Any], only: tuple[str, ...] = ()) -> Sequence[inspect.Parameter]:
    """Parameters for Typer of the fields of a dataclass that are options."""
    found: list[inspect.Parameter] = []
    for one, how, inner in _fields(kind, only):
        if how is not None:
            found.append(keyword(_identifier(one), _annotation(one, how, inner)))
        if is_dataclass(inner):
            found += parameters_of(inner, only_of(one))
    return tuple(found)


def _fields(
    kind: type[Any], only: tuple[str, ...]
) -> Iterator[tuple[Field[Any], Flag | None, type[Any]]]:
    """Fields that are options, with their flags and types; those that hold options, too."""
    hints = hints_of(kind)  # type: ignore[arg-type]  # every class has a hash
    for one in fields(kind):
        if not only or one.name in only:
            yield one, flag_of(one), inner_type(hints[one.name])


def _identifier(one: Field[Any]) -> str:
    return typed_name(one).lstrip("-").replace("-", "_")


def _annotation(one: Field[Any], how: Flag, inner: type[Any]) -> Any:  # noqa: ANN401 - a type
    """What Typer is told of a field; nothing typed is `None`, for defaults are the dataclass's."""
    name, default = typed_name(one), default_of(one)
    metavar = how.metavar or ("NAME" if how.choices else _METAVARS.get(inner, "X"))
    kind: Any = inner
    if how.parse is not None:
        kind = str
    elif inner is bool or is_dataclass(inner):
        kind, name = bool, f"{name}/--no-{name.removeprefix('--')}"
        metavar = ON_OFF if default or how.shown else ""
    elif get_origin(inner) is tuple:
        kind = list[get_args(inner)[0]]  # type: ignore[misc] # known when it runs
    option = typer.Option(
        *filter(None, (name, how.short, *how.also)),
        help=_help(how, default) + " [required]" * is_needed(one),
        metavar=metavar or None,
        show_default=False,
        rich_help_panel=how.panel or None,
        autocompletion=_completer(how.choices) if how.choices else None,
        readable=False,
    )
    return Annotated[kind | None, option]


def _help(how: Flag, default: Any) -> str:  # noqa: ANN401 - of any field
    text = ": ".join(filter(None, (how.help, ", ".join(how.choices)))) + "." * bool(how.choices)
    shown = how.shown
    if not shown and default is not None and default is not False and default != ():
        shown = "on" if default is True else str(default)
    default = f"[default: {shown}]"
    if len(default) <= _SHORT:
        default = default.replace(" ", UNBROKEN)
    return f"{text} {default}" if shown else text


def _completer(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """What a shell offers behind an option."""

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete
