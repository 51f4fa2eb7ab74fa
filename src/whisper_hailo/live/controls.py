"""What users change while captions run, passed from the server's thread to the captioner's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Final, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.events import Cleared, Control, Marker, Settings
from whisper_hailo.live.listener import SegmentListener
from whisper_hailo.live.segmenter import Segmenter
from whisper_hailo.live.timeline import StreamClock

if TYPE_CHECKING:
    from whisper_hailo.live.sources.wrappers import PausableSource

Command: TypeAlias = Callable[["LiveSettings"], Control]
"""Commands to running captions, and their replies."""

_MOST: Final = 32
"""Wishes that wait for a captioner that computes."""


class Controls:
    """Queue of commands from users, processed by the captioner's thread.

    Args:
        source: that can be paused.
    """

    def __init__(self, source: PausableSource | None = None) -> None:
        self._source = source
        self._waiting: Queue[tuple[Command, Future[None]]] = Queue(_MOST)
        self._ended = False

    def pause(self, wanted: bool) -> None:
        """Pause the source or resume it; a repeated request changes nothing.

        Raises:
            OptionError: there is nothing to pause.
        """
        if self._source is None or self._ended:
            raise OptionError("nothing is heard that could be paused")
        self._source.is_paused = wanted

    async def asked(self, command: Command) -> None:
        """Queue a command and wait until it is processed.

        Raises:
            OptionError: it is refused.
        """
        await asyncio.wrap_future(self.ask(command))

    def ask(self, command: Command) -> Future[None]:
        """Queue a command, from any thread; the future gets its error if it is refused."""
        answer: Future[None] = Future()
        try:
            self._waiting.put_nowait((command, answer))
        except Full:
            answer.set_exception(OptionError(f"{_MOST} others wait already; try again soon"))
        if self._ended:
            self._refuse()
        return answer

    def process_commands(self, settings: LiveSettings) -> Iterator[Control]:
        """Yield the events of the queued commands, on the captioner's thread."""
        for command, answer in self._taken():
            try:
                event = command(settings)
            except OptionError as error:
                answer.set_exception(error)
            else:
                yield event
                answer.set_result(None)

    def end(self) -> None:
        """Refuse all commands from now on."""
        self._ended = True
        self._refuse()

    def _refuse(self) -> None:
        for _, answer in self._taken():
            answer.set_exception(OptionError("the stream has ended"))

    def _taken(self) -> Iterator[tuple[Command, Future[None]]]:
        while True:
            try:
                command, answer = self._waiting.get_nowait()
            except Empty:
                return
            if answer.set_running_or_notify_cancel():  # who asked may have left
                yield command, answer


class LiveSettings:
    """Settings of a running captioner; used on its thread, between two pieces of audio."""

    def __init__(self, listener: SegmentListener, segmenter: Segmenter, clock: StreamClock) -> None:
        self._listener = listener
        self._segmenter = segmenter
        self._clock = clock

    @property
    def settings(self) -> dict[str, float | str]:
        """Return the changeable settings by name."""
        return {"language": self._listener.language, **self._listener.options.changeable}

    def change(self, settings: dict[str, object]) -> Settings:
        """Change settings; another language applies from the next segment on.

        Raises:
            OptionError: one of them is refused; nothing is changed.
        """
        options = self._listener.options.changed(
            {name: value for name, value in settings.items() if name != "language"}
        )
        if "language" in settings:
            self._listener.language = str(settings["language"])
        self._listener.options = options
        self._segmenter.set(options)
        at_s = self._segmenter.heard_s
        return Settings(at_s, self.settings, **self._clock.moment(at_s, at_s))

    def mark(self, label: str) -> Marker:
        """Return a marker at the current place of the stream."""
        at_s = self._segmenter.heard_s
        return Marker(at_s, label, **self._clock.moment(at_s, at_s))

    def clear(self) -> Cleared:
        """Return the event that clears what is shown."""
        at_s = self._segmenter.heard_s
        return Cleared(at_s, **self._clock.moment(at_s, at_s))
