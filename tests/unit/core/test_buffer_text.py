"""What was heard in a buffer."""

from __future__ import annotations

from whisper_hailo.core.types import BufferText, BufferWord, Timings


def test_words_of_a_buffer_are_joined() -> None:
    words = (BufferWord(" Good", (1, 2)), BufferWord(" day", (3,)), BufferWord("."))
    text = BufferText(words)
    assert (text.text, text.tokens) == ("Good day.", (1, 2, 3))
    assert (text.language, text.passes) == ("en", 0)
    assert (text.runaway, text.guess, text.translation) == (False, (), None)
    assert text.timings == Timings()
