"""Table of the options that only `--help-all` lists, from the commands."""

from __future__ import annotations

from collections import defaultdict

from whisper_hailo.cli.app import COMMAND_GROUPS, load_command
from whisper_hailo.cli.command import is_everyday
from whisper_hailo.cli.options import Option
from whisper_hailo_lab.tables import make_table


def make_tables() -> dict[str, str]:
    """Return the table `settings`, one line per option."""
    options: dict[str, Option] = {}
    commands: dict[str, list[str]] = defaultdict(list)
    for name in COMMAND_GROUPS:
        for option in getattr(load_command(name), "params", ()):
            if isinstance(option, Option) and not is_everyday(name, option):
                key = option.opts[0]
                options.setdefault(key, option)
                commands[key].append(name)
    rows = [_make_row(key, options[key], commands[key]) for key in sorted(options)]
    table = make_table(
        rows,
        (
            ("option", "`{option}`"),
            ("what it sets", "{text}"),
            ("default", "{default}"),
            ("commands", "{commands}"),
        ),
    )
    return {"settings": table.markdown()}


def _make_row(key: str, option: Option, commands: list[str]) -> dict[str, str]:
    text, _, default = (option.help or "").partition(" [default: ")
    return {
        "option": key,
        "text": text,
        "default": default.removesuffix("]"),
        "commands": ", ".join(commands),
    }
