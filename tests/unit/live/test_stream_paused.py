"""Paused sources: missed samples count, and absences stay absences."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any, cast

import numpy as np
import pytest

from tests.fakes.live_sources import Steps
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Event
from whisper_hailo.live.sources.source import Block, Interruption, Pace
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.stream import CaptionStream, Controls


class RecordingCaptioner:
    """A captioner that records its calls."""

    def __init__(self) -> None:
        self.statistics = CaptionStatistics()
        self.heard_s = 0.0
        self.calls: list[tuple[int, str, int, bool]] = []
        self.n_fed = 0

    def feed(self, audio: FloatArray, *_: Any) -> Iterator[Event]:
        self.n_fed += 1
        if audio.size:
            self.calls.append((audio.size, "none", 0, False))
        return iter(())

    def skip_lost(self, n_samples: int) -> Iterator[Event]:
        self.calls.append((0, "lost", n_samples, False))
        return iter(())

    def suspend(self, gap: Interruption) -> Iterator[Event]:
        self.calls.append((0, gap.reason, 0, gap.paused))
        return iter(())

    def resume(self, gap: Interruption) -> Iterator[Event]:
        self.calls.append((0, "", gap.n_samples, gap.paused))
        return iter(())

    def finish(self) -> Iterator[Event]:
        return iter(())


def run_paused(
    *steps: Any, monkeypatch: pytest.MonkeyPatch | None = None, **how: Any
) -> list[tuple[int, str, int, bool]]:
    """Return sizes and absences of a stream that is paused (`-`) and resumed (`+`) by steps."""
    controls = Controls()
    captioner = RecordingCaptioner()
    if monkeypatch is not None:
        monkeypatch.setattr(time, "sleep", lambda _: controls.set_paused(False))

    def wait_for_captioner() -> None:
        n_fed = captioner.n_fed
        while captioner.n_fed < n_fed + 4:  # it has taken what was given before by then
            threading.Event().wait(0.01)

    actions = {
        "-": lambda: controls.set_paused(True),
        "+": lambda: controls.set_paused(False),
        ".": wait_for_captioner,
    }
    source = Steps(
        *(actions.get(step, step) if isinstance(step, str) else step for step in steps),
        **how,
    )
    recorded: list[Block] = []
    stream = CaptionStream(source, cast(Captioner, captioner), controls=controls)
    stream.recorders.append(recorded.append)
    assert list(stream.events()) == []
    n_fed = sum(size for size, *_ in captioner.calls)
    assert sum(block.audio.size for block in recorded) == n_fed, (
        "a pause is not recorded"
    )
    return captioner.calls


def make_block(n_samples: int, **fields: Any) -> Block:
    return Block(np.ones(n_samples, np.float32), **fields)


def make_absence(why: str = "", n_samples: int = 0) -> Block:
    """Return the block of a source that went away, or is back after a number of samples."""
    return Block(np.empty(0, np.float32), interruption=Interruption(why, n_samples))


def test_stream_paused_counts_missed_samples() -> None:
    lost = make_block(30, n_lost=5)
    assert run_paused(
        make_block(10), "-", make_block(20), lost, "+", make_block(40)
    ) == [
        (10, "none", 0, False),
        (0, "paused", 0, True),
        (0, "", 55, True),
        (40, "none", 0, False),
    ]


def test_stream_absence_within_pause_follows_it() -> None:
    gone = make_absence("unplugged")
    back = make_absence(n_samples=7)
    assert run_paused(
        "-", make_block(20), gone, "+", make_block(0), back, make_block(9)
    ) == [
        (0, "paused", 0, True),
        (0, "", 20, True),
        (0, "unplugged", 0, False),
        (0, "", 7, False),
        (9, "none", 0, False),
    ]


def test_stream_pause_within_absence_ends_it_first() -> None:
    gone = make_absence("unplugged")
    back = make_absence(n_samples=7)
    assert run_paused(
        gone, "-", make_block(0), back, make_block(3), "+", make_block(9)
    ) == [
        (0, "unplugged", 0, False),
        (0, "", 0, False),
        (0, "paused", 0, True),
        (0, "", 10, True),
        (9, "none", 0, False),
    ]


def test_stream_paused_recording_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = run_paused(
        make_block(10),
        "-",
        make_block(20),
        make_block(30),
        endless=False,
        monkeypatch=monkeypatch,
    )
    assert sum(size for size, *_ in calls) == 60
    assert [n for _, why, n, _ in calls if why == ""] == [0]


def test_stream_paused_audio_is_dropped_by_a_slow_reader() -> None:
    """The pause begins and ends while the captioner computes."""
    controls = Controls()
    captioner = RecordingCaptioner()
    is_done = threading.Event()
    feed = captioner.feed

    def feed_late(audio: Any, *rest: Any) -> Iterator[Event]:
        is_done.wait(10)
        return feed(audio, *rest)

    captioner.feed = feed_late  # type: ignore[method-assign]
    source = Steps(
        make_block(10),
        lambda: controls.set_paused(True),
        make_block(20),
        lambda: controls.set_paused(False),
        make_block(30),
        is_done.set,
        endless=False,
        pace=Pace.BUFFERED,
    )
    stream = CaptionStream(source, cast(Captioner, captioner), controls=controls)
    assert list(stream.events()) == []
    assert sum(size for size, *_ in captioner.calls) == 40


def test_stream_paused_real_time_recording_is_missed() -> None:
    calls = run_paused(
        make_block(10),
        ".",
        "-",
        make_block(20),
        ".",
        "+",
        ".",
        make_block(30),
        endless=False,
        pace=Pace.BUFFERED,
    )
    assert [size for size, *_ in calls if size] == [10, 30]
    assert [n for _, why, n, _ in calls if why == ""] == [20]


def test_stream_stopped_in_a_pause_ends() -> None:
    controls = Controls()
    alive = count()
    controls.set_paused(True)

    def stop_at_third_call() -> None:
        if next(alive) == 3:
            stream.stop()

    source = Steps(make_block(10), make_block(20), endless=False)
    stream = CaptionStream(
        source, cast(Captioner, RecordingCaptioner()), stop_at_third_call, controls
    )
    assert list(stream.events()) == []
    assert 3 < next(alive) < 9
