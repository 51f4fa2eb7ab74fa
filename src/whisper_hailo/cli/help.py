"""Help of a command: options by topic, everyday ones first, keys of settings files last."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, Final

import click

from whisper_hailo.cli.options import Option
from whisper_hailo.core.flags import CHIP, ENGINE

MORE: Final = "More"
"""Topic of options that are about options."""

UNBROKEN: Final = "\N{NO-BREAK SPACE}"
"""A blank at which no line ends."""

_SETTINGS: Final = "Settings file (--config) or environment only"
_LAST: Final = (ENGINE, CHIP, MORE, _SETTINGS)
_EVERYDAY: Final = "Options"
_NAMES_WIDTH: Final = 33
"""Longer names stand on a line of their own."""


def write_options(params: Iterable[Any], formatter: Any, *, settings: bool = False) -> None:  # noqa: ANN401
    """Write options by topic.

    Args:
        params: of a command, as Click has them.
        formatter: Click's, or anything with its `section` and `write_dl`.
        settings: also write the keys that only settings files have.
    """
    topics: dict[str, list[tuple[str, str]]] = {_EVERYDAY: []}
    for param in params:
        is_key = getattr(param, "settings_only", False)
        if isinstance(param, click.Option) and (settings if is_key else not param.hidden):
            topic = _SETTINGS if is_key else getattr(param, "topic", "") or _EVERYDAY
            topics.setdefault(topic, []).append((_names(param), param.help or ""))
    for topic in sorted(filter(topics.get, topics), key=_rank):
        with formatter.section(topic):
            formatter.write_dl(topics[topic], col_max=_NAMES_WIDTH)


def _rank(topic: str) -> int:
    return _LAST.index(topic) if topic in _LAST else -1


def _names(param: click.Option) -> str:
    """Return `-m, --model NAME`: our names, not those of other programs."""
    short = next((name for name in param.opts if len(name) == 2), "")
    long = next(name for name in param.opts if name.startswith("--"))
    value = "" if param.is_flag else f" {param.metavar}"
    if getattr(param, "settings_only", False):
        return f"{long.removeprefix('--')}{value or ' true|false'}"
    if isinstance(param, Option) and param.can_be_switched_off:
        long = f"--[no-]{long[2:]}"
    return f"{short}, {long}{value}" if short else f"{'':4}{long}{value}"


class Command(click.Command):
    """A command whose help is by topic.

    Attributes:
        has_all: its help has the keys of settings files, too.
    """

    has_all = False

    def get_help(self, ctx: click.Context) -> str:
        return super().get_help(ctx).replace(UNBROKEN, " ")

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return `[OPTIONS] AUDIO...`, as peers write it."""
        pieces = ["[OPTIONS]"]
        for param in self.params:
            if isinstance(param, click.Argument):
                name = _metavar(param) + "..." * (param.nargs != 1)
                pieces.append(name if param.required else f"[{name}]")
        return pieces

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments that need more than their names."""
        arguments = [param for param in self.params if isinstance(param, click.Argument)]
        rows = [(_metavar(param), param.help) for param in arguments if param.help]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self.get_params(ctx), formatter, settings=self.has_all)

    def full(self) -> Command:
        """Return the same command with help of all options and keys."""
        found = copy(self)
        found.has_all = True
        return found


def _metavar(param: click.Argument) -> str:
    return (param.metavar or param.name or "").upper()
