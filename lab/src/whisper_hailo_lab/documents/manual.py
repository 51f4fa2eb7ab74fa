"""Files of `packaging/share`: the manual page, made of the help, and completions of shells."""

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
"""Folder that the wheel installs as `share` of an environment or of /usr."""

COMPLETIONS: Final = {
    "bash": f"bash-completion/completions/{PROGRAM}",
    "zsh": f"zsh/site-functions/_{PROGRAM}",
    "fish": f"fish/vendor_completions.d/{PROGRAM}.fish",
}
MAN: Final = f"man/man1/{PROGRAM}.1"


def make_files() -> dict[Path, str]:
    """Return the content of each file by its path."""
    files = {
        SHARE / path: _completion_script(shell) for shell, path in COMPLETIONS.items()
    }
    files[SHARE / MAN] = _manual_page()
    return files


def _completion_script(shell: str) -> str:
    kind: Any = get_completion_class(shell)
    completion = kind(click.Command(PROGRAM), {}, PROGRAM, COMPLETION_VARIABLE)
    # Not its own method: that of bash starts a bash to learn its version.
    return ShellComplete.source(completion)


class _RoffFormatter:
    """A formatter of Click's help that writes a manual page."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Write a heading."""
        self.lines.append(f".PP\n.B {_escape_roff(name)}")
        yield

    def write_dl(self, rows: Sequence[tuple[str, str]], **_: object) -> None:
        """Write a list of terms and descriptions."""
        for names, text in rows:
            self.lines.append(
                f".TP\n.B {_escape_roff(names.strip())}\n{_escape_roff(text)}"
            )


def _escape_roff(text: str) -> str:
    """Return text for a manual page: backslash, dash and a leading dot are escaped."""
    text = re.sub(r"\s+", " ", text).strip()
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


def _manual_page() -> str:
    group: Any = PROGRAM_GROUP
    context = group.make_context(PROGRAM, [], resilient_parsing=True)
    page = _RoffFormatter()
    page.lines += [
        f'.TH WHISPER\\-HAILO 1 "" "{PROGRAM} {__version__}"',
        f".SH NAME\n{_escape_roff(PROGRAM)} \\- {_escape_roff(group.help)}",
        f".SH SYNOPSIS\n.B {_escape_roff(PROGRAM)}\n[OPTIONS] COMMAND [ARGS]...",
        ".SH COMMANDS",
    ]
    for name in COMMAND_GROUPS:
        command: Any = load_command(name)
        command_context = command.make_context(
            name, [], parent=context, resilient_parsing=True
        )
        command_context.meta[SHOWS_RARE] = True
        usage = " ".join(command.collect_usage_pieces(command_context))
        page.lines.append(f".SS {_escape_roff(name)} {_escape_roff(usage)}")
        paragraphs = (command.help or "").split("\n\n")
        page.lines.append(
            "\n.PP\n".join(_escape_roff(paragraph) for paragraph in paragraphs)
        )
        command.format_arguments(command_context, page)
        command.format_options(command_context, page)
    page.lines.append(".SH EXIT STATUS")
    page.lines += [f".TP\n.B {code.value}\n{code.name.lower()}" for code in ExitCode]
    return "\n".join(page.lines) + "\n"
