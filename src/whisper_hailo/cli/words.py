"""Words in the order in which users of other programs type them, put as ours are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final

from typer.core import TyperOption

from whisper_hailo.text.outputs import ALL_FORMATS, FORMATS

_TRUTHS: Final = {"True": True, "False": False}
_FORMAT: Final = "--format"
_FILE: Final = "--file"


def in_our_order(words: Sequence[str], params: Sequence[Any]) -> list[str]:
    """Words behind a command, as it reads them.

    Args:
        words: as typed.
        params: of the command, as Typer has them.
    """
    options = [param for param in params if isinstance(param, TyperOption)]
    opposites = {
        name: tuple(param.secondary_opts)
        for param in options
        if param.is_bool_flag
        for name in param.opts
    }
    formats = {name for param in options if _FORMAT in param.opts for name in param.opts}
    named = _without_file_flags(words, formats | {_FILE}) if formats else words
    return _without_truths(named, opposites)


def _without_file_flags(words: Sequence[str], formats: Set[str]) -> list[str]:
    """`-f FILE`, as whisper.cpp has recordings named, is the recording; `-f srt` stays."""
    left: list[str] = []
    for word in words:
        if left and left[-1] in formats and _is_recording(word):
            left[-1] = word
        else:
            left.append(word)
    return left


def _is_recording(word: str) -> bool:
    """Whether what stands for a format is a file: there, or called as only files are."""
    if {part.strip().lower() for part in word.split(",")} <= {*FORMATS, ALL_FORMATS}:
        return False
    return word == "-" or bool(Path(word).suffix) or os.path.exists(word)


def _without_truths(words: Sequence[str], opposites: Mapping[str, Sequence[str]]) -> list[str]:
    """`--word_timestamps True` is the switch, `False` its opposite, or nothing."""
    left: list[str] = []
    for word in words:
        opposite = opposites.get(left[-1].replace("_", "-")) if left else None
        if opposite is None or word not in _TRUTHS:
            left.append(word)
        elif not _TRUTHS[word]:
            left[-1:] = opposite
    return left
