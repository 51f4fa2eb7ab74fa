"""Hashes of fetched files: what came first is what has to come later."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import write_file
from whisper_hailo.core.names import shown

SUMS: Final = "SHA256SUMS"
"""As `sha256sum --check` reads it."""

_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)")


class Sums:
    """What the files of a folder have to be."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SUMS
        self._known: dict[str, str] = {}
        if self.path.is_file():
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
            found = [match for match in map(_LINE.fullmatch, lines) if match]
            self._known = {match[2]: match[1] for match in found}

    def check(self, name: str, found: str) -> None:
        """Compare a file's hash with what it should be; one that is not known passes.

        Args:
            name: path below the folder.
            found: SHA-256 of the file, in hexadecimal.

        Raises:
            ModelError: it is another.
        """
        expected = self._known.get(name, found)
        if found != expected:
            raise ModelError(
                f"{name} has the SHA-256 {found[:16]}..., expected {expected[:16]}..., which came "
                "before; compare with what others have, and remove its line in "
                f"{shown(self.path)} to take this one"
            )

    def keep(self, name: str, found: str) -> None:
        """Remember what a file that was good is from now on."""
        if self._known.get(name) != found:
            self._known[name] = found
            lines = [f"{digest}  {file}\n" for file, digest in sorted(self._known.items())]
            write_file(self.path, "".join(lines))
