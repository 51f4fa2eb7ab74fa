"""A source that is open and gives nothing: no sound arrives, which is no silence."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.fakes.captioned_audio import completed
from tests.fakes.scripted_speech import Loudness, Speller, quick, silence, speech
from whisper_hailo.core.protocols import Closing
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Away, Back, Event
from whisper_hailo.live.sources.source import (
    POLL_S,
    Block,
    Interruption,
    Pace,
    empty_block,
)
from whisper_hailo.live.stream import STALL_S, CaptionStream, Controls
from whisper_hailo_lab.captions.event_checks import find_violations

N_PATIENT = round(STALL_S / POLL_S)
"""Empty blocks that are no stall yet, and one more."""


class Given(Closing):
    """Gives its blocks."""

    name = "given"
    pace = Pace.PULL
    endless = True

    def __init__(self, *blocks: Block) -> None:
        self._blocks = blocks

    def open(self) -> Given:
        return self

    def close(self) -> None:
        pass

    def blocks(self) -> Iterator[Block]:
        yield from self._blocks


def captioned(*blocks: Block) -> tuple[list[Event], Captioner]:
    captioner = Captioner(Speller(), Loudness(), quick())
    stream = CaptionStream(Given(*blocks), captioner, controls=Controls())
    events = list(stream.events())
    assert list(find_violations(events)) == []
    return events, captioner


def gaps(events: list[Event]) -> list[tuple[str, bool]]:
    return [
        (event.name, event.stalled)
        for event in events
        if isinstance(event, Away | Back)
    ]


QUIET = [empty_block()] * (N_PATIENT + 3)


def test_source_that_stalls_completes_its_segment_and_loses_no_sample() -> None:
    """It stalls within a frame."""
    sound = np.concatenate([speech(range(3)), silence(0.5)])
    cut = speech(range(2)).size
    assert cut % 512
    events, captioner = captioned(
        Block(sound[:cut]), *QUIET, Block(sound[cut:]), empty_block()
    )
    assert gaps(events) == [("away", True), ("back", True)]
    first, *_ = completed(events)
    assert (first.text, first.reason) == ("w0 w1", "away")
    away = next(event for event in events if isinstance(event, Away))
    back = next(event for event in events if isinstance(event, Back))
    assert away.start_s == back.end_s
    figures = captioner.statistics
    assert (figures.n_stalls, figures.n_away, figures.n_away_samples) == (1, 0, 0)
    assert figures.n_stream_samples >= sound.size


def test_pause_between_blocks_is_no_stall() -> None:
    block = Block(speech(range(2)))
    quiet = QUIET[: N_PATIENT - 1]
    events, _ = captioned(block, *quiet, block, *quiet)
    assert gaps(events) == []


@pytest.mark.parametrize("paused", [True, False])
def test_source_that_is_away_does_not_stall(paused: bool) -> None:
    away = empty_block(Interruption("gone", paused=paused))
    back = empty_block(Interruption("", 512, paused=paused))
    events, _ = captioned(Block(speech([0])), away, *QUIET, back)
    assert gaps(events) == [("away", False), ("back", False)]


def test_source_that_stalls_before_it_goes_away_is_back_in_between() -> None:
    away = empty_block(Interruption("unplugged"))
    back = empty_block(Interruption("", 512))
    events, _ = captioned(Block(speech([0])), *QUIET, away, back)
    assert gaps(events) == [
        ("away", True),
        ("back", True),
        ("away", False),
        ("back", False),
    ]
