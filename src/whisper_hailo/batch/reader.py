"""Recordings are read in a process of its own: where a library crashes, one item is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Final

from whisper_hailo.batch.child import Child
from whisper_hailo.batch.pieces import tasks_of
from whisper_hailo.batch.records import Group, Task
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import DeviceError

_TRIES: Final = 2
"""An item at which the process died so often is given up: once, it may have been killed."""

_MOST_TRIES: Final = 9
"""A process that dies more often at one place does not die of what it reads."""

_NOWHERE: Final = -1
"""Before the first item: a place that no item has."""


class GroupReader(Closing):
    """Reads groups, one at a time."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def open(self) -> GroupReader:
        """Nothing begins before there is something to read."""
        return self

    def tasks(self, group: Group) -> Iterator[Task]:
        """The tasks of a group that are not done.

        Raises:
            DeviceError: the process dies whatever it reads.
        """
        crashes: Counter[int] = Counter()
        broken: dict[int, int] = {}
        given: dict[int, Task] = {}
        while True:
            child = self._child = self._child or Child(_read)
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
    """So many pieces of an item were read before its process died."""
    return sum(piece.item == item for task in given.values() for piece in task.pieces)


def _read(pipe: Connection) -> None:
    """The process: groups in, tasks out; those that are done without their sound."""
    while True:
        group, broken = pipe.recv()
        for task in tasks_of(group, broken, pipe.send):
            pipe.send(_without_sound(task) if task.index in group.done else task)
        pipe.send(None)
