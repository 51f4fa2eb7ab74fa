"""What users ask of running captions: from the server's thread to the captioner's, with answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Final, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.events import Control

if TYPE_CHECKING:
    from whisper_hailo.live.captioning.console import Console
    from whisper_hailo.live.sources.paused import PausableSource

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
