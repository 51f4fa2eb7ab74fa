"""Wishes of users while captions run: told, then answered; refused when all is over."""

from __future__ import annotations

import pytest

from tests.fakes.scripted_speech import Loudness, Speller
from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Marker
from whisper_hailo.live.stream import Controls


class English(Speller):
    def with_language(self, language: str) -> English:
        raise OptionError(f"{language} is not heard")


def settings() -> Captioner:
    return Captioner(English(), Loudness())


def test_wish_is_answered_when_it_was_told_of() -> None:
    controls = Controls()
    answer = controls.submit(lambda live: live.mark("here"))
    told = controls.process_commands(settings())
    event = next(told)
    assert isinstance(event, Marker)
    assert (event.label, event.start_s) == ("here", 0.0)
    assert not answer.done()
    assert list(told) == []
    assert answer.result(0) is None


def test_wishes_are_obeyed_in_their_order_but_those_of_who_left() -> None:
    controls = Controls()
    answers = [
        controls.submit(lambda live, label=label: live.mark(label)) for label in "abc"
    ]
    assert answers[1].cancel()
    events = list(controls.process_commands(settings()))
    assert [event.label for event in events if isinstance(event, Marker)] == ["a", "c"]


def test_impossible_wish_is_refused_and_others_are_obeyed() -> None:
    controls = Controls()
    wrong = controls.submit(lambda live: live.set_language("klingon"))
    right = controls.submit(lambda live: live.clear())
    assert [
        type(event).__name__ for event in controls.process_commands(settings())
    ] == ["Cleared"]
    with pytest.raises(OptionError, match="klingon"):
        wrong.result(0)
    assert right.result(0) is None


def test_when_all_is_over_what_waits_and_what_comes_is_refused() -> None:
    controls = Controls()
    controls.set_paused(True)
    waiting = controls.submit(lambda live: live.clear())
    controls.end()
    with pytest.raises(OptionError, match="the stream has ended"):
        waiting.result(0)
    with pytest.raises(OptionError, match="the stream has ended"):
        controls.submit(lambda live: live.clear()).result(0)
    with pytest.raises(OptionError, match="the stream has ended"):
        controls.set_paused(False)
    assert controls.is_paused


def test_only_so_many_wait_for_a_captioner_that_computes() -> None:
    controls = Controls()
    answers = [controls.submit(lambda live: live.clear()) for _ in range(33)]
    with pytest.raises(OptionError, match="32 commands are already waiting"):
        answers[-1].result(0)
    assert len(list(controls.process_commands(settings()))) == 32
