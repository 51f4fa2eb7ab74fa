"""Reads recordings in another process: where a library crashes, one item is lost."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.batch.manifest import MOST_PIECES, PIECE_S, Failure, Group, Piece, Task
from whisper_hailo.batch.store import open_recording
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

_PATIENCE_S: Final = 5.0

Target = Callable[..., None]
"""Function of a child process: takes its end of the pipe and arguments."""


class Child:
    """A child process with a pipe, which ends when this process does."""

    def __init__(self, target: Target, *args: object) -> None:
        # Nothing of this process is shared: sessions of the runtime do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=run_target, args=(target, theirs, *args), daemon=True
        )
        self._process.start()
        theirs.close()

    def send(self, message: object) -> None:
        """Send a message; raises `EOFError` if the process died."""
        try:
            self.pipe.send(message)
        except OSError as error:
            raise EOFError from error

    def receive(self) -> Any:  # noqa: ANN401 - whatever its target sends
        """Wait for a message; raises `EOFError` if the process died, or the error it sends."""
        try:
            message = self.pipe.recv()
        except OSError as error:
            raise EOFError from error
        if isinstance(message, Exception):
            raise message
        return message

    @property
    def died_of(self) -> str:
        """The signal, such as `SIGKILL`, or the exit code that it ended with."""
        self._process.join(_PATIENCE_S)
        code = self._process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def end(self) -> None:
        """Kill it."""
        self.pipe.close()
        self._process.kill()
        self._process.join(_PATIENCE_S)


def run_target(target: Target, pipe: Connection, *args: object) -> None:
    """Run a function in a child process until its parent has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is its parent's affair
    try:
        target(pipe, *args)
    except EOFError:
        return
    except Exception as error:  # its parent tells it
        with suppress(OSError):
            pipe.send(error)


LOOKED_AT_S: Final = 60.0
"""Seconds at the end of a full piece that are searched for a pause."""

_PAUSE_S: Final = 0.5
_FRAME: Final = SAMPLE_RATE_HZ // 50
MAX_PIECE_SAMPLES: Final = round(PIECE_S * SAMPLE_RATE_HZ)

BROKEN_FAILURE: Final = Failure(
    "AudioError", "the library that reads it crashed on it; record or export the file again"
)
"""Failure of an item that crashed the reading process repeatedly."""


def read_tasks(
    group: Group, broken: Mapping[int, int] | None = None, at: Callable[[int], object] = id
) -> Iterator[Task]:
    """Yield the tasks of a group, also those that are done.

    Args:
        group: read from its first item on.
        broken: items that cannot be read without a crash, with the number of pieces before it.
        at: called with each item's place before it is opened.
    """
    pieces: list[Piece] = []
    index, n_samples = 0, 0
    for piece in _pieces(group, broken or {}, at):
        full = n_samples + piece.n_samples > MAX_PIECE_SAMPLES or len(pieces) == MOST_PIECES
        # What came before a crash was handed out already, as it would have been without it.
        if pieces and (full or piece.failure is BROKEN_FAILURE):
            yield Task(group.index, index, tuple(pieces), is_last=False)
            pieces, n_samples, index = [], 0, index + 1
        pieces.append(piece)
        n_samples += piece.n_samples
    yield Task(group.index, index, tuple(pieces), is_last=True)


def _pieces(
    group: Group, broken: Mapping[int, int], at: Callable[[int], object]
) -> Iterator[Piece]:
    for place, item in enumerate(group.items):
        at(place)
        most = broken.get(place)
        end_s, n_pieces = 0.0, 0
        try:
            with open_recording(item.audio) as source, open_audio(source, item.audio) as stream:
                for start_s, samples in [] if most == 0 else cut_pieces(stream):
                    yield Piece(place, start_s, samples, item.language)
                    end_s, n_pieces = start_s + samples.size / SAMPLE_RATE_HZ, n_pieces + 1
                    if n_pieces == most:
                        break
        except Exception as error:  # of this recording; the others have their turn
            yield Piece(place, end_s, failure=Failure.of(error))
        else:
            if most is not None:
                yield Piece(place, end_s, failure=BROKEN_FAILURE)


def cut_pieces(stream: AudioStream) -> Iterator[tuple[float, FloatArray]]:
    """Yield pieces of at most `PIECE_S`, each with its start in seconds."""
    start, held = 0, np.zeros(0, np.float32)
    for block in stream.blocks(10 * SAMPLE_RATE_HZ):
        held = np.concatenate([held, block])
        if held.size > MAX_PIECE_SAMPLES:
            n_samples = find_quiet_cut(held[:MAX_PIECE_SAMPLES])
            yield start / SAMPLE_RATE_HZ, held[:n_samples]
            start, held = start + n_samples, held[n_samples:].copy()
    if held.size:
        yield start / SAMPLE_RATE_HZ, held


def find_quiet_cut(samples: FloatArray) -> int:
    """Return the sample in the middle of the quietest half second near a full piece's end.

    Sums are of whole numbers, so that every processor cuts at the same place.
    """
    first = samples.size - round(LOOKED_AT_S * SAMPLE_RATE_HZ)
    n_frames = (samples.size - first) // _FRAME
    end = samples[first : first + n_frames * _FRAME]
    levels = np.rint(np.clip(end, -1.0, 1.0) * 32767).astype(np.int64) ** 2
    per_frame = levels.reshape(n_frames, _FRAME).sum(axis=1)
    width = round(_PAUSE_S * SAMPLE_RATE_HZ / _FRAME)
    sums = np.concatenate([[0], np.cumsum(per_frame)])
    quiet = int(np.argmin(sums[width:] - sums[:-width]))
    return first + (2 * quiet + width) * _FRAME // 2


def task_audio_s(task: Task) -> float:
    """Return the seconds of a task's audio."""
    return sum(piece.n_samples for piece in task.pieces) / SAMPLE_RATE_HZ


_TRIES: Final = 2
"""Crashes at an item before it is given up: once, the process may have been killed."""

_MOST_TRIES: Final = 9
"""Crashes at one place that are not caused by what is read."""

_NOWHERE: Final = -1
"""The place before the first item."""


class GroupReader(Closing):
    """Reads groups, one at a time."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def open(self) -> GroupReader:
        return self

    def tasks(self, group: Group) -> Iterator[Task]:
        """Yield the tasks of a group that are not done."""
        crashes: Counter[int] = Counter()
        broken: dict[int, int] = {}
        given: dict[int, Task] = {}
        while True:
            child = self._child = self._child or Child(run_reader)
            at = _NOWHERE
            try:
                child.send((replace(group, done=group.done | given.keys()), broken))
                while (got := child.receive()) is not None:
                    if isinstance(got, int):
                        at = got
                        continue
                    if got.index not in given:
                        given[got.index] = _without_sound(got)
                        if got.index not in group.done:
                            yield got
                return
            except EOFError:
                self._end()
                crashes[at] += 1
                if crashes[at] > _MOST_TRIES:
                    raise DeviceError(
                        f"the process that reads recordings died {crashes[at]} times; see what "
                        "ends it (no memory?), and run the same command again"
                    ) from None
                if crashes[at] == _TRIES:
                    broken[at] = _pieces_of(at, given)
            except GeneratorExit:
                self._end()
                raise

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def close(self) -> None:
        self._end()


def _without_sound(task: Task) -> Task:
    return replace(task, pieces=tuple(replace(piece, samples=None) for piece in task.pieces))


def _pieces_of(item: int, given: Mapping[int, Task]) -> int:
    """Return how many pieces of an item were read before the crash."""
    return sum(piece.item == item for task in given.values() for piece in task.pieces)


def run_reader(pipe: Connection) -> None:
    """Run the reading process: groups in, tasks out; those that are done without samples."""
    while True:
        group, broken = pipe.recv()
        for task in read_tasks(group, broken, pipe.send):
            pipe.send(_without_sound(task) if task.index in group.done else task)
        pipe.send(None)
