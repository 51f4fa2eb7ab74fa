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

Wish: TypeAlias = Callable[["Console"], Control]
"""What is to be done with captions, and what is told of it."""

_MOST: Final = 32
"""Wishes that wait for a captioner that computes."""


class Controls:
    """Wishes that wait to be obeyed.

    Args:
        source: that can be paused.
    """

    def __init__(self, source: PausableSource | None = None) -> None:
        self._source = source
        self._waiting: Queue[tuple[Wish, Future[None]]] = Queue(_MOST)
        self._ended = False

    def pause(self, wanted: bool) -> None:
        """Pause the source or go on; nothing changes where it is so already.

        Raises:
            OptionError: there is nothing to pause.
        """
        if self._source is None or self._ended:
            raise OptionError("nothing is heard that could be paused")
        self._source.is_paused = wanted

    async def asked(self, wish: Wish) -> None:
        """Put a wish and wait until it is obeyed.

        Raises:
            OptionError: it cannot be.
        """
        await asyncio.wrap_future(self.ask(wish))

    def ask(self, wish: Wish) -> Future[None]:
        """Put a wish, on any thread; the future has its error, where it cannot be obeyed."""
        answer: Future[None] = Future()
        try:
            self._waiting.put_nowait((wish, answer))
        except Full:
            answer.set_exception(OptionError(f"{_MOST} others wait already; try again soon"))
        if self._ended:
            self._refuse()
        return answer

    def obey(self, console: Console) -> Iterator[Control]:
        """Do what was asked for, on the captioner's thread."""
        for wish, answer in self._taken():
            try:
                event = wish(console)
            except OptionError as error:
                answer.set_exception(error)
            else:
                yield event
                answer.set_result(None)

    def end(self) -> None:
        """Nothing is obeyed any more."""
        self._ended = True
        self._refuse()

    def _refuse(self) -> None:
        for _, answer in self._taken():
            answer.set_exception(OptionError("the stream has ended"))

    def _taken(self) -> Iterator[tuple[Wish, Future[None]]]:
        while True:
            try:
                wish, answer = self._waiting.get_nowait()
            except Empty:
                return
            if answer.set_running_or_notify_cancel():  # who asked may have left
                yield wish, answer


class Console:
    """Used on the captioner's thread, between two pieces of audio.

    Args:
        listener: of the captioner, like the others.
        segmenter: likewise.
        clock: of the captioner.
    """

    def __init__(self, listener: SegmentListener, segmenter: Segmenter, clock: StreamClock) -> None:
        self._listener = listener
        self._segmenter = segmenter
        self._clock = clock

    @property
    def settings(self) -> dict[str, float | str]:
        """What may be changed, by name."""
        return {"language": self._listener.language, **self._listener.options.changeable}

    def change(self, settings: dict[str, object]) -> Settings:
        """Hear otherwise; another language from the next segment on.

        Raises:
            OptionError: something of it may not be changed so, and nothing was.
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
        """A place of the stream that somebody wants to find again."""
        at_s = self._segmenter.heard_s
        return Marker(at_s, label, **self._clock.moment(at_s, at_s))

    def clear(self) -> Cleared:
        """What is shown is to be taken away."""
        at_s = self._segmenter.heard_s
        return Cleared(at_s, **self._clock.moment(at_s, at_s))
