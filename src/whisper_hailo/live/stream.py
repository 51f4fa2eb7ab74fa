"""Joins a source and a captioner, so that listening never waits for computing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Event
from whisper_hailo.live.sources import Block, Source

_END_WAIT_S = 2.0


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
        self._queue: queue.SimpleQueue[Block | BaseException | None] = queue.SimpleQueue()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the stream: what was captured is heard, the running segment completed.

        It may be called from a signal handler or from another thread.
        """
        self._stopped.set()
        self._queue.put(None)

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
            if self._stopped.is_set():
                return
            yield block

    def _live(self) -> Iterator[Block]:
        thread = threading.Thread(target=self._listen, name="caption-source", daemon=True)
        thread.start()
        try:
            ended = False
            while not ended:
                waiting = [self._queue.get()]
                with suppress(queue.Empty):
                    while True:
                        waiting.append(self._queue.get_nowait())
                blocks = [item for item in waiting if isinstance(item, Block)]
                if blocks:
                    yield self._joined(blocks)
                for item in waiting:
                    if isinstance(item, BaseException):
                        raise item
                    ended = ended or item is None
        finally:
            self._stopped.set()
            self._source.close()
            thread.join(_END_WAIT_S)

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
                if self._stopped.is_set():
                    break
        except Exception as error:  # told on the main thread
            self._queue.put(error)
        else:
            self._queue.put(None)
