"""What the running segment's text expects next, and what it shows."""

from __future__ import annotations

from whisper_hailo.core.buffers import BufferText, BufferWord
from whisper_hailo.decoding.search.draft import Draft
from whisper_hailo.live.running import RunningText


def heard(*ids: int, guess: tuple[int, ...] = ()) -> BufferText:
    return BufferText(tuple(BufferWord(f" w{i}", (i,)) for i in ids), guess=guess)


def test_a_guess_is_tried_next_and_never_shown() -> None:
    text = RunningText(settle_s=1.0)
    text.hear(heard(1, 2, guess=(3, 4)), 0.5)
    assert text.draft == Draft((1, 2, 3, 4))
    assert [word.tokens for word in text.known] == [(1,), (2,)]
    text.hear(heard(1, 2), 1.5)
    assert text.draft == Draft((1, 2), 1), "one word is settled, and the guess is forgotten"
    assert text.n_corrected == 0
    assert [word.tokens for word in text.finish(heard(1, 2, 5))] == [(1,), (2,), (5,)]
