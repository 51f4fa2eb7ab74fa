"""Help of a command: options by topic, everyday ones first, rare ones only with `--help-all`."""

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

_LAST: Final = (ENGINE, CHIP, MORE)
_EVERYDAY: Final = "Options"
_NAMES_WIDTH: Final = 33
"""Longer names stand on a line of their own."""

RARE: Final = frozenset(
    f"--{name}"
    for name in (
        # Model, engine, chip
        "encoder-quantize", "margin-s", "encoder-backend", "decoder-backend", "decoder-assets",
        "draft-tokens", "tokenizer", "host-contract", "device-timeout",
        # Repetition, doubtful text, search
        "pad-to", "pad-with", "repetition-penalty", "eot-boost", "max-new-tokens",
        "suppress-tokens", "suppress-blank", "no-repeat-ngram", "max-tokens-per-second",
        "logprob-threshold", "compression-ratio-threshold",
        "retry-beam-size", "patience", "length-penalty", "best-of", "seed",
        # Times, prompts, windows
        "max-initial-timestamp", "prepend-punctuations", "append-punctuations", "prefix",
        "carry-initial-prompt", "overlap", "trim-window", "skip-silence", "vad-min-silence",
        "vad-speech-pad",
        # Captions
        "min-speech", "pre-roll", "min-partial", "hold-back", "drafts", "loops", "max-segment",
        "web-allow-host", "web-frame", "web-cert", "web-key",
        # The server
        "queue-each", "max-live", "max-connections", "max-stored", "drain", "log-text",
    )
)  # fmt: skip
"""Options that few need: command line and settings files take them, `--help` leaves them out."""


def write_options(params: Iterable[Any], formatter: Any, *, rare: bool) -> None:  # noqa: ANN401
    """Write options by topic.

    Args:
        params: of a command, as Click has them.
        formatter: Click's, or anything with its `section` and `write_dl`.
        rare: also write the rare ones.
    """
    topics: dict[str, list[tuple[str, str]]] = {_EVERYDAY: []}
    for param in params:
        if isinstance(param, click.Option) and (rare or param.opts[0] not in RARE):
            topic = getattr(param, "topic", "") or _EVERYDAY
            topics.setdefault(topic, []).append((_names(param), param.help or ""))
    for topic in sorted(filter(topics.get, topics), key=lambda topic: topic in _LAST):
        with formatter.section(topic):
            formatter.write_dl(topics[topic], col_max=_NAMES_WIDTH)


def _names(param: click.Option) -> str:
    """Return `-m, --model NAME`: our names, not those of other programs."""
    short = next((name for name in param.opts if len(name) == 2), "")
    long = next(name for name in param.opts if name.startswith("--"))
    value = "" if param.is_flag else f" {param.metavar}"
    if isinstance(param, Option) and param.can_be_switched_off:
        long = f"--[no-]{long[2:]}"
    return f"{short}, {long}{value}" if short else f"{'':4}{long}{value}"


class Command(click.Command):
    """A command whose help is by topic.

    Attributes:
        has_all: its help has the rare options, too.
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
        write_options(self.get_params(ctx), formatter, rare=self.has_all)

    def full(self) -> Command:
        """Return the same command with help of all options."""
        found = copy(self)
        found.has_all = True
        return found


def _metavar(param: click.Argument) -> str:
    return (param.metavar or param.name or "").upper()
