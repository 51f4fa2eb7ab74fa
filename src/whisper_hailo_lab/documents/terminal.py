"""Draws the picture of the README: the command as it runs in a terminal.

    python -m whisper_hailo_lab.documents.terminal

Its commands are run, and what they print is what the picture shows.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from typing import Final

from whisper_hailo.core.files import write_file
from whisper_hailo_lab.program import run
from whisper_hailo_lab.repository import ROOT

PICTURE: Final = ROOT / "docs" / "img" / "terminal.svg"
DEMO: Final = "src/whisper_hailo/assets/demo.flac"
COMMANDS: Final = (
    f"whisper-hailo transcribe {DEMO} --model micro --timestamps",
    f"whisper-hailo transcribe {DEMO} --model micro --format srt",
)
_COLUMNS: Final = 96
_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> None:
    """Entry point of the command line."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "green"), (command, "bold")))
        words = [sys.executable, "-m", "whisper_hailo", *command.split()[1:]]
        done = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
        )
        console.print(Text(done.stderr.rstrip(), "dim"))
        console.print(Text(done.stdout.rstrip() + "\n"))
    svg = console.export_svg(title="whisper-hailo", unique_id="terminal")
    write_file(PICTURE, _FONT.sub("", svg))  # a page that shows it fetches nothing


if __name__ == "__main__":
    sys.exit(run(main))
