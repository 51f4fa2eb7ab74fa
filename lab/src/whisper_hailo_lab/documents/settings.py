"""The table of the options that only `--help-all` lists, from the commands."""

from __future__ import annotations

from collections import defaultdict

from whisper_hailo.cli.app import COMMAND_GROUPS, load_command
from whisper_hailo.cli.options import Option
from whisper_hailo_lab.report.table import Table

COLUMNS = ("option", "what it sets", "default", "commands")


def tables() -> dict[str, str]:
    """Return the table `settings`, a line per option."""
    keys: dict[str, Option] = {}
    commands: dict[str, list[str]] = defaultdict(list)
    for name in COMMAND_GROUPS:
        for option in getattr(load_command(name), "params", ()):
            if isinstance(option, Option) and option.hidden:
                key = option.opts[0]
                keys.setdefault(key, option)
                commands[key].append(name)
    rows = [_row(key, keys[key], commands[key]) for key in sorted(keys)]
    return {"settings": Table(COLUMNS, tuple(rows)).markdown()}


def _row(key: str, option: Option, commands: list[str]) -> tuple[str, str, str, str]:
    text, _, default = (option.help or "").partition(" [default: ")
    return f"`{key}`", text, default.removesuffix("]"), ", ".join(commands)
