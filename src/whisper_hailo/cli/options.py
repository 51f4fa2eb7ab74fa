"""Click options made of the fields of dataclasses (`core.flags`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import click

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag, flag_of, is_required, option_key, option_name
from whisper_hailo.core.partial_options import (
    default_of,
    fields_below,
    group_type,
    inner_type,
    option_fields,
)
from whisper_hailo.core.paths import expand_user

_METAVARS: Final = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
_EXPECTED: Final = {
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """Annotation of a positional parameter of a command, with its line of help if it needs one."""

    help: str = ""
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class FieldSubset:
    """Annotation of a dataclass parameter of a command: only these fields are options.

    Attributes:
        names: of fields; `prompts.hotwords` is one field of the group `prompts`.
    """

    names: tuple[str, ...]


class Value(click.ParamType[Any]):
    """The value of an option, parsed as its flag says; lists in the environment have commas."""

    name = "value"
    envvar_list_splitter = ","

    def __init__(self, kind: type[Any], flag: Flag) -> None:
        self._kind = kind
        self._flag = flag

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - Click's
        """Return the parsed value; in a settings file it has a type of TOML already."""
        expected = _EXPECTED.get(self._kind, "")
        try:
            if self._flag.choices and value not in self._flag.choices:
                expected = f"one of: {', '.join(self._flag.choices)}"
            elif self._flag.parse is not None:
                return self._flag.parse(_join_list(value))
            elif self._kind is Path and isinstance(value, str):
                return Path(expand_user(value))
            elif self._is_convertible(value):
                return self._kind(value)
        except ValueError as error:
            if self._flag.parse is not None:
                expected = str(error)
        raise OptionError(f"{param.opts[0]} is {value!r}, expected {expected}")

    def _is_convertible(self, value: Any) -> bool:  # noqa: ANN401 - of any type
        """Return whether the type's constructor may take a value: `int(2.5)` would round it."""
        is_whole = type(value) is int and self._kind is float
        return is_whole or type(value) in (str, self._kind)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:  # noqa: ANN401
        """Return the choices that begin with what is typed."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(choice)
            for choice in self._flag.choices
            if choice.startswith(incomplete)
        ]


def _join_list(value: Any) -> str:  # noqa: ANN401 - of any type
    """Return a value as it is typed: `suppress-tokens = [5, 6]` in a settings file is `5,6`."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


class Option(click.Option):
    """An option of a field or of a parameter; without a value it is `None`.

    Attributes:
        topic: heading in the help; empty: among the everyday options.
        can_be_switched_off: it is a switch whose default is on, or detected.
        optional: the value where none follows; empty: one has to.
    """

    def __init__(
        self,
        long: str,
        flag: Flag,
        hint: Any,  # noqa: ANN401 - a type
        default: Any = None,  # noqa: ANN401 - of any option
        *,
        required: bool = False,
    ) -> None:
        kind = _item_type(hint)
        is_switch = flag.parse is None and (
            kind is bool or group_type(kind) is not None
        )
        self.topic = flag.topic
        self.can_be_switched_off = is_switch and bool(default or flag.shown)
        self.optional = flag.optional
        self.is_joined = flag.is_joined
        # Of the value, and of the variable in the environment.
        names = [option_key(long)]
        names.append(f"{long}/--no-{long[2:]}" if is_switch else long)
        if flag.short:
            names.append(flag.short)
        names += flag.also
        super().__init__(
            names,
            type=None if is_switch else Value(kind, flag),
            is_flag=is_switch or None,
            multiple=_is_list(hint) and flag.parse is None,
            required=required,
            metavar=flag.metavar
            or ("NAME" if flag.choices else _METAVARS.get(kind, "X")),
            help=_format_help(flag, default),
            hidden=flag.rare,
            **_unset_default(required),
        )

    def accepts(self, word: str) -> bool:
        """Return whether a word can be the value of this option."""
        try:
            self.type.convert(word, self, None)
        except OptionError:
            return False
        return True


def options_of(kind: type[Any], only: tuple[str, ...] = ()) -> Iterator[Option]:
    """Yield the options of a dataclass, or `only` some, those of its groups included."""
    for field, hint in option_fields(kind, only):
        flag = flag_of(field)
        if flag is not None:
            option = Option(option_name(field), flag, hint, default_of(field))
            if is_required(field):
                option.help = f"{option.help} [required]"
            yield option
        group = group_type(hint)
        if group is not None:
            yield from options_of(group, fields_below(field, only))


def argument_of(
    name: str,
    hint: Any,  # noqa: ANN401 - a type
    note: Argument,
    *,
    required: bool,
) -> click.Argument:
    """Return the Click argument of a positional parameter."""
    return click.Argument(
        [name],
        type=Value(_item_type(hint), Flag(note.help)),
        nargs=-1 if _is_list(hint) else 1,
        required=required,
        metavar=note.metavar or None,
        help=note.help or None,
        **_unset_default(required),
    )


def _unset_default(required: bool) -> dict[str, Any]:
    """Return Click's default of a parameter: defaults are the dataclass's own, or the function's.

    Without one a switch that is not given would be `False`. What is required must have none, or
    Click would not miss it.
    """
    return {} if required else {"default": None}


def _is_list(hint: Any) -> bool:  # noqa: ANN401 - a type
    """Return whether an option of this type may be repeated."""
    return get_origin(inner_type(hint)) in (tuple, list)


def _item_type(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return the type of one value."""
    kind = inner_type(hint)
    return get_args(kind)[0] if _is_list(hint) else kind


def _format_help(flag: Flag, default: Any) -> str:  # noqa: ANN401 - of any field
    """Return the help of an option with its choices and its default."""
    text = flag.help
    if flag.choices:
        choices = ", ".join(flag.choices)
        text = f"{text}: {choices}." if text else f"{choices}."
    default_text = flag.shown or _format_default(default)
    return f"{text} [default: {default_text}]" if default_text else text


def _format_default(default: Any) -> str:  # noqa: ANN401 - of any field
    """Return a default for the help; nothing for switches that are off and what is unset."""
    if default is True:
        return "on"
    if default is None or default is False or default == ():
        return ""
    return str(default)
