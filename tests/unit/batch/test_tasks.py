"""Recordings as tasks: pieces, cuts, failures and warnings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.batch import tasks as reader
from whisper_hailo.batch.fetching import Fetcher
from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.tasks import (
    MOST_PIECES,
    PIECE_S,
    Outcome,
    Piece,
    Task,
    TaskKey,
    cut_pieces,
    find_quiet_cut,
    read_tasks,
)
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

FULL = round(PIECE_S * SAMPLE_RATE_HZ)


def noise(seconds: float, seed: int = 0) -> FloatArray:
    rng = np.random.default_rng(seed)
    return (rng.random(round(seconds * SAMPLE_RATE_HZ), np.float32) - 0.5) * np.float32(
        0.6
    )


Items = list[tuple[int, Item]]


def group(folder: Path, *lengths_s: float) -> Items:
    items = []
    for number, length_s in enumerate(lengths_s):
        path = folder / f"{number}.wav"
        soundfile.write(path, noise(length_s, number), SAMPLE_RATE_HZ, subtype="FLOAT")
        items.append((number, Item(path.name, str(path), "en" if number else None)))
    return items


def read(items: Items, done: Collection[TaskKey] = ()) -> list[Task]:
    return list(read_tasks(3, items, done, Fetcher()))


def shape(tasks: list[Task]) -> list[list[tuple[int, float, int]]]:
    return [[(p.item, p.start_s, p.n_samples) for p in task.pieces] for task in tasks]


def test_find_quiet_cut_is_middle_of_pause() -> None:
    samples = noise(PIECE_S)
    pause = FULL - 20 * SAMPLE_RATE_HZ
    samples[pause : pause + SAMPLE_RATE_HZ] = 0
    samples[1000 : 60 * SAMPLE_RATE_HZ] = 0  # too early to be looked at
    assert pause <= find_quiet_cut(samples) <= pause + SAMPLE_RATE_HZ
    samples[pause : pause + SAMPLE_RATE_HZ] = noise(1.0) / 100
    assert (
        pause + SAMPLE_RATE_HZ / 5
        <= find_quiet_cut(samples)
        <= pause + 4 * SAMPLE_RATE_HZ / 5
    )


def test_find_quiet_cut_leaves_no_short_piece() -> None:
    """The page on archives promises pieces of at most five minutes: they have more than four."""
    minute = 60 * SAMPLE_RATE_HZ
    assert reader.MAX_PIECE_SAMPLES == FULL == 5 * minute
    assert (
        4 * minute
        <= find_quiet_cut(np.zeros(FULL, np.float32))
        <= 4 * minute + SAMPLE_RATE_HZ
    )
    rising = np.linspace(1.0, 0.0, FULL, dtype=np.float32)
    assert 5 * minute - SAMPLE_RATE_HZ <= find_quiet_cut(rising) <= FULL


@pytest.fixture
def twenty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make twenty seconds a full piece, with the cut in its last five."""
    monkeypatch.setattr(reader, "MAX_PIECE_SAMPLES", 20 * SAMPLE_RATE_HZ)
    monkeypatch.setattr(reader, "SEARCHED_S", 5.0)


@pytest.mark.usefixtures("twenty_seconds")
def test_cut_pieces_join_to_the_recording() -> None:
    samples = noise(53.0)
    with open_audio(samples) as stream:
        found = list(cut_pieces(stream))
    np.testing.assert_array_equal(
        np.concatenate([piece for _, piece, _ in found]), samples
    )
    assert all(15 <= piece.size / SAMPLE_RATE_HZ <= 20 for _, piece, _ in found[:-1])
    starts = (
        np.cumsum([0, *(piece.size for _, piece, _ in found)])[:-1] / SAMPLE_RATE_HZ
    )
    assert [start_s for start_s, *_ in found] == starts.tolist()
    assert [is_last for *_, is_last in found] == [False] * (len(found) - 1) + [True]


@pytest.mark.usefixtures("twenty_seconds")
def test_read_tasks_short_share_long_are_split(tmp_path: Path) -> None:
    tasks = read(group(tmp_path, 4.0, 3.0, 24.0, 1.0))
    assert [[piece.item for piece in task.pieces] for task in tasks] == [
        [0, 1],
        [2],
        [2, 3],
    ]
    first = tasks[1].pieces[0].n_samples / SAMPLE_RATE_HZ
    starts = [[piece.start_s for piece in task.pieces] for task in tasks]
    assert starts == [[0.0, 0.0], [0.0], [first, 0.0]]
    assert [[piece.n_pieces for piece in task.pieces] for task in tasks] == [
        [1, 1],
        [0],
        [2, 1],
    ]
    assert {task.shard for task in tasks} == {3}
    assert [piece.language for piece in tasks[0].pieces] == [None, "en"]


@pytest.mark.usefixtures("twenty_seconds")
def test_read_tasks_omits_finished_tasks(tmp_path: Path) -> None:
    made = group(tmp_path, 4.0, 3.0, 24.0, 1.0)
    whole = read(made)
    for done in ({0}, {1}, {0, 2}, {0, 1, 2}):
        left = read(made, {whole[index].key for index in done})
        assert shape(left) == shape([whole[n] for n in range(3) if n not in done])


def test_read_tasks_unreadable_recording_fails_alone(tmp_path: Path) -> None:
    made = group(tmp_path, 1.0, 1.0, 1.0)
    Path(made[1][1].audio).write_bytes(b"RIFF")
    (task,) = read(made)
    first, second, third = task.pieces
    assert (second.item, second.start_s, second.n_samples, second.n_pieces) == (
        1,
        0.0,
        0,
        1,
    )
    assert (first.failure, third.failure) == (None, None)
    assert second.failure is not None
    assert second.failure.kind == "audio"
    assert "1.wav" in second.failure.message


def test_read_tasks_without_recordings_is_empty(tmp_path: Path) -> None:
    assert read(group(tmp_path)) == []


@pytest.fixture
def two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make two seconds a full piece, with the cut in its last half."""
    monkeypatch.setattr(reader, "MAX_PIECE_SAMPLES", 2 * SAMPLE_RATE_HZ)
    monkeypatch.setattr(reader, "SEARCHED_S", 1.0)


@pytest.mark.usefixtures("two_seconds")
def test_cut_pieces_splits_beyond_full_piece() -> None:
    for more, n_pieces in ((0, 1), (1, 2)):
        with open_audio(np.zeros(2 * SAMPLE_RATE_HZ + more, np.float32)) as stream:
            assert len(list(cut_pieces(stream))) == n_pieces


@pytest.mark.usefixtures("two_seconds")
def test_read_tasks_fills_task_to_the_sample(tmp_path: Path) -> None:
    for lengths_s, expected in (
        ((1.5, 0.5), [[0, 1]]),
        ((1.5, 0.5, 1.0, 1.0), [[0, 1], [2, 3]]),
        ((1.5, 0.5001), [[0], [1]]),
    ):
        tasks = read(group(tmp_path, *lengths_s))
        assert [[piece.item for piece in task.pieces] for task in tasks] == expected


@pytest.mark.usefixtures("two_seconds")
def test_read_tasks_truncated_recording_keeps_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(stream: AudioStream) -> Iterator[tuple[float, FloatArray, bool]]:
        for start_s, samples, is_last in cut_pieces(stream):
            if is_last and stream.duration_s == 3.0:
                raise AudioError("it breaks off")
            yield start_s, samples, is_last

    monkeypatch.setattr(reader, "cut_pieces", breaks)
    tasks = read(group(tmp_path, 0.25, 3.0, 0.25))
    found = [piece for task in tasks for piece in task.pieces]
    assert [(piece.item, piece.failure and piece.failure.kind) for piece in found] == [
        (0, None), (1, None), (1, "audio"), (2, None),
    ]  # fmt: skip
    assert [piece.n_pieces for piece in found] == [1, 0, 2, 1]
    assert (found[2].start_s, found[2].n_samples) == (
        found[1].n_samples / SAMPLE_RATE_HZ,
        0,
    )
    assert found[3].start_s == 0.0


@pytest.mark.usefixtures("two_seconds")
def test_find_quiet_cut_is_middle_of_quietest_half_second() -> None:
    """Frames of 20 ms; what is quieter before is not looked at."""
    samples = noise(2.0)
    samples[: SAMPLE_RATE_HZ - 1] = 0
    for begin_s in (1.0, 1.24, 1.5):
        loud = samples.copy()
        begin = round(begin_s * SAMPLE_RATE_HZ)
        loud[begin : begin + SAMPLE_RATE_HZ // 2] *= 0.01
        assert find_quiet_cut(loud) == begin + SAMPLE_RATE_HZ // 4
    # Beyond full scale: as loud as that.
    flat = np.full(2 * SAMPLE_RATE_HZ, -3.0, np.float32)
    flat[round(1.25 * SAMPLE_RATE_HZ) :] = 1.0
    flat[round(1.75 * SAMPLE_RATE_HZ) :] = 3.0
    # Of equal ones the first.
    assert find_quiet_cut(flat) == SAMPLE_RATE_HZ + SAMPLE_RATE_HZ // 4


def test_task_duration_is_that_of_its_pieces() -> None:
    sound = np.zeros(8000, np.float32)
    task = Task(0, (Piece(0, 0.0, 1, sound), Piece(1, 0.0, 0), Piece(1, 0.0, 2, sound)))
    assert task.audio_s == 1.0


def test_read_tasks_limits_pieces_of_a_task(tmp_path: Path) -> None:
    tasks = read(group(tmp_path, *[0.1] * (MOST_PIECES + 2)))
    assert [len(task.pieces) for task in tasks] == [MOST_PIECES, 2]


def test_read_tasks_truncated_recording_has_warning(tmp_path: Path) -> None:
    (item,) = group(tmp_path, 2.0)
    path = Path(item[1].audio)
    path.write_bytes(path.read_bytes()[: 4 * SAMPLE_RATE_HZ])
    (task,) = read([item])
    (piece,) = task.pieces
    assert piece.failure is None
    (warning,) = piece.warnings
    assert re.search(r"1\.0 s.*2\.0 s", warning)


def test_read_tasks_missing_recording_is_access_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.batch.fetching.WAITS_S", ())
    (item,) = group(tmp_path, 1.0)
    Path(item[1].audio).unlink()
    (task,) = read([item])
    failure = task.pieces[0].failure
    assert failure is not None
    assert (failure.kind, failure.type) == ("access", "AccessError")


def test_task_sizes_match_page_on_archives() -> None:
    assert PIECE_S == 300
    nothing = Outcome(0, ())
    assert (nothing.cpu_s, nothing.audio_s) == (0.0, 0.0)
