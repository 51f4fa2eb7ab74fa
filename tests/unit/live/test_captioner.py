"""Streams from start to end: what is lost or away between segments, clicks, limits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.captioned_audio import completed, run
from tests.fakes.scripted_speech import (
    Loudness,
    Speller,
    quick,
    silence,
    speech,
    spoken,
)
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Away, Back
from whisper_hailo.live.sources.source import Interruption
from whisper_hailo_lab.captions.event_checks import find_violations


def test_captioner_segment_after_loss_has_no_pre_roll() -> None:
    captioner = Captioner(Speller(), Loudness(), quick())
    events = list(captioner.feed(np.concatenate([silence(0.5), speech(range(8))])))
    events += captioner.skip_lost(80_000)
    events += captioner.feed(np.concatenate([speech(range(8, 12)), silence(0.5)]))
    assert list(find_violations(events)) == []
    kinds = [type(event).__name__ for event in events]
    assert kinds[: kinds.index("Lost") + 2][-3:] == ["Completed", "Lost", "Started"]
    first, second = completed(events)
    assert first.reason == "loss"
    assert second.reason == "silence"
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
    assert first.reason == "away"
    assert second.reason == "silence"
    assert first.end_s == away.start_s == back.start_s
    assert back.end_s - back.start_s == pytest.approx(5.0, abs=0.032)
    begin_s = 0.5 + speech(range(8)).size / SAMPLE_RATE_HZ + 5.0
    assert second.start_s == pytest.approx(begin_s, abs=1e-6)
    figures = captioner.statistics.as_json()
    assert figures["absences"] == 1
    assert figures["lost_s"] == 0.0
    assert figures["away_s"] == pytest.approx(5.0, abs=0.032)


def test_captioner_clicks_start_no_segment() -> None:
    audio = np.concatenate(
        [silence(0.2), spoken(3, 0.03), silence(0.5), spoken(4, 0.02)]
    )
    events, _ = run(audio, Speller())
    assert events == []


def test_captioner_segment_longer_than_window_raises() -> None:
    with pytest.raises(OptionError, match=r"max-segment .*12 s.* 9 s"):
        Captioner(Speller(), Loudness(), quick(max_segment_s=12))
