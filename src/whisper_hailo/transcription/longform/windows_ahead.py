"""Windows of audio that is open already, cut on a thread of their own before they are needed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray

MAX_AHEAD: Final = 4
"""Windows in memory: a batch of a server has no more by default."""


class Turns:
    """Lets one thread work at a time; who has waited for longest is next."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    def begin(self) -> None:
        """Wait for a turn."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._waiting[0] is ticket)

    def end(self) -> None:
        """End the turn."""
        with self._changed:
            self._waiting.popleft()
            self._changed.notify_all()


@dataclass(eq=False)
class OpenedAudio(Closing):
    """Audio that is open already, from its first sample on.

    Its windows are cut on a thread of their own, which decodes and looks for speech as far as the
    next few windows: a codec that is slow, or hours without speech, block nobody else.

    Attributes:
        stream: name and length.
        blocks: `(n,)` float32 at 16 kHz mono, all of the audio.
        resources: close the stream.
        turns: of those that cut windows; hours without speech take many.
        on_change: called on any thread when there is a window to take.
        wait_for_others: waits, before each turn, until nobody is in a hurry.
        has_turn: it is being worked on.
        is_wanted: else its blocks end early, even within hours without speech.
    """

    stream: AudioStream
    blocks: Iterator[FloatArray]
    resources: ExitStack
    turns: Turns = field(default_factory=Turns)
    on_change: Callable[[], None] = lambda: None
    wait_for_others: Callable[[], None] = lambda: None
    has_turn: bool = field(default=False, init=False)
    is_wanted: bool = field(default=True, init=False)

    def read_blocks(self) -> Iterator[FloatArray]:
        """Yield the blocks; between them others have their turn."""
        for block in self.blocks:
            if not self.is_wanted:
                return
            if self.has_turn:
                self._end_turn()
                self._begin_turn()
            yield block

    def _begin_turn(self) -> None:
        self.wait_for_others()
        self.turns.begin()
        self.has_turn = True

    def _end_turn(self) -> None:
        self.has_turn = False
        self.turns.end()

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Work on it in the block."""
        self._begin_turn()
        try:
            yield
        finally:
            self._end_turn()

    def close(self) -> None:
        self.resources.close()


class WindowsAhead(Closing, Iterator[Window]):
    """Runs an iterator of windows on a thread, some windows ahead.

    Args:
        windows: used by the thread only; they may not depend on results.
        audio: what they are cut from, which the thread closes at the end.
    """

    def __init__(self, windows: Iterator[Window], audio: OpenedAudio) -> None:
        self._source = windows
        self._audio = audio
        self._windows: deque[Window] = deque()
        self._failure: Exception | None = None
        self._is_ended = False
        self._is_closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._cut_windows, name="cut", daemon=True).start()

    @property
    def is_ready(self) -> bool:
        """Whether the next window, or the end, needs no waiting."""
        with self._changed:
            return bool(self._windows) or self._is_ended

    def __next__(self) -> Window:
        with self._changed:
            self._changed.wait_for(lambda: self._windows or self._is_ended)
            if self._windows:
                self._changed.notify_all()
                return self._windows.popleft()
            failure = self._failure
            # Its traceback holds the thread's frame, and that holds this object.
            self._failure = None
        if failure is not None:
            raise failure
        raise StopIteration

    def close(self) -> None:
        """Let the thread end with its current window; it closes the audio."""
        self._audio.is_wanted = False
        with self._changed:
            self._is_closed = True
            self._failure = None
            self._windows.clear()
            self._changed.notify_all()

    def _cut_windows(self) -> None:
        try:
            while self._wait_for_room():
                with self._audio.in_turn():
                    window = next(self._source, None)
                if window is None:
                    break
                with self._changed:
                    self._windows.append(window)
                self._report_change()
        except (
            Exception
        ) as error:  # the recording's, which takes it with the next window
            with self._changed:
                self._failure = None if self._is_closed else error
        finally:
            with self._changed:
                self._is_ended = True
            # Before anybody hears of the end: what it was cut from may go then.
            self._audio.close()
            self._report_change()

    def _wait_for_room(self) -> bool:
        """Wait until another window may be cut; return whether one is wanted."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or len(self._windows) < MAX_AHEAD
            )
            return not self._is_closed

    def _report_change(self) -> None:
        with self._changed:
            self._changed.notify_all()
        self._audio.on_change()
