"""Joins a source and a captioner, so that listening never waits for computing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Event
from whisper_hailo.live.sources import Block, Source

_END_WAIT_S: Final = 2.0
"""A source that was told to end and gives nothing for so long is left alone."""


class _Stop:
    """Put where pieces wait, behind what was captured before."""


class CaptionStream:
    """Events of one source.

    A live source is read by a thread of its own into a queue without bound. Whenever the captioner
    is free it takes all that waits as one piece: the further computing has fallen behind, the
    fewer partials are made, and nothing is dropped. Other sources wait for their listener.

    Args:
        source: open.
        captioner: not used before.
    """

    def __init__(self, source: Source, captioner: Captioner) -> None:
        self._source = source
        self._captioner = captioner
        self._queue: queue.SimpleQueue[Block | BaseException | _Stop | None] = queue.SimpleQueue()
        self._stopped = False

    def stop(self) -> None:
        """End the stream: what was captured is heard, the running segment completed.

        It may be called from another thread, and from a signal handler: it takes no lock that the
        interrupted thread may hold.
        """
        self._stopped = True
        self._queue.put(_Stop())

    def events(self) -> Iterator[Event]:
        """All events, the last segment's completion included.

        Raises:
            AudioError, DeviceError: the source failed; the running segment is completed before.
        """
        failure: BaseException | None = None
        pieces = self._live() if self._source.live else self._pulled()
        try:
            for block in pieces:
                yield from self._captioner.feed(block.audio, block.captured_s)
        except Exception as error:
            failure = error
        yield from self._captioner.finish()
        if failure is not None:
            raise failure

    def _pulled(self) -> Iterator[Block]:
        for block in self._source.blocks():
            if self._stopped:
                return
            yield block

    def _live(self) -> Iterator[Block]:
        """What comes until the source ends; it is told to when the stream is stopped."""
        thread = threading.Thread(target=self._listen, name="caption-source", daemon=True)
        thread.start()
        try:
            ended, patience_s = False, None
            while not ended:
                waiting = self._waiting(patience_s)
                blocks = [item for item in waiting if isinstance(item, Block)]
                if blocks:
                    yield self._joined(blocks)
                for item in waiting:
                    if isinstance(item, BaseException):
                        raise item
                    if isinstance(item, _Stop):
                        self._source.close()
                        patience_s = _END_WAIT_S
                    ended = ended or item is None
        finally:
            self._source.close()
            thread.join(_END_WAIT_S)

    def _waiting(self, patience_s: float | None) -> list[Block | BaseException | _Stop | None]:
        """All that has come, at least one; the end when nothing comes for so long."""
        try:
            found = [self._queue.get(timeout=patience_s)]
        except queue.Empty:
            return [None]
        with suppress(queue.Empty):
            while True:
                found.append(self._queue.get_nowait())
        return found

    def _joined(self, blocks: list[Block]) -> Block:
        """All that waits, as one piece."""
        audio = np.concatenate([block.audio for block in blocks])
        figures = self._captioner.statistics
        figures.longest_backlog_s = max(figures.longest_backlog_s, audio.size / SAMPLE_RATE_HZ)
        figures.n_faults += sum(block.fault is not None for block in blocks)
        captured = [block.captured_s for block in blocks if block.captured_s is not None]
        return Block(audio, captured[-1] if captured else None)

    def _listen(self) -> None:
        """Runs on the source's thread."""
        try:
            for block in self._source.blocks():
                self._queue.put(block)
        except Exception as error:  # told on the main thread
            self._queue.put(error)
        else:
            self._queue.put(None)
