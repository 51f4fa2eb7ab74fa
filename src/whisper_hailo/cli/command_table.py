"""The commands by their names; each is imported when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias

Command: TypeAlias = Callable[..., Any]

GROUPS: Final = {
    "Use": ("transcribe", "batch", "caption", "serve", "models", "doctor", "completion"),
    "Convert": ("convert", "inspect", "validate"),
    "Hailo": ("fetch-hef", "check", "calibrate", "emulate", "compile"),
}
"""In the order of the help; what others add measures, and follows."""

MEASURE: Final = "Measure"

OWN: Final = {name: group for group, names in GROUPS.items() for name in names}
"""Our commands with their groups."""

ADDED: Final = "whisper_hailo.commands"
"""Entry points of commands that other packages add, such as those that measure."""

_FUNCTIONS: Final = {"compile": "compile_hef"}
"""Of commands that cannot be called as they are typed."""


def commands(called: str | None = None) -> dict[str, Command]:
    """The command that is called, or all of them for a word that is none.

    Importing all takes longer than some of them run: a second on a Raspberry Pi.
    """
    if called in OWN:
        return {called: _own(called)}
    from importlib.metadata import entry_points  # a third of the start of a quick command

    added = entry_points(group=ADDED)
    if called in added.names:
        return {called: added[called].load()}
    return {name: _own(name) for name in OWN} | {entry.name: entry.load() for entry in added}


def _own(name: str) -> Command:
    module = name.replace("-", "_")
    imported = import_module(f"whisper_hailo.cli.commands.{module}")
    command: Command = getattr(imported, _FUNCTIONS.get(name, module))
    return command
