"""Help: options by topic, everyday ones first, rare ones only with `--help-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click

from whisper_hailo.cli.options import Option
from whisper_hailo.core.flags import CHIP, ENGINE

MORE: Final = "More"
"""Topic of options that are about options."""

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
        "min-speech", "pre-roll", "min-partial", "hold-back", "drafts", "loops",
        "max-segment", "web-allow-host", "web-frame", "web-cert", "web-key",
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
        if isinstance(param, click.Option) and (rare or not is_rare(param)):
            topic = getattr(param, "topic", "") or _EVERYDAY
            topics.setdefault(topic, []).append((_names(param), param.help or ""))
    for topic in sorted(filter(topics.get, topics), key=lambda topic: topic in _LAST):
        with formatter.section(topic):
            formatter.write_dl(topics[topic], col_max=_NAMES_WIDTH)


def is_rare(param: click.Parameter) -> bool:
    """Return whether `--help` leaves an option out."""
    return param.opts[0] in RARE


def write_arguments(params: Iterable[Any], formatter: Any) -> None:  # noqa: ANN401
    """Write the arguments that need more than their names."""
    rows = [
        (metavar(param), param.help)
        for param in params
        if isinstance(param, click.Argument) and param.help
    ]
    if rows:
        with formatter.section("Arguments"):
            formatter.write_dl(rows)


def usage_pieces(params: Iterable[Any]) -> list[str]:
    """Return `[OPTIONS] AUDIO...`, as peers write it."""
    pieces = ["[OPTIONS]"]
    for param in params:
        if isinstance(param, click.Argument):
            name = metavar(param) + "..." * (param.nargs != 1)
            pieces.append(name if param.required else f"[{name}]")
    return pieces


def metavar(param: click.Argument) -> str:
    """Return what stands for an argument."""
    return (param.metavar or param.name or "").upper()


def _names(param: click.Option) -> str:
    """Return `-m, --model NAME`: our names, not those of other programs."""
    short = next((name for name in param.opts if len(name) == 2), "")
    long = next(name for name in param.opts if name.startswith("--"))
    if param.is_flag:
        off = isinstance(param, Option) and param.can_be_switched_off
        value, long = "", f"--[no-]{long[2:]}" if off else long
    else:
        value = f" {param.metavar}"
    return f"{short}, {long}{value}" if short else f"{'':4}{long}{value}"
