"""Sources that are paused: what is missed counts, and what is away stays away."""

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


class Noted:
    """A captioner that notes what it is fed."""

    def __init__(self) -> None:
        self.statistics = CaptionStatistics()
        self.heard_s = 0.0
        self.told: list[tuple[int, str, int, bool]] = []
        self.n_fed = 0

    def feed(self, audio: FloatArray, *_: Any) -> Iterator[Event]:
        self.n_fed += 1
        if audio.size:
            self.told.append((audio.size, "none", 0, False))
        return iter(())

    def skip_lost(self, n_samples: int) -> Iterator[Event]:
        self.told.append((0, "lost", n_samples, False))
        return iter(())

    def suspend(self, gap: Interruption) -> Iterator[Event]:
        self.told.append((0, gap.reason, 0, gap.paused))
        return iter(())

    def resume(self, gap: Interruption) -> Iterator[Event]:
        self.told.append((0, "", gap.n_samples, gap.paused))
        return iter(())

    def finish(self) -> Iterator[Event]:
        return iter(())


def paused_run(
    *steps: Any, monkeypatch: pytest.MonkeyPatch | None = None, **how: Any
) -> list[tuple[int, str, int, bool]]:
    """Sizes and absences of a stream that is paused (`-`) and goes on (`+`) between."""
    controls, captioner = Controls(), Noted()
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
    heard = sum(size for size, *_ in captioner.told)
    assert sum(block.audio.size for block in recorded) == heard, (
        "a pause is not recorded"
    )
    return captioner.told


def piece(n_samples: int, **fields: Any) -> Block:
    return Block(np.ones(n_samples, np.float32), **fields)


def absent(why: str = "", n_samples: int = 0) -> Block:
    """The source went away, or is back after so many samples."""
    return Block(np.empty(0, np.float32), interruption=Interruption(why, n_samples))


def test_what_is_missed_in_a_pause_counts() -> None:
    lost = piece(30, n_lost=5)
    assert paused_run(piece(10), "-", piece(20), lost, "+", piece(40)) == [
        (10, "none", 0, False),
        (0, "paused", 0, True),
        (0, "", 55, True),
        (40, "none", 0, False),
    ]


def test_source_that_goes_away_in_a_pause_is_away_behind_it() -> None:
    gone, back = absent("unplugged"), absent(n_samples=7)
    assert paused_run("-", piece(20), gone, "+", piece(0), back, piece(9)) == [
        (0, "paused", 0, True),
        (0, "", 20, True),
        (0, "unplugged", 0, False),
        (0, "", 7, False),
        (9, "none", 0, False),
    ]


def test_source_that_is_away_when_it_is_paused_is_back_first() -> None:
    gone, back = absent("unplugged"), absent(n_samples=7)
    assert paused_run(gone, "-", piece(0), back, piece(3), "+", piece(9)) == [
        (0, "unplugged", 0, False),
        (0, "", 0, False),
        (0, "paused", 0, True),
        (0, "", 10, True),
        (9, "none", 0, False),
    ]


def test_recording_that_can_wait_loses_nothing_in_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = paused_run(
        piece(10), "-", piece(20), piece(30), endless=False, monkeypatch=monkeypatch
    )
    assert sum(size for size, *_ in told) == 60
    assert [n for _, why, n, _ in told if why == ""] == [0]


def test_pause_is_not_heard_however_late_the_captioner_is() -> None:
    """It begins and ends while the captioner computes."""
    controls, captioner = Controls(), Noted()
    is_done = threading.Event()
    feed = captioner.feed

    def feed_late(audio: Any, *rest: Any) -> Iterator[Event]:
        is_done.wait(10)
        return feed(audio, *rest)

    captioner.feed = feed_late  # type: ignore[method-assign]
    source = Steps(
        piece(10), lambda: controls.set_paused(True), piece(20), lambda: controls.set_paused(False),
        piece(30), is_done.set, endless=False, pace=Pace.BUFFERED,
    )  # fmt: skip
    stream = CaptionStream(source, cast(Captioner, captioner), controls=controls)
    assert list(stream.events()) == []
    assert sum(size for size, *_ in captioner.told) == 40


def test_recording_played_as_live_is_missed_in_a_pause() -> None:
    told = paused_run(
        *(piece(10), ".", "-", piece(20), ".", "+", ".", piece(30)),
        endless=False,
        pace=Pace.BUFFERED,
    )
    assert [size for size, *_ in told if size] == [10, 30]
    assert [n for _, why, n, _ in told if why == ""] == [20]


def test_ending_a_recording_in_a_pause_does_not_wait_for_it() -> None:
    controls, alive = Controls(), count()
    controls.set_paused(True)

    def look() -> None:
        if next(alive) == 3:
            stream.stop()

    source = Steps(piece(10), piece(20), endless=False)
    stream = CaptionStream(source, cast(Captioner, Noted()), look, controls)
    assert list(stream.events()) == []
    assert 3 < next(alive) < 9
