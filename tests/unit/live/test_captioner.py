"""Segments from start to end: partial texts, losses and absences between them, latencies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.fakes.captioned_audio import completed, run, texts
from tests.fakes.scripted_speech import (
    Loudness,
    Speller,
    quick,
    silence,
    speech,
    spoken,
)
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Away, Back, Completed, Partial, Started
from whisper_hailo.live.sources.source import Interruption
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.event_checks import find_violations


def test_captioner_segment_starts_and_completes() -> None:
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


def test_captioner_commits_words_agreed_on_for_a_second() -> None:
    events, _ = run(speech(range(12)), Speller())
    partials = [event for event in events if isinstance(event, Partial)]
    assert all(not event.committed for event in partials if event.end_s < 1.2)
    assert (
        partials[-1].committed_text
        == "w0 w1 w2 w3 w4 w5 w6"[: len(partials[-1].committed_text)]
    )
    assert len(partials[-1].committed) >= 6
    assert partials[-1].tentative


def test_captioner_audio_fed_at_once_skips_partials() -> None:
    audio = speech(range(8))
    events, captioner = run(audio, Speller(), sizes=(audio.size,))
    assert [type(event).__name__ for event in events] == [
        "Started",
        "Partial",
        "Completed",
    ]
    assert captioner.statistics.n_skipped == audio.size // 3200 - 1


def test_captioner_counts_partials_due_before_final_text() -> None:
    """Sound to sample 35,360 is in 70 frames, four more are a pause: 11 were due, of 3,200 each."""
    audio = np.concatenate([speech(range(8)), silence(0.5)])
    events, captioner = run(audio, Speller(), sizes=(audio.size,))
    (final,) = completed(events)
    assert round(final.end_s * SAMPLE_RATE_HZ) == 74 * 512
    assert captioner.statistics.n_skipped == 10


def test_captioner_cuts_segment_at_max_segment_s() -> None:
    """1.024 s are 32 frames: no longer buffer is transcribed."""
    recognizer = Speller()
    events, _ = run(
        spoken(0, 3.0), recognizer, quick(max_segment_s=1.024), sizes=(512,)
    )
    assert max(audio.size for audio in recognizer.heard) == 32 * 512
    first = next(event for event in events if isinstance(event, Completed))
    assert (first.reason, first.heard_s) == ("length", 1.024)


def test_captioner_segment_after_loss_has_no_pre_roll() -> None:
    captioner = Captioner(Speller(), Loudness(), quick())
    events = list(captioner.feed(np.concatenate([silence(0.5), speech(range(8))])))
    events += captioner.skip_lost(80_000)
    events += captioner.feed(np.concatenate([speech(range(8, 12)), silence(0.5)]))
    assert list(find_violations(events)) == []
    kinds = [type(event).__name__ for event in events]
    assert kinds[: kinds.index("Lost") + 2][-3:] == ["Completed", "Lost", "Started"]
    first, second = completed(events)
    assert (first.reason, second.reason) == ("loss", "silence")
    assert second.text == "w8 w9 w10 w11"
    begin_s = 0.5 + speech(range(8)).size / SAMPLE_RATE_HZ + 5.0
    assert second.start_s == pytest.approx(begin_s, abs=1e-6)
    assert captioner.statistics.as_json()["lost_s"] == pytest.approx(5.0, abs=0.032)


def test_captioner_absence_ends_segment_and_takes_time() -> None:
    captioner = Captioner(Speller(), Loudness(), quick())
    events = list(captioner.feed(np.concatenate([silence(0.5), speech(range(8))])))
    events += captioner.suspend(Interruption("the microphone was unplugged"))
    events += captioner.resume(Interruption("", 80_000))
    events += captioner.feed(np.concatenate([speech(range(8, 12)), silence(0.5)]))
    assert list(find_violations(events)) == []
    kinds = [type(event).__name__ for event in events]
    at = kinds.index("Away")
    assert kinds[at - 1 : at + 3] == ["Completed", "Away", "Back", "Started"]
    away, back = events[at : at + 2]
    assert isinstance(away, Away)
    assert isinstance(back, Back)
    assert away.why == "the microphone was unplugged"
    first, second = completed(events)
    assert (first.reason, second.reason) == ("away", "silence")
    assert first.end_s == away.start_s == back.start_s
    assert back.end_s - back.start_s == pytest.approx(5.0, abs=0.032)
    begin_s = 0.5 + speech(range(8)).size / SAMPLE_RATE_HZ + 5.0
    assert second.start_s == pytest.approx(begin_s, abs=1e-6)
    figures = captioner.statistics.as_json()
    assert (figures["absences"], figures["lost_s"]) == (1, 0.0)
    assert figures["away_s"] == pytest.approx(5.0, abs=0.032)


def test_captioner_latency_counts_lost_audio() -> None:
    captioner = Captioner(Speller(), Loudness(), quick(), now=lambda: 109.0)
    list(captioner.feed(silence(1.024), captured_s=101.024))
    list(captioner.skip_lost(5 * SAMPLE_RATE_HZ))
    list(captioner.feed(np.concatenate([speech(range(4)), silence(0.5)])))
    (latency_s,) = captioner.statistics.final_latency_s
    end_s = 100 + 1.024 + 5 + speech(range(4)).size / SAMPLE_RATE_HZ
    assert latency_s == pytest.approx(109.0 - end_s, abs=0.1)


def test_captioner_clicks_start_no_segment() -> None:
    audio = np.concatenate(
        [silence(0.2), spoken(3, 0.03), silence(0.5), spoken(4, 0.02)]
    )
    events, _ = run(audio, Speller())
    assert events == []


def test_captioner_min_partial_0_gives_no_partials() -> None:
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


def test_captioner_holds_back_partials_only() -> None:
    recognizer = RecordingSpeller()
    audio = np.concatenate([speech(range(6)), silence(0.5)])
    events, captioner = run(audio, recognizer, quick(hold_back_s=0.3))
    assert texts(events) == "w0 w1 w2 w3 w4 w5"
    assert [size for size, held in recognizer.calls if held == 0.0] == [
        recognizer.calls[-1][0]
    ]
    assert {held for _, held in recognizer.calls[:-1]} == {0.3}
    assert captioner.statistics.n_partials == len(recognizer.calls) - 1


def test_captioner_latency_is_measured_from_capture() -> None:
    clock = {"now": 100.0}
    captioner = Captioner(Speller(), Loudness(), quick(), now=lambda: clock["now"])
    audio = np.concatenate([silence(0.5), speech(range(4)), silence(0.5)])
    for end in range(1600, audio.size + 1600, 1600):
        clock["now"] = 100.0 + end / SAMPLE_RATE_HZ + 0.05
        list(captioner.feed(audio[end - 1600 : end], captured_s=clock["now"] - 0.05))
    list(captioner.finish())
    figures = captioner.statistics.as_json()
    # 100 ms of pre-roll, 200 ms to a partial; 100 ms of silence; up to 100 ms per block.
    assert 0.2 <= figures["first_partial_latency_s_median"] <= 0.5
    assert 0.1 <= figures["final_latency_s_median"] <= 0.35


@pytest.mark.parametrize(
    ("took_s", "is_live", "n_partials"),
    [(0.01, True, 48), (0.25, True, 16), (0.25, False, 48)],
)
def test_captioner_slow_recognizer_gets_fewer_partials(
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


def test_captioner_segment_longer_than_window_raises() -> None:
    with pytest.raises(OptionError, match=r"max-segment .*12 s.* 9 s"):
        Captioner(Speller(), Loudness(), quick(max_segment_s=12))


def test_captioner_word_times_are_bounded_by_the_segment() -> None:
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
