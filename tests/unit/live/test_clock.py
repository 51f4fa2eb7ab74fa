"""When what a stream has was said: live, recorded, or neither."""

from __future__ import annotations

import pytest

from tests.unit.live.scripted import Loudness, Speller, silence, speech
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Started, StreamClock


class Times:
    """What both clocks say: the program's began at 50 s, the wall's is 1,000,000 s ahead of it."""

    now_s = 50.0

    def clock(self) -> StreamClock:
        return StreamClock(lambda: self.now_s, lambda: 1_000_000.0 + self.now_s)


def test_audio_that_is_not_live_counts_at_its_own_speed() -> None:
    times = Times()
    clock = times.clock()
    times.now_s = 53.5
    assert clock.moment(2.0, 4.0) == {"heard_s": 4.0, "at_s": 3.5, "wall_s": 1_000_052.0}
    assert clock.since(16_000) is None


def test_what_is_live_was_said_when_it_was_captured() -> None:
    """The third second had been captured at 60 s; it is 61.5 s now."""
    times = Times()
    clock = times.clock()
    clock.note_capture(60.0, 3 * SAMPLE_RATE_HZ)
    times.now_s = 61.5
    assert clock.since(3 * SAMPLE_RATE_HZ) == 1.5
    assert clock.since(SAMPLE_RATE_HZ) == 3.5
    assert clock.moment(1.0, 3.0) == {"heard_s": 3.0, "at_s": 11.5, "wall_s": 1_000_058.0}


@pytest.mark.parametrize("live", [False, True])
def test_recording_says_when_it_was_spoken_however_it_is_played(live: bool) -> None:
    times = Times()
    clock = times.clock()
    if live:
        clock.note_capture(60.0, 0)
    clock.note_recorded(2_000.0, 2 * SAMPLE_RATE_HZ)
    times.now_s = 70.0
    assert clock.moment(2.0, 3.0)["wall_s"] == 2_000.0
    assert clock.moment(5.5, 6.0)["wall_s"] == 2_003.5


def test_captions_of_a_recording_have_the_time_of_speaking() -> None:
    """Half a second of the stream came before it, some of which is no whole frame yet."""
    captioner = Captioner(Speller(), Loudness())
    assert list(captioner.feed(silence(0.5))) == []
    captioner.note_recorded(5_000.0)
    events = [*captioner.feed(speech(range(4))), *captioner.finish()]
    told = [event for event in events if isinstance(event, Started | Completed)]
    assert [type(event) for event in told] == [Started, Completed]
    for event in told:
        assert event.wall_s == pytest.approx(4_999.5 + event.start_s, abs=1e-6)
