"""The manual page, from every command's help, and what shells complete by: `packaging/share`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import ShellComplete, get_completion_class

from whisper_hailo.cli.app import (
    COMMAND_GROUPS,
    COMPLETION_VARIABLE,
    PROGRAM,
    PROGRAM_GROUP,
    load_command,
)
from whisper_hailo.cli.command import SHOWS_RARE
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.version import __version__
from whisper_hailo_lab.repository import ROOT

SHARE: Final = ROOT / "packaging" / "share"
"""Lies in the wheel, and so in the `share` of an environment or of /usr."""

COMPLETIONS: Final = {
    "bash": f"bash-completion/completions/{PROGRAM}",
    "zsh": f"zsh/site-functions/_{PROGRAM}",
    "fish": f"fish/vendor_completions.d/{PROGRAM}.fish",
}
MAN: Final = f"man/man1/{PROGRAM}.1"


def make_files() -> dict[Path, str]:
    """All of them, with what they should hold."""
    shells = {SHARE / path: _script(shell) for shell, path in COMPLETIONS.items()}
    return shells | {SHARE / MAN: _page()}


def _script(shell: str) -> str:
    """What a shell reads at its start, or where it looks for completions."""
    kind: Any = get_completion_class(shell)
    made = kind(click.Command(PROGRAM), {}, PROGRAM, COMPLETION_VARIABLE)
    return ShellComplete.source(made)  # bash's own starts a bash to see how old it is


class _Roff:
    """What Click's help is written by, writing a manual page."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self.lines.append(f".PP\n.B {_escaped(name)}")
        yield

    def write_dl(self, rows: Sequence[tuple[str, str]], **_: object) -> None:
        for names, text in rows:
            self.lines.append(f".TP\n.B {_escaped(names.strip())}\n{_escaped(text)}")


def _escaped(text: str) -> str:
    """Words for a manual page, in which backslash, dash and a leading dot mean something."""
    text = re.sub(r"\s+", " ", text).strip()
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


def _page() -> str:
    group: Any = PROGRAM_GROUP
    context = group.make_context(PROGRAM, [], resilient_parsing=True)
    page = _Roff()
    page.lines += [
        f'.TH WHISPER\\-HAILO 1 "" "{PROGRAM} {__version__}"',
        f".SH NAME\n{_escaped(PROGRAM)} \\- {_escaped(group.help)}",
        f".SH SYNOPSIS\n.B {_escaped(PROGRAM)}\n[OPTIONS] COMMAND [ARGS]...",
        ".SH COMMANDS",
    ]
    for name in COMMAND_GROUPS:
        command: Any = load_command(name)
        own = command.make_context(name, [], parent=context, resilient_parsing=True)
        own.meta[SHOWS_RARE] = True
        usage = " ".join(command.collect_usage_pieces(own))
        page.lines.append(f".SS {_escaped(name)} {_escaped(usage)}")
        page.lines += ["\n.PP\n".join(map(_escaped, (command.help or "").split("\n\n")))]
        command.format_arguments(own, page)
        command.format_options(own, page)
    codes = (f".TP\n.B {code.value}\n{code.name.lower()}" for code in ExitCode)
    page.lines += [".SH EXIT STATUS", *codes]
    return "\n".join(page.lines) + "\n"
