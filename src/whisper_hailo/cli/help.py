"""Help in plain text: everyday options first, then topic by topic, no name ever cut."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, TypeAlias

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from whisper_hailo.core.flags import CHIP, ENGINE
from whisper_hailo.text.outputs import ALL_FORMATS, FORMATS

_TRUTHS: Final = {"True": True, "False": False}
_FORMAT: Final = "--format"
_FILE: Final = "--file"


def in_our_order(words: Sequence[str], params: Sequence[Any]) -> list[str]:
    """Words behind a command, as it reads them."""
    options = [param for param in params if isinstance(param, TyperOption)]
    opposites = {
        name: tuple(param.secondary_opts)
        for param in options
        if param.is_bool_flag
        for name in param.opts
    }
    formats = {name for param in options if _FORMAT in param.opts for name in param.opts}
    named = _without_file_flags(words, formats | {_FILE}) if formats else words
    return _without_truths(named, opposites)


def _without_file_flags(words: Sequence[str], formats: Set[str]) -> list[str]:
    """`-f FILE`, as whisper.cpp has recordings named, is the recording; `-f srt` stays."""
    left: list[str] = []
    for word in words:
        if left and left[-1] in formats and _is_recording(word):
            left[-1] = word
        else:
            left.append(word)
    return left


def _is_recording(word: str) -> bool:
    """Whether what stands for a format is a file: there, or called as only files are."""
    if {part.strip().lower() for part in word.split(",")} <= {*FORMATS, ALL_FORMATS}:
        return False
    return word == "-" or bool(Path(word).suffix) or os.path.exists(word)


def _without_truths(words: Sequence[str], opposites: Mapping[str, Sequence[str]]) -> list[str]:
    """`--word_timestamps True` is the switch, `False` its opposite, or nothing."""
    left: list[str] = []
    for word in words:
        opposite = opposites.get(left[-1].replace("_", "-")) if left else None
        if opposite is None or word not in _TRUTHS:
            left.append(word)
        elif not _TRUTHS[word]:
            left[-1:] = opposite
    return left


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


ON_OFF: Final = "[no-]"
"""Metavar of a switch whose help shows that it can be switched off, too."""

UNBROKEN: Final = "\N{NO-BREAK SPACE}"
"""A blank at which no line ends."""

_LAST: Final = (ENGINE, CHIP)
_EVERYDAY: Final = "Options"
_NAMES_WIDTH: Final = 33
"""Longer names stand on a line of their own."""

_WHOLE: Final = 1000
"""Characters of a command's first sentence: all of them."""

_TYPES: Final = {"str": "TEXT", "path": "PATH", "int": "N", "float": "X"}

Context: TypeAlias = Any
Formatter: TypeAlias = Any
"""Newer Typers carry their own Click, which has no public name."""


class Command(TyperCommand):
    """A command whose help is short lines, and which takes its words in others' order, too."""

    def get_params(self, ctx: Context) -> list[Any]:
        return take_as_typed(super().get_params(ctx))

    def get_help(self, ctx: Context) -> str:
        return super().get_help(ctx).replace(UNBROKEN, " ")

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the words behind the command."""
        return super().parse_args(ctx, in_our_order(args, self.params))

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """`[OPTIONS] AUDIO...`, as everyone writes it."""
        pieces = ["[OPTIONS]"]
        for param in self.params:
            if isinstance(param, TyperArgument):
                name = (param.metavar or param.name).upper() + "..." * (param.nargs != 1)
                pieces.append(name if param.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Context, formatter: Formatter) -> None:
        """Write arguments, then the options by topic."""
        arguments = [
            ((param.metavar or param.name).upper(), param.help or "")
            for param in self.params
            if isinstance(param, TyperArgument) and not param.hidden
        ]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        write_options(self, ctx, formatter)


class CommandGroup(TyperGroup):
    """All commands, in the groups that they are in."""

    def get_params(self, ctx: Context) -> list[Any]:
        return take_as_typed(super().get_params(ctx))

    def format_options(self, ctx: Context, formatter: Formatter) -> None:
        """Write the commands, then the options."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.commands[name]
            topic = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(topic, []).append((name, command.get_short_help_str(_WHOLE)))
        names = max(len(name) for rows in panels.values() for name, _ in rows)
        for topic, rows in panels.items():
            with formatter.section(topic):
                formatter.write_dl([(name.ljust(names), text) for name, text in rows])
        write_options(self, ctx, formatter)


def write_options(command: TyperCommand | TyperGroup, ctx: Context, formatter: Formatter) -> None:
    """Write options by topic, everyday ones first."""
    panels: dict[str, list[tuple[str, str]]] = {_EVERYDAY: []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and not isinstance(param, TyperArgument):
            topic = getattr(param, "rich_help_panel", None) or _EVERYDAY
            panels.setdefault(topic, []).append((_names(param, ctx), record[1]))
    for topic in sorted(panels, key=lambda topic: topic in _LAST):
        with formatter.section(topic):
            formatter.write_dl(panels[topic], col_max=_NAMES_WIDTH)


def _names(param: Any, ctx: Context) -> str:  # noqa: ANN401 - an option of Typer or of its Click
    """`-m, --model NAME`: the names that we give it; those of other programs are not shown."""
    short = next((name for name in param.opts if len(name) == 2), "")
    long = next(name for name in param.opts if name.startswith("--"))
    if param.is_flag or param.is_eager:
        if param.metavar == ON_OFF:
            long = f"--{ON_OFF}{long.removeprefix('--')}"
        value = ""
    else:
        value = " " + (param.metavar or _typed(param.display_type_rich(ctx)))
    return f"{short}, {long}{value}" if short else f"{'':4}{long}{value}"


def _typed(name: str) -> str:
    """What stands for a value whose option does not say, such as `N` for `<int range>`."""
    return next((short for kind, short in _TYPES.items() if kind in name), name.strip("<>").upper())
