"""Captions of a source that a thread reads, which users control, or of a program's blocks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, Full, Queue
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.audio.stream import Resampler
from whisper_hailo.audio.vad import SpeechDetector, make_detector
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Control, Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import WhisperRecognizer, caption_defaults, warm_up
from whisper_hailo.live.sources.source import (
    POLL_S,
    AudioQueue,
    Block,
    Interruption,
    LiveSource,
    Pace,
    empty_block,
)
from whisper_hailo.transcription.transcriber import Transcriber

logger = logging.getLogger(__name__)

END_WAIT_S: Final = 2.0
"""Time for a source to end."""

Command: TypeAlias = Callable[[Captioner], Control]
"""Changes running captions; the reply is an event."""

STALL_S: Final = 2.0
"""So long without a sample is no pause of a speaker: a sender or a device gives nothing."""

_NO_SOUND: Final = "no sound arrives"

_MAX_COMMANDS: Final = 32
"""Commands that wait while the captioner computes."""

_ENDED: Final = "the stream has ended"


class Controls:
    """Commands of users, which the captioner's thread processes, and whether they paused it."""

    def __init__(self) -> None:
        self.is_paused = False
        self._waiting: Queue[tuple[Command, Future[None]]] = Queue(_MAX_COMMANDS)
        self._ended = False

    def set_paused(self, is_paused: bool) -> None:
        """Pause the stream or resume it, from any thread."""
        if self._ended:
            raise OptionError(_ENDED)
        self.is_paused = is_paused

    def submit(self, command: Command) -> Future[None]:
        """Queue a command, from any thread; the future gets its error if it is refused."""
        answer: Future[None] = Future()
        try:
            self._waiting.put_nowait((command, answer))
        except Full:
            answer.set_exception(
                OptionError(
                    f"{_MAX_COMMANDS} commands are already waiting; try again soon"
                )
            )
        if self._ended:  # `end` may have come before the command was in the queue
            self._refuse_waiting()
        return answer

    def process_commands(self, captioner: Captioner) -> Iterator[Control]:
        """Yield the events of the queued commands, on the captioner's thread."""
        for command, answer in self._take_waiting():
            try:
                event = command(captioner)
            except OptionError as error:
                answer.set_exception(error)
            else:
                yield event
                answer.set_result(None)

    def end(self) -> None:
        """Refuse all commands from now on."""
        self._ended = True
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        for _, answer in self._take_waiting():
            answer.set_exception(OptionError(_ENDED))

    def _take_waiting(self) -> Iterator[tuple[Command, Future[None]]]:
        """Yield the queued commands, except those whose client has left."""
        while True:
            try:
                command, answer = self._waiting.get_nowait()
            except Empty:
                return
            if answer.set_running_or_notify_cancel():
                yield command, answer


class CaptionStream:
    """Events of one source.

    A live source is read by a thread into an `AudioQueue`. Whenever the captioner is free it takes
    all that waits as one block: the further computing falls behind, the fewer partials are made.

    Args:
        source: open.
        captioner: not used before.
        alive: called at least each `POLL_S`, except while computing.

    Attributes:
        listeners: called with each block, without the audio of pauses, before it is captioned.
        recorders: called with each block as it comes, so that audio for which captions are too slow
            is recorded, too.
    """

    def __init__(
        self,
        source: LiveSource,
        captioner: Captioner,
        alive: Callable[[], None] = lambda: None,
        controls: Controls | None = None,
    ) -> None:
        self.listeners: list[Callable[[Block], None]] = []
        self.recorders: list[Callable[[Block], None]] = []
        self._alive = alive
        self._controls = controls or Controls()
        self._source = source
        self._captioner = captioner
        self._stopped = False

    def stop(self) -> None:
        """End the stream: captured audio is transcribed, the running segment completed.

        It takes no lock, so another thread or a signal handler may call it; it has its effect
        between two blocks.
        """
        self._stopped = True

    def events(self) -> Iterator[Event]:
        """Yield all events; a failure of the source follows the last segment's completion."""
        failure: BaseException | None = None
        try:
            with self._read_source() as blocks:
                for block in self._report_stalls(self._until_stopped(blocks)):
                    yield from self._controls.process_commands(self._captioner)
                    yield from self._transcribe(block)
        except Exception as error:
            failure = error
        self._controls.end()
        yield from self._captioner.finish()
        if failure is not None:
            raise failure

    @contextmanager
    def _read_source(self) -> Iterator[Iterator[Block]]:
        """Yield the source's blocks, read ahead by a thread where the source is live."""
        if self._source.pace is Pace.PULL:
            yield self._record_blocks()
            return
        queue = AudioQueue()

        def read_ahead() -> None:
            put = queue.put if self._source.pace is Pace.REAL_TIME else queue.put_all
            try:
                for block in self._record_blocks():
                    put(block)
            except Exception as error:  # raised on the main thread
                queue.end(error)
            else:
                queue.end()

        thread = threading.Thread(target=read_ahead, name="caption-source", daemon=True)
        thread.start()
        try:
            yield queue.blocks()
        finally:
            self._source.close()
            queue.end()
            thread.join(END_WAIT_S)

    def _record_blocks(self) -> Iterator[Block]:
        """Yield the source's blocks without the audio of pauses, and record them."""
        for block in self._drop_pauses(self._source.blocks()):
            for record in self.recorders:
                record(block)
            yield block

    def _drop_pauses(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yield blocks; in a pause empty ones: live audio is dropped, a recording waits."""
        can_wait = self._source.pace is Pace.PULL and not self._source.endless
        absence: Interruption | None = None  # of the source itself
        is_paused = False
        n_missed = 0
        for block in blocks:
            if self._controls.is_paused and not is_paused:
                is_paused = True
                n_missed = 0
                # It ends before the pause begins: they do not overlap.
                if absence is not None:
                    yield empty_block(Interruption(""))
                yield empty_block(Interruption("paused", paused=True))
            while can_wait and self._controls.is_paused and not self._stopped:
                yield empty_block()
                time.sleep(POLL_S)
            if is_paused and not self._controls.is_paused:
                is_paused = False
                yield empty_block(Interruption("", n_missed, paused=True))
                if absence is not None:  # the source is still away
                    yield empty_block(absence)
            if block.interruption is not None:
                absence = block.interruption if block.interruption.reason else None
            n_missed += block.audio.size + block.n_missing
            yield empty_block() if is_paused else block

    def _report_stalls(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yield blocks; say when no sound has arrived for long, and when it does again."""
        quiet_s = 0.0
        is_away = False
        is_stalled = False
        for block in blocks:
            gap = block.interruption
            if is_stalled and (block.audio.size or gap is not None):
                is_stalled = False
                yield empty_block(Interruption("", stalled=True))
            if gap is not None:
                is_away = bool(gap.reason)
            if is_away or block.audio.size or gap is not None:
                quiet_s = 0.0
            else:  # empty blocks count, not the clock: computing takes time, too
                quiet_s += POLL_S
            if quiet_s >= STALL_S and not is_stalled and not self._stopped:
                is_stalled = True
                logger.warning("no audio is arriving from %s", self._source.name)
                yield empty_block(Interruption(_NO_SOUND, stalled=True))
            yield block

    def _until_stopped(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yield blocks until the source ends; it is closed when the stream is stopped."""
        quiet_s = 0.0
        for block in blocks:
            self._alive()
            yield block
            if self._stopped:
                self._source.close()
                quiet_s = 0.0 if block.audio.size else quiet_s + POLL_S
            if quiet_s > END_WAIT_S:  # a source that does not end is left alone
                return

    def _transcribe(self, block: Block) -> Iterator[Event]:
        """Yield the events of a block, and of the gap behind it."""
        statistics = self._captioner.statistics
        statistics.n_faults += block.n_faults
        if block.captured_s is not None:
            backlog_s = block.audio.size / SAMPLE_RATE_HZ
            statistics.longest_backlog_s = max(statistics.longest_backlog_s, backlog_s)
        for listener in self.listeners:
            listener(block)
        yield from self._captioner.feed(block.audio, block.captured_s)
        if block.n_lost:
            yield from self._captioner.skip_lost(block.n_lost)
        gap = block.interruption
        if gap is None:
            return
        if gap.reason:
            yield from self._captioner.suspend(gap)
        else:
            yield from self._captioner.resume(gap)


Samples: TypeAlias = NDArray[Any]
"""`(n_samples,)` mono: floats in [-1, 1], or integers such as the 16 bits of most sound cards."""


class BlockCaptions:
    """Captions of audio that a program has block by block.

    Args:
        transcriber: open, and used by nothing else while captions run.
        options: language, task, anti-repetition; `None` is what suits the decoder.
        captions: when segments begin and end.
        sample_rate: of the blocks, in Hz.
        detector: tells speech from silence; `None` is Silero's.

    Raises:
        OptionError: live captions do not support the options, or the voice detector is missing.
    """

    def __init__(
        self,
        transcriber: Transcriber,
        options: DecodingOptions | None = None,
        captions: CaptionOptions | None = None,
        *,
        sample_rate: int = SAMPLE_RATE_HZ,
        detector: SpeechDetector | None = None,
    ) -> None:
        captions = captions or CaptionOptions()
        options = options or caption_defaults(transcriber.default_anti_repetition)
        recognizer = WhisperRecognizer(transcriber, options)
        self._captioner = Captioner(recognizer, detector or make_detector(), captions)
        self._resampler = Resampler(sample_rate)
        warm_up(recognizer)

    def feed(self, block: Samples) -> list[Event]:
        """Return the events of a block of any length, once it is transcribed."""
        return list(self._captioner.feed(self._resampler.push(to_float32(block))))

    def finish(self) -> list[Event]:
        """Return the events of the end of the stream."""
        rest = self._captioner.feed(self._resampler.finish())
        return [*rest, *self._captioner.finish()]


def stream(blocks: Iterable[Samples], captions: BlockCaptions) -> Iterator[Event]:
    """Yield the events of blocks as soon as they are known; each stream has its own captions."""
    for block in blocks:
        yield from captions.feed(block)
    yield from captions.finish()


def to_float32(block: Samples) -> FloatArray:
    """Convert mono samples of any width to float32 in [-1, 1]."""
    if block.ndim != 1 or block.dtype.kind not in "fi" or block.dtype.itemsize == 1:
        raise AudioError(
            f"a block has shape {block.shape} and type {block.dtype}, expected (n_samples,) mono "
            "of floats in [-1, 1] or int16; take one channel with block[:, 0]"
        )
    samples = block.astype(np.float32)
    if block.dtype.kind == "i":
        full_scale = -float(np.iinfo(block.dtype).min)
        samples = samples / np.float32(full_scale)
    return samples
