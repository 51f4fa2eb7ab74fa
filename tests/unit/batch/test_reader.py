"""Reading in a process that may die, with a stand-in for the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

from whisper_hailo.batch import reader
from whisper_hailo.batch.manifest import Group, Item, Piece, Task
from whisper_hailo.batch.reader import BROKEN_FAILURE, GroupReader
from whisper_hailo.core.errors import DeviceError

SOUND: Final = np.ones(4, np.float32)
GROUP: Final = Group(7, tuple(Item(name, f"/{name}.wav") for name in "abc"))

Pieces: TypeAlias = list[list[int]]
"""Of each task the items that its pieces are of."""


class CrashError(BaseException):
    """Of the library that reads."""


class Inbox:
    """The process's end of the pipe: one message in, whatever comes out; then nothing more."""

    def __init__(self, message: object, out: list[object]) -> None:
        self._messages, self.send = [message], out.append

    def recv(self) -> object:
        if not self._messages:
            raise EOFError
        return self._messages.pop()


class Process:
    """In the place of a `Child`: works when it is sent something, in this process."""

    made: Final[list[Process]] = []

    def __init__(self, target: Callable[..., None], *args: object) -> None:
        Process.made.append(self)
        self._target, self._args = target, args
        self._out: list[object] = []
        self.heard: list[tuple[Group, Mapping[int, int]]] = []
        self.is_over = False

    def send(self, message: tuple[Group, Mapping[int, int]]) -> None:
        group, broken = message
        self.heard.append((group, dict(broken)))
        try:
            self._target(Inbox(message, self._out), *self._args)
        except (EOFError, CrashError):
            pass
        except Exception as error:
            self._out.append(error)

    def receive(self) -> object:
        if not self._out:
            raise EOFError
        message = self._out.pop(0)
        if isinstance(message, Exception):
            raise message
        return message

    def end(self) -> None:
        self.is_over = True


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    monkeypatch.setattr(Process, "made", [])
    monkeypatch.setattr(reader, "Child", Process)
    return Process.made


class Library:
    """Reads tasks of pieces, and crashes before some pieces as often as it is told.

    Attributes:
        tasks: what is there, by items.
        crashes: how often still, by item and number of its piece.
    """

    def __init__(self, tasks: Pieces, crashes: dict[tuple[int, int], int]) -> None:
        self.tasks, self.crashes = tasks, crashes

    def __call__(
        self, group: Group, broken: Mapping[int, int], at: Callable[[int], object]
    ) -> Iterator[Task]:
        """As `read_tasks`, but that pieces are not put together anew."""
        last, n_pieces, over = -1, 0, set()
        for index, items in enumerate(self.tasks):
            pieces = []
            for item in items:
                if item != last:
                    at(item)
                    last, n_pieces = item, 0
                if item in over:
                    continue
                if broken.get(item) == n_pieces:
                    pieces.append(Piece(item, 0.0, failure=BROKEN_FAILURE))
                    over.add(item)
                    continue
                if self.crashes.get((item, n_pieces), 0):
                    self.crashes[item, n_pieces] -= 1
                    raise CrashError
                pieces.append(Piece(item, float(n_pieces), SOUND))
                n_pieces += 1
            yield Task(group.index, index, tuple(pieces), index == len(self.tasks) - 1)


Reads: TypeAlias = Callable[..., Library]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    def use(tasks: Pieces, **crashes: int) -> Library:
        """Crashes are such as `a1=2`: twice before the second piece of the first item."""
        by_place = {("abc".index(key[0]), int(key[1:])): n for key, n in crashes.items()}
        library = Library(tasks, by_place)
        monkeypatch.setattr(reader, "read_tasks", library)
        return library

    return use


def shape(tasks: list[Task]) -> list[tuple[int, list[Any]]]:
    """Each task's number, and of its pieces the items: as a text where they failed."""
    return [
        (task.index, [str(p.item) if p.failure else p.item for p in task.pieces]) for task in tasks
    ]


def test_tasks_come_in_order_with_their_sound(processes: list[Process], reads: Reads) -> None:
    reads([[0], [0, 1], [2]])
    with GroupReader() as one:
        assert processes == []  # nothing begins before there is something to read
        tasks = list(one.tasks(GROUP))
        assert shape(tasks) == [(0, [0]), (1, [0, 1]), (2, [2])]
        assert all(piece.samples is SOUND for task in tasks for piece in task.pieces)
        assert not processes[0].is_over
    (process,) = processes
    assert process.is_over


def test_one_process_reads_group_after_group(processes: list[Process], reads: Reads) -> None:
    reads([[0], [1, 2]])
    with GroupReader() as one:
        for index in range(3):
            group = Group(index, GROUP.items)
            assert [(task.group, task.index) for task in one.tasks(group)] == [
                (index, 0), (index, 1),
            ]  # fmt: skip
    assert len(processes) == 1


def test_done_recordings_are_read_but_their_sound_is_not_sent(
    processes: list[Process], reads: Reads
) -> None:
    reads([[0], [0, 1], [2]])
    sent: list[Any] = []

    def note(message: Any) -> None:
        sent.append(message)

    group = Group(7, GROUP.items, done=frozenset({0, 1}))
    with GroupReader() as one:
        assert shape(list(one.tasks(group))) == [(2, [2])]
    pipe = Inbox((group, {}), [])
    pipe.send = note
    with pytest.raises(EOFError):
        reader.run_reader(pipe)  # type: ignore[arg-type]
    tasks = [message for message in sent if isinstance(message, Task)]
    assert [all(p.samples is None for p in task.pieces) for task in tasks] == [True, True, False]
    assert shape(tasks) == [(0, [0]), (1, [0, 1]), (2, [2])]
    assert sent[-1] is None
    assert len(processes) == 1


def test_a_crash_that_does_not_come_again_changes_nothing(
    processes: list[Process], reads: Reads
) -> None:
    reads([[0], [0, 1], [2]], b0=1)
    with GroupReader() as one:
        tasks = list(one.tasks(GROUP))
    assert shape(tasks) == [(0, [0]), (1, [0, 1]), (2, [2])]
    assert [process.is_over for process in processes] == [True, True]
    # The second process is not asked for the sound of what was given.
    assert [group.done for process in processes for group, _ in process.heard] == [set(), {0}]


def test_an_item_that_crashes_twice_fails_behind_what_was_read(
    processes: list[Process], reads: Reads
) -> None:
    reads([[0], [0], [0, 1], [2]], a2=9)
    with GroupReader() as one:
        tasks = list(one.tasks(GROUP))
    assert shape(tasks) == [(0, [0]), (1, [0]), (2, ["0", 1]), (3, [2])]
    assert [broken for process in processes for _, broken in process.heard] == [{}, {}, {0: 2}]


def test_two_items_that_crash_both_fail_and_no_other(
    processes: list[Process], reads: Reads
) -> None:
    reads([[0], [1], [2]], a0=9, c0=9)
    with GroupReader() as one:
        assert shape(list(one.tasks(GROUP))) == [(0, ["0"]), (1, [1]), (2, ["2"])]
    heard = [broken for process in processes for _, broken in process.heard]
    assert heard == [{}, {}, {0: 0}, {0: 0}, {0: 0, 2: 0}]


def test_crashes_of_one_group_do_not_count_in_the_next(
    processes: list[Process], reads: Reads
) -> None:
    library = reads([[0], [1], [2]], b0=1)
    with GroupReader() as one:
        for _ in range(2):
            assert shape(list(one.tasks(GROUP))) == [(0, [0]), (1, [1]), (2, [2])]
            library.crashes[1, 0] = 1
    assert len(processes) == 3


def test_what_nobody_foresaw_is_raised(processes: list[Process], reads: Reads) -> None:
    reads([[0]])

    def fail(*_: object) -> Iterator[Task]:
        raise ValueError("unforeseen")
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "read_tasks", fail)
        with GroupReader() as one, pytest.raises(ValueError, match="unforeseen"):
            list(one.tasks(GROUP))
    assert processes[0].is_over


def test_reader_that_stopped_in_a_group_restarts_it(processes: list[Process], reads: Reads) -> None:
    reads([[0], [1], [2]])
    with GroupReader() as one:
        tasks = one.tasks(GROUP)
        assert next(tasks).index == 0
        tasks.close()  # type: ignore[attr-defined]
        assert processes[0].is_over  # it has the rest of the group in its pipe
        assert shape(list(one.tasks(GROUP))) == [(0, [0]), (1, [1]), (2, [2])]
    assert len(processes) == 2


def test_one_that_never_read_is_closed_without_a_word(processes: list[Process]) -> None:
    one = GroupReader().open()
    one.close()
    one.close()
    assert processes == []


class Dying(Process):
    """A process that dies at once, so many times."""

    left = 0

    def send(self, message: tuple[Group, Mapping[int, int]]) -> None:
        if Dying.left:
            Dying.left -= 1
        else:
            super().send(message)


def test_process_that_dies_before_reading_blames_no_recording(
    processes: list[Process], reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads([[0], [1, 2]])
    monkeypatch.setattr(reader, "Child", Dying)
    monkeypatch.setattr(Dying, "left", 9)
    with GroupReader() as one:
        assert shape(list(one.tasks(GROUP))) == [(0, [0]), (1, [1, 2])]
        monkeypatch.setattr(Dying, "left", 99)
        one.close()
        with pytest.raises(DeviceError, match="the process that reads recordings died 10 times"):
            list(one.tasks(GROUP))
    assert len(processes) == 10 + 10
    assert all(process.is_over for process in processes)
