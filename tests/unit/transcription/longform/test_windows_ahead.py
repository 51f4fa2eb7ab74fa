"""Windows that are cut on a thread, some ahead, and what is left of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.transcription.longform.windows_ahead import (
    MAX_AHEAD,
    OpenedAudio,
    WindowsAhead,
)

PATIENCE_S = 20.0
"""Ends only what hangs."""


def window(index: int) -> Window:
    return Window(np.zeros(1, np.float32), float(index))


class Audio:
    """Open audio that notes when it is closed and when it has more."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.changed = threading.Event()
        resources = ExitStack()
        resources.callback(self.closed.set)
        stream: Any = None
        self.opened = OpenedAudio(
            stream, iter(()), resources, on_change=self.changed.set
        )


def test_windows_come_in_order_and_the_audio_is_closed() -> None:
    audio = Audio()
    windows = (window(index) for index in range(3 * MAX_AHEAD))
    ahead = WindowsAhead(windows, audio.opened)
    assert [item.start_s for item in ahead] == list(range(3 * MAX_AHEAD))
    assert audio.closed.is_set()
    assert ahead.is_ready


def test_windows_are_cut_some_ahead_only() -> None:
    audio = Audio()
    cut: list[int] = []
    is_full = threading.Event()

    def windows() -> Iterator[Window]:
        for index in range(100):
            cut.append(index)
            if len(cut) == MAX_AHEAD:
                is_full.set()
            yield window(index)

    with WindowsAhead(windows(), audio.opened) as ahead:
        assert is_full.wait(PATIENCE_S)
        assert audio.changed.wait(PATIENCE_S)
        assert ahead.is_ready
        assert len(cut) <= MAX_AHEAD
    assert audio.closed.wait(PATIENCE_S)


def test_slow_window_is_not_ready() -> None:
    audio = Audio()
    go_on = threading.Event()

    def windows() -> Iterator[Window]:
        assert go_on.wait(PATIENCE_S)
        yield window(0)

    with WindowsAhead(windows(), audio.opened) as ahead:
        assert not ahead.is_ready
        go_on.set()
        assert audio.changed.wait(PATIENCE_S)
        assert ahead.is_ready
        assert next(ahead).start_s == 0


def test_window_is_cut_when_others_let_it() -> None:
    audio = Audio()
    go_on = threading.Event()
    audio.opened.wait_for_others = lambda: go_on.wait(PATIENCE_S)
    with WindowsAhead(iter([window(0)]), audio.opened) as ahead:
        assert not ahead.is_ready
        go_on.set()
        assert next(ahead).start_s == 0


def test_silent_recording_lets_others_cut_between_blocks() -> None:
    silent = Audio()
    spoken = Audio()
    spoken.opened.turns = silent.opened.turns
    has_begun = threading.Event()
    is_cut = threading.Event()

    def blocks() -> Iterator[FloatArray]:
        while not is_cut.is_set():
            has_begun.set()
            yield np.zeros(1, np.float32)

    def search() -> Iterator[Window]:
        for _ in silent.opened.read_blocks():
            pass  # no speech, no window
        yield window(0)

    silent.opened.blocks = blocks()
    with WindowsAhead(search(), silent.opened) as searching:
        assert has_begun.wait(PATIENCE_S)
        assert next(WindowsAhead(iter([window(1)]), spoken.opened)).start_s == 1
        is_cut.set()
        assert next(searching).start_s == 0


def test_closed_search_for_speech_ends_with_its_block() -> None:
    audio = Audio()
    has_begun = threading.Event()

    def blocks() -> Iterator[FloatArray]:
        while True:
            has_begun.set()
            yield np.zeros(1, np.float32)

    def search() -> Iterator[Window]:
        for _ in audio.opened.read_blocks():
            pass
        yield from ()

    audio.opened.blocks = blocks()
    with WindowsAhead(search(), audio.opened):
        assert has_begun.wait(PATIENCE_S)
    assert audio.closed.wait(PATIENCE_S)


def test_failure_comes_behind_the_windows_before_it() -> None:
    audio = Audio()

    def windows() -> Iterator[Window]:
        yield window(0)
        raise AudioError("the file breaks off; record it again")

    ahead = WindowsAhead(windows(), audio.opened)
    assert next(ahead).start_s == 0
    with pytest.raises(AudioError):
        next(ahead)
    with pytest.raises(StopIteration):
        next(ahead)
    assert audio.closed.is_set()


def test_windows_of_two_recordings_are_cut_in_turns() -> None:
    first = Audio()
    second = Audio()
    second.opened.turns = first.opened.turns
    n_at_once = 0
    most = 0

    def windows() -> Iterator[Window]:
        nonlocal n_at_once, most
        for index in range(20):
            n_at_once += 1
            most = max(most, n_at_once)
            n_at_once -= 1
            yield window(index)

    for ahead in [
        WindowsAhead(windows(), recording.opened) for recording in (first, second)
    ]:
        assert len(list(ahead)) == 20
    assert most == 1
