"""Click options made of the fields of dataclasses (`core.flags`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import click

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag, flag_of, is_needed, only_of, typed_name
from whisper_hailo.core.partial_options import default_of, identifier, inner_type, option_fields

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
    """The value of an option, parsed as its field says; lists in the environment have commas."""

    name = "value"
    envvar_list_splitter = ","

    def __init__(self, kind: type[Any], flag: Flag) -> None:
        self.kind, self.flag = kind, flag

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - Click's
        """Return the parsed value."""
        flag, kind = self.flag, self.kind
        expected = _EXPECTED.get(kind, "")
        try:
            if flag.choices and value not in flag.choices:
                expected = f"one of: {', '.join(flag.choices)}"
            elif flag.parse is not None:
                listed = isinstance(value, list)  # `suppress-tokens = [5, 6]` in a settings file
                return flag.parse(",".join(map(str, value)) if listed else str(value))
            elif kind is Path and isinstance(value, str):
                from whisper_hailo.core.paths import expand_user  # takes as long as Click

                return Path(expand_user(value))
            elif type(value) in (str, kind) or (type(value) is int and kind is float):
                return kind(value)
        except ValueError as error:
            expected = expected if flag.parse is None else str(error)
        raise OptionError(f"{param.opts[0]} is {value!r}, expected {expected}")

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:  # noqa: ANN401
        """Return the choices that begin with what is typed."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(one) for one in self.flag.choices if one.startswith(incomplete)]


class Option(click.Option):
    """An option of a field or of a parameter; without a value it is `None`.

    Attributes:
        topic: heading of help; empty: among the everyday options.
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
        kind, is_list = _item_type(hint)
        is_list = is_list and flag.parse is None
        switch = flag.parse is None and (kind is bool or is_dataclass(kind))
        self.topic = flag.panel
        self.can_be_switched_off = bool(switch and (default or flag.shown))
        names = f"{long}/--no-{long[2:]}" if switch else long
        unset: Any = {} if required else {"default": None}
        super().__init__(
            [identifier(long), *filter(None, (names, flag.short, *flag.also))],
            type=None if switch else Value(kind, flag),
            is_flag=switch or None,
            multiple=is_list,
            required=required,
            metavar=flag.metavar or ("NAME" if flag.choices else _METAVARS.get(kind, "X")),
            help=_format_help(flag, default),
            hidden=flag.rare,
            **unset,
        )


def options_of(kind: type[Any], subset: FieldSubset = FieldSubset(())) -> Iterator[Option]:
    """Yield the options of a dataclass's fields, nested dataclasses included."""
    for one, hint, held in option_fields(kind, subset.names):
        flag = flag_of(one)
        if flag is not None:
            option = Option(typed_name(one), flag, hint, default_of(one))
            option.help = (option.help or "") + " [required]" * is_needed(one)
            if option.name not in subset.excluded:
                yield option
        if held is not None:
            yield from options_of(held, FieldSubset(only_of(one), subset.excluded))


def argument_of(name: str, hint: Any, note: Argument, *, required: bool) -> click.Argument:  # noqa: ANN401
    """Return the Click argument of a positional parameter."""
    kind, is_list = _item_type(hint)
    return click.Argument(
        [name],
        type=Value(kind, Flag(note.help)),
        nargs=-1 if is_list else 1,
        required=required,
        metavar=note.metavar or None,
        help=note.help or None,
        **({} if required else {"default": None}),
    )


def _item_type(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type
    """Return the type of one value, and whether there may be several."""
    kind = inner_type(hint)
    is_list = get_origin(kind) in (tuple, list)
    return get_args(kind)[0] if is_list else kind, is_list


def _format_help(flag: Flag, default: Any) -> str:  # noqa: ANN401 - of any field
    text = ": ".join(filter(None, (flag.help, ", ".join(flag.choices)))) + "." * bool(flag.choices)
    shown = flag.shown
    if not shown and default is not None and default is not False and default != ():
        shown = "on" if default is True else str(default)
    return f"{text} [default: {shown}]" if shown else text
