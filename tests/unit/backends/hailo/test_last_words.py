"""The line that a program writes before a hanging call ends it."""

from __future__ import annotations

import ctypes

from whisper_hailo.backends.hailo.last_words import LIBC, LastWords


def test_last_words_escape_percent_signs() -> None:
    """The C library reads the line as a format, so each `%` of a file name is doubled."""
    words = LastWords("loading 100%s \udcff.hef did not end")
    assert words.message.value == rb"loading 100%%s \udcff.hef did not end"
    name = ctypes.c_char_p.in_dll(LIBC, "program_invocation_short_name").value
    assert name == b"whisper-hailo"
