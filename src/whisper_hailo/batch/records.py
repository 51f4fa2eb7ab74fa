"""What a job consists of: items, the tasks that they are cut into, and what came of those."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import FloatArray, Segment

GROUP_ITEMS: Final = 16
"""Items that are read one behind the other. Their tasks are the same whoever reads them, so that
no result depends on the number of workers, nor on what an earlier run did."""

PIECE_S: Final = 300.0
"""Most seconds of a piece, and of all pieces of a task together unless it is one piece."""

MOST_PIECES: Final = 32
"""Short recordings that are decoded together."""


@dataclass(frozen=True, slots=True)
class Item:
    """One recording of the manifest.

    Attributes:
        id: names its results; unique.
        audio: path or address.
        language: code; `None` as the options say.
        metadata: whatever else the manifest has of it.
    """

    id: str
    audio: str
    language: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Items that follow one another in the manifest.

    Attributes:
        index: of the group; its first item is number `index * GROUP_ITEMS`.
        items: at most `GROUP_ITEMS`.
        done: tasks of it whose outcomes are known.
    """

    index: int
    items: tuple[Item, ...]
    done: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an item has no transcript.

    Attributes:
        kind: name of the error's class.
        message: what was got, what was expected, what to do.
    """

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        if isinstance(error, WhisperHailoError):
            return cls(type(error).__name__, str(error))
        return cls("Internal", f"{type(error).__name__}: {error}"[:400])


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of a recording.

    Attributes:
        item: its place in the group.
        start_s: where the piece begins in the recording, in seconds.
        samples: `(n_samples,)` float32 16 kHz mono; `None` if it failed.
        language: of the item.
        failure: why it could not be read from here on.
    """

    item: int
    start_s: float
    samples: FloatArray | None = None
    language: str | None = None
    failure: Failure | None = None

    @property
    def n_samples(self) -> int:
        return 0 if self.samples is None else self.samples.size


@dataclass(frozen=True, slots=True)
class Task:
    """Pieces that are transcribed together, by whichever worker is free.

    Attributes:
        group: that it is of.
        index: counts the tasks of the group.
        pieces: in order.
        is_last: of its group.
    """

    group: int
    index: int
    pieces: tuple[Piece, ...]
    is_last: bool


@dataclass(frozen=True, slots=True)
class PieceResult:
    """What came of a piece; its audio is not needed any more.

    Attributes:
        item: its place in the group.
        end_s: where the piece ends in the recording.
        language: code.
        segments: timed in the recording.
        failure: why there are none.
    """

    item: int
    end_s: float
    language: str = ""
    segments: tuple[Segment, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a task: one line of the ledger.

    Attributes:
        group: as in `Task`.
        index: likewise.
        is_last: likewise.
        results: one per piece.
        took_s: seconds of its worker.
        audio_s: seconds of its audio.
    """

    group: int
    index: int
    is_last: bool
    results: tuple[PieceResult, ...]
    took_s: float = 0.0
    audio_s: float = 0.0
