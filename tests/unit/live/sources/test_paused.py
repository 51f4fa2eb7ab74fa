"""Sources that are paused: what is missed counts, and what is away stays away."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from tests.unit.live.played import Steps
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import Block, Interruption, Pace
from whisper_hailo.live.sources.wrappers import PausableSource


def paused_run(*steps: Any, **how: Any) -> list[tuple[int, str, int, bool]]:
    """Sizes and absences of what a source gives that is paused (`-`) and goes on (`+`) between."""

    def switch(*, on: bool) -> None:
        source.is_paused = on

    actions = {"-": lambda: switch(on=True), "+": lambda: switch(on=False)}
    source = PausableSource(
        Steps(
            *(actions.get(step, step) if isinstance(step, str) else step for step in steps), **how
        ),
        sleep=lambda _: switch(on=False),
    )
    told = []
    for block in source.blocks():
        away = block.interruption or Interruption("none")
        told.append((block.audio.size, away.why, away.n_samples, away.paused))
    return told


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
        (0, "none", 0, False),
        (0, "none", 0, False),
        (0, "", 55, False),
        (40, "none", 0, False),
    ]


def resumed(*missed: Block) -> list[Block]:
    """What a source gives that misses these in a pause and goes on with one sample."""

    def go_on() -> None:
        source.is_paused = False

    source = PausableSource(Steps(*missed, go_on, piece(1)))
    source.is_paused = True
    return list(source.blocks())


@pytest.mark.parametrize(
    ("before", "recorded_s"), [(0, 1000.0), (20, 1000.0 - 20 / SAMPLE_RATE_HZ)]
)
def test_recording_that_went_on_in_a_pause_knows_its_time(before: int, recorded_s: float) -> None:
    told = resumed(piece(before), piece(30, recorded_s=1000.0), piece(40))
    (back,) = [block for block in told if block.interruption == Interruption("", before + 70)]
    assert back.recorded_s == pytest.approx(recorded_s, abs=1e-9)


def test_what_is_live_was_not_recorded() -> None:
    assert {block.recorded_s for block in resumed(piece(20))} == {None}


def test_a_source_that_goes_away_in_a_pause_is_away_behind_it() -> None:
    gone, back = absent("unplugged"), absent(n_samples=7)
    assert paused_run("-", piece(20), gone, "+", piece(0), back, piece(9)) == [
        (0, "paused", 0, True),
        (0, "none", 0, False),
        (0, "none", 0, False),
        (0, "", 20, False),
        (0, "unplugged", 0, False),
        (0, "none", 0, False),
        (0, "", 7, False),
        (9, "none", 0, False),
    ]


def test_a_source_that_is_away_when_it_is_paused_is_back_first() -> None:
    gone, back = absent("unplugged"), absent(n_samples=7)
    assert paused_run(gone, "-", piece(0), back, piece(3), "+", piece(9)) == [
        (0, "unplugged", 0, False),
        (0, "", 0, False),
        (0, "paused", 0, True),
        (0, "none", 0, False),
        (0, "none", 0, False),
        (0, "none", 0, False),
        (0, "", 10, False),
        (9, "none", 0, False),
    ]


def test_a_recording_that_can_wait_loses_nothing_in_a_pause() -> None:
    told = paused_run(piece(10), "-", piece(20), piece(30), endless=False)
    assert sum(size for size, *_ in told) == 60
    assert [n for _, why, n, _ in told if why == ""] == [0]


def test_recording_played_as_live_is_missed_in_a_pause() -> None:
    told = paused_run(piece(10), "-", piece(20), "+", piece(30), endless=False, pace=Pace.BUFFERED)
    assert [size for size, *_ in told if size] == [10, 30]
    assert [n for _, why, n, _ in told if why == ""] == [20]


def test_ending_a_recording_in_a_pause_does_not_wait_for_it() -> None:
    source = PausableSource(Steps(piece(10), endless=False), sleep=lambda _: source.close())
    source.is_paused = True
    assert len(list(islice(source.blocks(), 9))) < 9
