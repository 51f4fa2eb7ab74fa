"""Stalled sources: open, but without samples, which is not silence."""

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


class ScriptedSource(Closing):
    """A source of given blocks."""

    name = "given"
    pace = Pace.PULL
    endless = True

    def __init__(self, *blocks: Block) -> None:
        self._blocks = blocks

    def open(self) -> ScriptedSource:
        return self

    def close(self) -> None:
        pass

    def blocks(self) -> Iterator[Block]:
        yield from self._blocks


def run_stream(*blocks: Block) -> tuple[list[Event], Captioner]:
    captioner = Captioner(Speller(), Loudness(), quick())
    stream = CaptionStream(ScriptedSource(*blocks), captioner, controls=Controls())
    events = list(stream.events())
    assert list(find_violations(events)) == []
    return events, captioner


def list_gaps(events: list[Event]) -> list[tuple[str, bool]]:
    return [
        (event.name, event.stalled)
        for event in events
        if isinstance(event, Away | Back)
    ]


QUIET = [empty_block()] * (N_PATIENT + 3)


def test_stream_stalled_source_completes_its_segment() -> None:
    """The stall comes within a frame."""
    sound = np.concatenate([speech(range(3)), silence(0.5)])
    cut = speech(range(2)).size
    assert cut % 512
    events, captioner = run_stream(
        Block(sound[:cut]), *QUIET, Block(sound[cut:]), empty_block()
    )
    assert list_gaps(events) == [("away", True), ("back", True)]
    first, *_ = completed(events)
    assert first.text == "w0 w1"
    assert first.reason == "away"
    away = next(event for event in events if isinstance(event, Away))
    back = next(event for event in events if isinstance(event, Back))
    assert away.start_s == back.end_s
    figures = captioner.statistics
    assert figures.n_stalls == 1
    assert figures.n_away == 0
    assert figures.n_away_samples == 0
    assert figures.n_stream_samples >= sound.size


def test_stream_short_gap_between_blocks_is_no_stall() -> None:
    block = Block(speech(range(2)))
    quiet = QUIET[: N_PATIENT - 1]
    events, _ = run_stream(block, *quiet, block, *quiet)
    assert list_gaps(events) == []


@pytest.mark.parametrize("paused", [True, False])
def test_stream_absent_source_does_not_stall(paused: bool) -> None:
    away = empty_block(Interruption("gone", paused=paused))
    back = empty_block(Interruption("", 512, paused=paused))
    events, _ = run_stream(Block(speech([0])), away, *QUIET, back)
    assert list_gaps(events) == [("away", False), ("back", False)]


def test_stream_stall_ends_before_an_absence() -> None:
    away = empty_block(Interruption("unplugged"))
    back = empty_block(Interruption("", 512))
    events, _ = run_stream(Block(speech([0])), *QUIET, away, back)
    assert list_gaps(events) == [
        ("away", True),
        ("back", True),
        ("away", False),
        ("back", False),
    ]
