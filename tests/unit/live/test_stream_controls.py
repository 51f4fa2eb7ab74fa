"""Commands of users while captions run: their event, then their answer."""

from __future__ import annotations

import pytest

from tests.fakes.scripted_speech import Loudness, Speller
from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Marker
from whisper_hailo.live.stream import Controls


class English(Speller):
    def with_language(self, language: str) -> English:
        raise OptionError(f"{language} is not supported")


def make_captioner() -> Captioner:
    return Captioner(English(), Loudness())


def test_controls_command_is_done_after_its_event() -> None:
    controls = Controls()
    answer = controls.submit(lambda live: live.mark("here"))
    events = controls.process_commands(make_captioner())
    event = next(events)
    assert isinstance(event, Marker)
    assert event.label == "here"
    assert event.start_s == 0.0
    assert not answer.done()
    assert list(events) == []
    assert answer.result(0) is None


def test_controls_run_in_order_without_cancelled_ones() -> None:
    controls = Controls()
    answers = [
        controls.submit(lambda live, label=label: live.mark(label)) for label in "abc"
    ]
    assert answers[1].cancel()
    events = list(controls.process_commands(make_captioner()))
    assert [event.label for event in events if isinstance(event, Marker)] == ["a", "c"]


def test_controls_failing_command_leaves_the_others() -> None:
    controls = Controls()
    wrong = controls.submit(lambda live: live.set_language("klingon"))
    right = controls.submit(lambda live: live.clear())
    assert [
        type(event).__name__ for event in controls.process_commands(make_captioner())
    ] == ["Cleared"]
    with pytest.raises(OptionError, match="klingon"):
        wrong.result(0)
    assert right.result(0) is None


def test_controls_ended_refuse_waiting_and_new_commands() -> None:
    controls = Controls()
    controls.set_paused(True)
    waiting = controls.submit(lambda live: live.clear())
    controls.end()
    with pytest.raises(OptionError):
        waiting.result(0)
    with pytest.raises(OptionError):
        controls.submit(lambda live: live.clear()).result(0)
    with pytest.raises(OptionError):
        controls.set_paused(False)
    assert controls.is_paused


def test_controls_33rd_waiting_command_is_refused() -> None:
    controls = Controls()
    answers = [controls.submit(lambda live: live.clear()) for _ in range(33)]
    with pytest.raises(OptionError, match="32"):
        answers[-1].result(0)
    assert len(list(controls.process_commands(make_captioner()))) == 32
