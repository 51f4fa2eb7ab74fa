"""Recordings as tasks: the same ones whoever reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from whisper_hailo.audio import open_audio
from whisper_hailo.batch.pieces import LOOKED_AT_S, cut, quiet_place, tasks_of
from whisper_hailo.batch.records import MOST_PIECES, PIECE_S, Group, Item, Task
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

FULL = round(PIECE_S * SAMPLE_RATE_HZ)


def noise(seconds: float, seed: int = 0) -> FloatArray:
    rng = np.random.default_rng(seed)
    return (rng.random(round(seconds * SAMPLE_RATE_HZ), np.float32) - 0.5) * np.float32(0.6)


def group(folder: Path, *lengths_s: float) -> Group:
    items = []
    for number, length_s in enumerate(lengths_s):
        path = folder / f"{number}.wav"
        soundfile.write(path, noise(length_s, number), SAMPLE_RATE_HZ, subtype="FLOAT")
        items.append(Item(path.name, str(path), "en" if number else None))
    return Group(3, tuple(items))


def shape(tasks: list[Task]) -> list[list[tuple[int, float, int]]]:
    return [[(p.item, p.start_s, p.n_samples) for p in task.pieces] for task in tasks]


def test_a_full_piece_is_cut_in_the_middle_of_its_pause() -> None:
    samples = noise(PIECE_S)
    pause = FULL - 20 * SAMPLE_RATE_HZ
    samples[pause : pause + SAMPLE_RATE_HZ] = 0
    samples[1000 : 60 * SAMPLE_RATE_HZ] = 0  # too early to be looked at
    assert pause <= quiet_place(samples) <= pause + SAMPLE_RATE_HZ
    samples[pause : pause + SAMPLE_RATE_HZ] = noise(1.0) / 100
    assert pause + SAMPLE_RATE_HZ / 5 <= quiet_place(samples) <= pause + 4 * SAMPLE_RATE_HZ / 5


def test_a_cut_never_makes_a_short_piece() -> None:
    assert quiet_place(np.zeros(FULL, np.float32)) >= FULL - LOOKED_AT_S * SAMPLE_RATE_HZ
    assert quiet_place(noise(PIECE_S)) <= FULL


def test_pieces_together_are_the_recording() -> None:
    samples = noise(2.3 * PIECE_S)
    with open_audio(samples) as stream:
        pieces = list(cut(stream))
    assert np.array_equal(np.concatenate([piece for _, piece in pieces]), samples)
    assert all(piece.size <= FULL for _, piece in pieces)
    starts = np.cumsum([0, *(piece.size for _, piece in pieces)])[:-1] / SAMPLE_RATE_HZ
    assert [start_s for start_s, _ in pieces] == starts.tolist()


def test_short_recordings_share_a_task_and_long_ones_have_several(tmp_path: Path) -> None:
    tasks = list(tasks_of(group(tmp_path, 40.0, 30.0, 1.2 * PIECE_S, 1.0)))
    assert [[piece.item for piece in task.pieces] for task in tasks] == [[0, 1], [2], [2, 3]]
    assert [task.index for task in tasks] == [0, 1, 2]
    assert [task.is_last for task in tasks] == [False, False, True]
    assert {task.group for task in tasks} == {3}
    assert [piece.language for piece in tasks[0].pieces] == [None, "en"]


def test_so_many_short_recordings_at_most_share_a_task(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(0.1), SAMPLE_RATE_HZ)
    items = tuple(Item(str(n), str(path)) for n in range(MOST_PIECES + 1))
    assert [len(task.pieces) for task in tasks_of(Group(0, items))] == [MOST_PIECES, 1]


def test_one_that_cannot_be_read_fails_alone(tmp_path: Path) -> None:
    made = group(tmp_path, 1.0, 1.0, 1.0)
    Path(made.items[1].audio).write_bytes(b"RIFF")
    (task,) = tasks_of(made)
    first, second, third = task.pieces
    assert (first.failure, third.failure) == (None, None)
    assert second.failure is not None
    assert second.failure.kind == "AudioError"
    assert "1.wav" in second.failure.message


def test_one_that_crashes_its_reader_fails_behind_what_was_read(tmp_path: Path) -> None:
    made = group(tmp_path, 1.0, 1.5 * PIECE_S, 1.0)
    whole = shape(list(tasks_of(made)))
    broken = list(tasks_of(made, {1: 1}))
    assert shape(broken)[:1] == whole[:1]
    assert [(p.item, p.failure is not None) for p in broken[1].pieces] == [(1, True), (2, False)]
    first, second = tasks_of(made, {1: 0})
    assert [piece.item for piece in first.pieces] == [0]
    assert [piece.item for piece in second.pieces] == [1, 2]


@pytest.mark.parametrize("nothing", [[], [0.5]])
def test_every_group_ends_with_a_last_task(tmp_path: Path, nothing: list[float]) -> None:
    assert [task.is_last for task in tasks_of(group(tmp_path, *nothing))] == [True]
