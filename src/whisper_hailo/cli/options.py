"""Click options made of the fields of dataclasses (`core.flags`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import click

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag, flag_of, is_needed, only_of, typed_name
from whisper_hailo.core.partial_options import default_of, identifier, inner_type, option_fields

_SHORT: Final = 30
"""A default of so many letters is not broken into lines."""

_METAVARS: Final = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
_EXPECTED: Final = {int: "a whole number", float: "a number", str: "text", Path: "a path"}


@dataclass(frozen=True, slots=True)
class Argument:
    """Annotation of a positional parameter of a command, with its line of help if it needs one."""

    help: str = ""
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class FieldSubset:
    """Annotation of a dataclass parameter of a command: only these fields are options.

    Attributes:
        excluded: typed names, with `_` for `-`, of options without effect there.
    """

    names: tuple[str, ...]
    excluded: tuple[str, ...] = ()


class Value(click.ParamType[Any]):
    """The value of an option, parsed as its field says."""

    name = "value"

    def __init__(self, kind: type[Any], flag: Flag) -> None:
        self.kind, self.flag = kind, flag

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - Click's
        """Return the parsed value."""
        choices = self.flag.choices
        if choices and value not in choices:
            expected = f"one of: {', '.join(choices)}"
            raise OptionError(f"{_typed(param)} is {value!r}, expected {expected}")
        try:
            return self._parsed(value)
        except ValueError as error:
            raise OptionError(f"{_typed(param)} is {value!r}, expected {error}") from None

    def _parsed(self, value: Any) -> Any:  # noqa: ANN401 - of any type
        if self.flag.parse is not None:
            listed = isinstance(value, list)  # as `suppress-tokens = [5, 6]` in a settings file
            return self.flag.parse(",".join(map(str, value)) if listed else str(value))
        if self.kind is Path and isinstance(value, str):
            from whisper_hailo.core.files import expand_user  # takes as long as Click

            return Path(expand_user(value))
        if type(value) in (str, self.kind) or (type(value) is int and self.kind is float):
            try:
                return self.kind(value)
            except ValueError:
                pass
        raise ValueError(_EXPECTED[self.kind])

    def split_envvar_value(self, rv: str) -> list[str]:
        """Split a list in the environment at its commas."""
        return [word for word in rv.split(",") if word]

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:  # noqa: ANN401
        """Return the choices that begin with what is typed."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(one) for one in self.flag.choices if one.startswith(incomplete)]


class Option(click.Option):
    """An option of a field or of a parameter; without a value it is `None`.

    Attributes:
        topic: heading of help; empty: among the everyday options.
        settings_only: settings files and the environment have it, the command line does not.
        can_be_switched_off: it is a switch whose default is on, or detected.
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
        kind = inner_type(hint)
        is_list = flag.parse is None and get_origin(kind) in (tuple, list)
        kind = get_args(kind)[0] if is_list else kind
        switch = flag.parse is None and (kind is bool or is_dataclass(kind))
        self.topic = flag.panel
        self.settings_only = flag.settings_only
        self.can_be_switched_off = bool(switch and (default or flag.shown))
        names = f"{long}/--no-{long[2:]}" if switch else long
        unset: Any = {} if required else {"default": None}
        super().__init__(
            [identifier(long), *filter(None, (names, flag.short, *flag.also))],
            type=None if switch else Value(kind, flag),
            is_flag=switch or None,
            multiple=is_list,
            required=required,
            **unset,
            metavar=flag.metavar or ("NAME" if flag.choices else _METAVARS.get(kind, "X")),
            help=_help(flag, default),
            hidden=flag.settings_only,
        )

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Take the value from the command line, the environment or a settings file."""
        if self.settings_only and self.name in opts:
            key = self.opts[0].removeprefix("--")
            raise OptionError(
                f"--{key} is a key of the settings file; write {key} = {_toml(opts[self.name])} in "
                "FILE.toml and give --config FILE.toml"
            )
        return super().handle_parse_result(ctx, opts, args)


def options_of(kind: type[Any], subset: FieldSubset = FieldSubset(())) -> Iterator[Option]:
    """Yield the options of a dataclass's fields, nested dataclasses included."""
    for one, hint, held in option_fields(kind, subset.names):
        flag = flag_of(one)
        if flag is not None:
            long = "--" + typed_name(one).removeprefix("--")
            option = Option(long, flag, hint, default_of(one))
            option.help = (option.help or "") + " [required]" * is_needed(one)
            if option.name not in subset.excluded:
                yield option
        if held is not None:
            yield from options_of(held, FieldSubset(only_of(one), subset.excluded))


def argument_of(name: str, hint: Any, note: Argument, *, required: bool) -> click.Argument:  # noqa: ANN401
    """Return the Click argument of a positional parameter."""
    kind = inner_type(hint)
    is_list = get_origin(kind) is list
    kind = get_args(kind)[0] if is_list else kind
    made = click.Argument(
        [name],
        type=Value(kind, Flag(note.help)),
        nargs=-1 if is_list else 1,
        required=required,
        metavar=note.metavar or None,
        **({} if required else {"default": None}),
    )
    made.help = note.help
    return made


def _typed(param: click.Parameter) -> str:
    """Return the name of an option in messages; a key of settings files has no hyphens."""
    is_key = getattr(param, "settings_only", False)
    return param.opts[0].removeprefix("--") if is_key else param.opts[0]


def _toml(typed: Any) -> str:  # noqa: ANN401 - of any option
    """Return a typed value as a settings file has it."""
    is_number = isinstance(typed, str) and re.fullmatch(r"-?\d+(\.\d+)?", typed)
    return typed if is_number else json.dumps(typed)


def _help(flag: Flag, default: Any) -> str:  # noqa: ANN401 - of any field
    text = ": ".join(filter(None, (flag.help, ", ".join(flag.choices)))) + "." * bool(flag.choices)
    shown = flag.shown
    if not shown and default is not None and default is not False and default != ():
        shown = "on" if default is True else str(default)
    if not shown:
        return text
    default = f"[default: {shown}]"
    unbroken = default.replace(" ", "\N{NO-BREAK SPACE}")
    return f"{text} {unbroken if len(default) <= _SHORT else default}"
