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

    Only the clone has the locks: what an extra needs, version by version, with hashes.
    """
    return f"pip install -r requirements/{extra}.txt in the clone"
