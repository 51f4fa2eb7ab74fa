"""Segments from start to end: their partial texts, their cuts, their final texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.fakes.scripted_speech import (
    Loudness,
    Speller,
    completed,
    quick,
    run,
    silence,
    speech,
    spoken,
    texts,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Partial, Started
from whisper_hailo.transcription.partials import PartialBuffer


def test_segment_captions_starts_and_completes() -> None:
    audio = np.concatenate([silence(0.5), speech(range(8)), silence(0.5)])
    events, captioner = run(audio, Speller())
    kinds = [type(event).__name__ for event in events]
    assert kinds[0] == "Started"
    assert kinds[-1] == "Completed"
    assert set(kinds[1:-1]) == {"Partial"}
    assert isinstance(events[0], Started)
    assert events[0].start_s == pytest.approx(0.5 - 0.1, abs=0.05)
    last = events[-1]
    assert isinstance(last, Completed)
    assert last.reason == "silence"
    assert last.text == "w0 w1 w2 w3 w4 w5 w6 w7"
    figures = captioner.statistics.as_json()
    assert figures["calls"] == figures["partials"] + 1
    assert figures["passes_per_partial"] == 1
    assert figures["rtfx_recounted"] > figures["rtfx"]
    assert figures["first_partial_latency_s_median"] is None


def test_segment_captions_commits_words_agreed_on_for_a_second() -> None:
    events, _ = run(speech(range(12)), Speller())
    partials = [event for event in events if isinstance(event, Partial)]
    assert all(not event.committed for event in partials if event.end_s < 1.2)
    assert (
        partials[-1].committed_text
        == "w0 w1 w2 w3 w4 w5 w6"[: len(partials[-1].committed_text)]
    )
    assert len(partials[-1].committed) >= 6
    assert partials[-1].tentative


def test_segment_captions_audio_fed_at_once_skips_partials() -> None:
    audio = speech(range(8))
    events, captioner = run(audio, Speller(), sizes=(audio.size,))
    assert [type(event).__name__ for event in events] == [
        "Started",
        "Partial",
        "Completed",
    ]
    assert captioner.statistics.n_skipped == audio.size // 3200 - 1


def test_segment_captions_counts_partials_due_before_final_text() -> None:
    """Sound to sample 35,360 is in 70 frames, four more are a pause: 11 were due, of 3,200 each."""
    audio = np.concatenate([speech(range(8)), silence(0.5)])
    events, captioner = run(audio, Speller(), sizes=(audio.size,))
    (final,) = completed(events)
    assert round(final.end_s * SAMPLE_RATE_HZ) == 74 * 512
    assert captioner.statistics.n_skipped == 10


def test_segment_captions_cuts_segment_at_max_segment_s() -> None:
    """1.024 s are 32 frames: no longer buffer is transcribed."""
    recognizer = Speller()
    events, _ = run(
        spoken(0, 3.0), recognizer, quick(max_segment_s=1.024), sizes=(512,)
    )
    assert max(audio.size for audio in recognizer.heard) == 32 * 512
    first = next(event for event in events if isinstance(event, Completed))
    assert (first.reason, first.heard_s) == ("length", 1.024)


def test_segment_captions_min_partial_0_gives_no_partials() -> None:
    events, captioner = run(speech(range(8)), Speller(), quick(min_partial_s=0))
    assert [type(event).__name__ for event in events] == ["Started", "Completed"]
    assert captioner.statistics.n_skipped == 0


@dataclass
class RecordingSpeller(Speller):
    """Records the size and `hold_back_s` of each buffer."""

    calls: list[tuple[int, float]] = field(default_factory=list)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        self.calls.append((buffer.audio.size, buffer.hold_back_s))
        return super().transcribe(buffer, language)


def test_segment_captions_holds_back_partials_only() -> None:
    recognizer = RecordingSpeller()
    audio = np.concatenate([speech(range(6)), silence(0.5)])
    events, captioner = run(audio, recognizer, quick(hold_back_s=0.3))
    assert texts(events) == "w0 w1 w2 w3 w4 w5"
    assert [size for size, held in recognizer.calls if held == 0.0] == [
        recognizer.calls[-1][0]
    ]
    assert {held for _, held in recognizer.calls[:-1]} == {0.3}
    assert captioner.statistics.n_partials == len(recognizer.calls) - 1


@pytest.mark.parametrize(
    ("took_s", "is_live", "n_partials"),
    [(0.01, True, 48), (0.25, True, 16), (0.25, False, 48)],
)
def test_segment_captions_slow_recognizer_gets_fewer_partials(
    took_s: float, is_live: bool, n_partials: int
) -> None:
    clock = {"now": 0.0}

    class Slow(Speller):
        def transcribe(self, *given: Any, **named: Any) -> BufferText:
            clock["now"] += took_s
            return super().transcribe(*given, **named)

    options = quick(min_partial_s=0.25)
    captioner = Captioner(Slow(30.0), Loudness(), options, now=lambda: clock["now"])
    for index in range(48):  # of a quarter of a second each
        list(captioner.feed(spoken(index, 0.256), clock["now"] if is_live else None))
    assert captioner.statistics.n_partials == pytest.approx(n_partials, abs=1)
    assert captioner.statistics.n_skipped == pytest.approx(48 - n_partials, abs=2)


def test_segment_captions_word_times_are_bounded_by_the_segment() -> None:
    class Timed(Speller):
        def transcribe(
            self, buffer: PartialBuffer, language: str | None = None
        ) -> BufferText:
            times = ((0.0, 0.25), (0.5, 99.0), (None, None))
            words = (
                BufferWord(" a", (n,), None, *time) for n, time in enumerate(times)
            )
            return BufferText(tuple(words))

    audio = np.concatenate([silence(1.0), speech(range(4)), silence(0.5)])
    events, _ = run(audio, Timed())
    (final,) = completed(events)
    assert [(word.start_s, word.end_s) for word in final.words] == [
        (final.start_s, final.start_s + 0.25),
        (final.start_s + 0.5, final.end_s),
        (None, None),
    ]


def test_segment_captions_in_a_last_pause_await_the_final_text() -> None:
    options = quick(min_partial_s=0.1, min_silence_s=0.5)
    audio = np.concatenate([speech(range(4)), silence(1.0)])
    events, _ = run(audio, Speller(), options, sizes=(512,))
    (final,) = completed(events)
    partials = [event for event in events if isinstance(event, Partial)]
    assert final.end_s - 0.45 < partials[-1].end_s < final.end_s - 0.3


def test_segment_captions_go_on_after_a_short_pause() -> None:
    options = quick(min_partial_s=0.1, min_silence_s=0.5)
    audio = np.concatenate([speech(range(4)), silence(0.4), speech(range(4))])
    events, _ = run(audio, Speller(), options, sizes=(512,))
    assert len(completed(events)) == 1
    ends_s = [event.end_s for event in events if isinstance(event, Partial)]
    gaps_s = np.diff(ends_s)
    assert 0.2 < max(gaps_s) < 0.35
