"""Extras, as pip calls the parts of the installation that not everyone needs: how to add one."""

from __future__ import annotations

from typing import Literal, TypeAlias

Extra: TypeAlias = Literal[
    "media",
    "vad",
    "live",
    "web",
    "bench",
    "ctranslate2",
    "faster-whisper",
    "whisper-cpp",
    "onnx-asr",
    "moonshine",
]
"""Those of `pyproject.toml` that the program can lack."""


def to_add(extra: Extra) -> str:
    """What to type to have an extra, for messages.

    The package is in no registry, so it comes from the clone; `-e` leaves the program there, as
    `make` has it, and the next `git pull` is felt.
    """
    return f"pip install -e '.[{extra}]' in the clone"
