"""Who holds the token controls captions: over real sockets, with an answer to everything."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.unit.live.scripted import Loudness, Speller, silence, speech
from tests.unit.live.web.test_web import PATIENCE_S, connect, needs_web
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioning.captioner import Captioner
from whisper_hailo.live.captioning.controls import Controls
from whisper_hailo.live.event_checks import violations
from whisper_hailo.live.events import Away, Cleared, Completed, Event, Marker, Settings
from whisper_hailo.live.sources.browser import BrowserSource
from whisper_hailo.live.sources.paused import PausableSource
from whisper_hailo.live.sources.source import Absence, Block, Pace
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo.live.web.access import Access

TOKEN = "sesame-open-now"  # noqa: S105 - of these tests


class Spoken(Closing):
    """A live source that says what it is given, piece by piece, as long as it is open."""

    pace = Pace.ASKED
    endless = True
    name = "spoken"

    def __init__(self) -> None:
        self._pieces: list[np.ndarray] = []
        self._said = threading.Condition()
        self._closed = False

    def say(self, audio: np.ndarray) -> None:
        """Say it, and wait until it was heard."""
        with self._said:
            self._pieces.append(audio)
            self._said.wait_for(lambda: not self._pieces, PATIENCE_S)

    def blocks(self) -> Iterator[Block]:
        while not self._closed:
            with self._said:
                audio = self._pieces[0] if self._pieces else np.empty(0, np.float32)
            yield Block(audio)
            if audio.size:
                with self._said:
                    self._pieces.pop(0)
                    self._said.notify_all()

    def close(self) -> None:
        self._closed = True


class InAnyLanguage(Speller):
    """Hears every language but Klingon."""

    def in_language(self, language: str) -> Speller:
        if language == "tlh":
            raise OptionError("there is no such language")
        return InAnyLanguage(language=language)

    def transcribe(self, *given: Any, **named: Any) -> Any:
        named["language"] = named.get("language") or self.language
        return super().transcribe(*given, **named)


@dataclass
class Room:
    """Captions that run, and who looks at them."""

    source: Spoken
    view: Any
    events: list[Event]


@contextmanager
def room(token: str | None = TOKEN, host: str = "127.0.0.1", **options: Any) -> Iterator[Room]:
    needs_web()
    from whisper_hailo.live.web.view import Place, WebView

    source = Spoken()
    pausable = PausableSource(source)
    controls = Controls(pausable)
    captioner = Captioner(InAnyLanguage(), Loudness())
    stream = CaptionStream(pausable, captioner, controls=controls)
    place, events = Place.of(host, 0, token=token), []
    with WebView(
        lambda: captioner.statistics,
        place,
        controls=controls,
        settings=captioner.console.settings,
        **options,
    ) as view:

        def caption() -> None:
            for event in stream.events():
                events.append(event)
                view.put(event)

        thread = threading.Thread(target=caption)
        thread.start()
        try:
            yield Room(source, view, events)
        finally:
            source.close()
            thread.join(PATIENCE_S)
    assert list(violations(events)) == []


def heard(socket: Any) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
    return message


def until(socket: Any, event: str) -> dict[str, Any]:
    """The next message of a kind; those that came before it are kept for later."""
    kept = vars(socket).setdefault("kept", [])
    while not any(message["event"] == event for message in kept):
        kept.append(heard(socket))
    index = next(at for at, message in enumerate(kept) if message["event"] == event)
    message: dict[str, Any] = kept.pop(index)
    return message


def ask(socket: Any, action: str, **fields: Any) -> dict[str, Any]:
    socket.send(json.dumps({"type": "control", "id": 7, "action": action, **fields}))
    told = until(socket, "answer")
    assert (told["id"], told["action"]) == (7, action)
    return told


def test_what_comes_first_says_the_version_and_what_one_may_do() -> None:
    with room() as here, connect(here.view, f"events?token={TOKEN}") as page:
        hello, snapshot = heard(page), heard(page)
    assert (hello["event"], hello["protocol"]) == ("hello", 1)
    assert hello["may"] == ["look", "control"]  # there is no microphone of a browser
    assert snapshot["settings"]["language"] == "en"
    assert snapshot["cleared"] == 0


def test_a_token_that_was_given_is_needed_for_everything() -> None:
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    with room(browser=BrowserSource()) as here:
        with connect(here.view, "events") as stranger:
            assert heard(stranger)["may"] == []
            assert not ask(stranger, "clear")["ok"]
            stranger.send(json.dumps({"type": "token", "token": TOKEN}))
            assert heard(stranger)["may"] == ["look", "record", "control"]
            assert heard(stranger)["event"] == "snapshot"
        for wrong in (TOKEN[:-1], TOKEN + "x", "é"):
            with (
                connect(here.view, f"events?token={wrong}") as page,
                pytest.raises(ConnectionClosed, match="1008"),
            ):
                page.recv()
            with (
                pytest.raises(InvalidStatus, match="403"),
                connect(here.view, f"audio?token={wrong}"),
            ):
                pass
        with pytest.raises(InvalidStatus, match="403"), connect(here.view, "audio"):
            pass
        with connect(here.view, f"audio?token={TOKEN}") as microphone:
            assert microphone.recv() == "new"


def test_a_page_that_says_its_token_again_and_again_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from websockets.exceptions import ConnectionClosed

    monkeypatch.setattr("whisper_hailo.live.web.watching._LISTENER_BYTES", 500)

    def insist(page: Any) -> None:
        for _ in range(20):
            page.send(json.dumps({"type": "token", "token": TOKEN}))
            until(page, "hello")

    with room() as here, connect(here.view, f"events?token={TOKEN}") as page:
        until(page, "snapshot")
        with pytest.raises(ConnectionClosed):
            insist(page)


def test_without_one_everybody_looks_and_who_has_the_one_that_was_printed_controls() -> None:
    with room(token=None, browser=BrowserSource()) as here:
        with connect(here.view, "events") as page:
            assert heard(page)["may"] == ["look", "record"]
            refused = ask(page, "pause")
            assert (refused["ok"], "token" in refused["error"]) == (False, True)
        _, _, query = here.view.address_to_control.partition("?")
        with connect(here.view, f"events?{query}") as page:
            assert heard(page)["may"] == ["look", "record", "control"]


@pytest.mark.parametrize(
    ("host", "free"),
    [
        ("localhost", True),
        ("::1", True),
        ("127.0.0.9", True),
        ("0.0.0.0", False),  # noqa: S104 - who may ask is what is tested
        ("192.168.1.7", False),
        ("::", False),
        ("captions.local", False),
    ],
)
def test_who_reaches_it_from_elsewhere_needs_a_token_to_be_heard(host: str, *, free: bool) -> None:
    access = Access.of(None, host)
    assert access.rights(None) == (("look", "record") if free else ("look",))
    assert access.rights(access.token) == ("look", "record", "control")
    assert access.rights("guessed") is None
    assert Access.of(None, host).token != access.token
    assert access.is_generated
    given = Access.of(TOKEN, host)
    assert (given.token, given.rights(None), given.is_generated) == (TOKEN, (), False)


@pytest.mark.parametrize("token", ["", "short", "with blanks in it", "x" * 129, "größer-als"])
def test_a_token_that_could_be_guessed_or_does_not_fit_an_address_is_refused(token: str) -> None:
    with pytest.raises(OptionError, match="8 to 128") as refused:
        Access.of(token, "127.0.0.1")
    assert not token or f" {token} " not in f" {refused.value} ".replace("too short", "")


def test_a_pause_is_an_absence_and_what_is_said_in_it_is_not_heard() -> None:
    with room() as here, connect(here.view, f"events?token={TOKEN}") as page:
        here.source.say(np.concatenate([speech([0, 1]), silence(0.3)]))
        assert ask(page, "pause")["ok"]
        assert ask(page, "pause")["ok"], "once more changes nothing"
        until(page, "away")
        here.source.say(np.concatenate([speech([20, 21]), silence(0.3)]))
        with connect(here.view, f"events?token={TOKEN}") as late:
            heard(late)
            assert heard(late)["away"]["paused"] is True
        assert ask(page, "resume")["ok"]
        back = until(page, "back")
        here.source.say(np.concatenate([speech([2, 3]), silence(0.3)]))
    texts = [event.text for event in here.events if isinstance(event, Completed)]
    assert texts == ["w0 w1", "w2 w3"]
    (away,) = [event for event in here.events if isinstance(event, Away)]
    assert (away.paused, away.why) == (True, "paused")
    assert back["paused"] is True
    said_s = speech([20, 21]).size / 16_000 + 0.3
    assert back["end_s"] - back["start_s"] == pytest.approx(said_s, abs=0.04)


def test_markers_settings_and_clearing_are_told_to_all() -> None:
    with ExitStack() as stack:
        here = stack.enter_context(room())
        pages = [stack.enter_context(connect(here.view, f"events?token={TOKEN}")) for _ in range(2)]
        here.source.say(np.concatenate([speech([0]), silence(0.3)]))
        assert ask(pages[0], "marker", label="Question 1")["ok"]
        assert ask(pages[0], "settings", settings={"min_partial_s": 1, "settle_s": 0.5})["ok"]
        marker, settings = until(pages[1], "marker"), until(pages[1], "settings")
        assert marker["label"] == "Question 1"
        assert settings["settings"]["min_partial_s"] == 1
        with connect(here.view, f"events?token={TOKEN}") as late:
            heard(late)
            snapshot = heard(late)
            assert [event["event"] for event in snapshot["completed"]] == ["completed", "marker"]
            assert snapshot["settings"] == settings["settings"]
        assert ask(pages[0], "clear")["ok"]
        until(pages[1], "cleared")
        with connect(here.view, f"events?token={TOKEN}") as late:
            heard(late)
            snapshot = heard(late)
        assert (snapshot["completed"], snapshot["cleared"]) == ([], 1)
        for asked, label in (({}, ""), ({"label": "x" * 200}, "x" * 200)):
            assert ask(pages[0], "marker", **asked)["ok"]
            assert until(pages[1], "marker")["label"] == label
    kinds = [type(event) for event in here.events if isinstance(event, Marker | Cleared | Settings)]
    assert kinds == [Marker, Settings, Cleared, Marker, Marker]


def test_another_language_holds_from_the_next_segment_on() -> None:
    with room() as here, connect(here.view, f"events?token={TOKEN}") as page:
        here.source.say(speech([0]))
        with connect(here.view, f"events?token={TOKEN}") as other:
            heard(other)
            assert ask(page, "language", language="de")["ok"]
            assert until(other, "settings")["settings"]["language"] == "de"
        here.source.say(np.concatenate([silence(0.3), speech([1]), silence(0.3)]))
        refused = ask(page, "language", language="tlh")
    assert (refused["ok"], refused["error"]) == (False, "there is no such language")
    languages = [event.language for event in here.events if isinstance(event, Completed)]
    assert languages == ["en", "de"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"action": "explode"}, "expected one of: pause, resume, language"),
        ({}, "action is 'None'"),
        ({"action": "language"}, "language is None, expected a text"),
        ({"action": "marker", "label": "x" * 201}, "200 at most"),
        ({"action": "marker", "label": 7}, "expected a text"),
        ({"action": "settings"}, "settings is missing"),
        ({"action": "settings", "settings": {}}, "settings is missing or empty"),
        ({"action": "settings", "settings": [["settle_s", 1]]}, "expected an object of names"),
        ({"action": "settings", "settings": {"drafts": False}}, "cannot be changed"),
        ({"action": "settings", "settings": {"settle_s": "1"}}, "expected a number"),
        ({"action": "settings", "settings": {"settle_s": float("nan")}}, "--settle is nan"),
        ({"action": "settings", "settings": {"language": 5}}, "expected a text"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(asked: dict[str, Any], told: str) -> None:
    with room() as here, connect(here.view, f"events?token={TOKEN}") as page:
        page.send(json.dumps({"type": "control", "id": [1], **asked}))
        answer = until(page, "answer")
        assert (answer["ok"], answer["id"]) == (False, [1])
        assert told in answer["error"]
    assert here.events == []


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("hello", "1003"),
        ('{"type": "control"', "1003"),
        ('["control"]', "1003"),
        ('{"type": "caption"}', "1003"),
        (b"{}", "1003"),
        ('{"type": "token", "token": "guessed-wrong"}', "1008"),
        ('{"type": "token"}', "1008"),
        (json.dumps({"type": "control", "action": "x" * 5000}), "1009"),
    ],
)
def test_what_is_not_understood_closes_the_socket(message: str | bytes, code: str) -> None:
    from websockets.exceptions import ConnectionClosed

    with room() as here, connect(here.view, f"events?token={TOKEN}") as page:
        heard(page), heard(page)
        page.send(message)
        with pytest.raises(ConnectionClosed, match=code):
            page.recv(PATIENCE_S)


def test_when_the_stream_has_ended_that_is_the_answer() -> None:
    controls = Controls()
    waiting = controls.ask(lambda console: console.clear())
    controls.end()
    for answer in (waiting, controls.ask(lambda console: console.clear())):
        with pytest.raises(OptionError, match="the stream has ended"):
            answer.result(PATIENCE_S)


def test_who_asks_for_much_at_once_is_told_to_wait_and_who_left_is_forgotten() -> None:
    controls, captioner = Controls(), Captioner(InAnyLanguage(), Loudness())
    asked = [controls.ask(lambda console: console.mark("")) for _ in range(33)]
    asked[3].cancel()
    with pytest.raises(OptionError, match="32 others wait already"):
        asked[-1].result(PATIENCE_S)
    assert len(list(controls.obey(captioner.console))) == 31


class Steps(Closing):
    """Gives its pieces and does something between."""

    endless = True
    name = "steps"

    def __init__(self, *steps: Any, pace: Pace = Pace.ASKED, endless: bool = True) -> None:
        self._steps = steps
        self.pace, self.endless = pace, endless

    def blocks(self) -> Iterator[Block]:
        for step in self._steps:
            if isinstance(step, Block):
                yield step
            else:
                step()

    def close(self) -> None:
        pass


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
        away = block.absence or Absence("none")
        told.append((block.audio.size, away.why, away.n_samples, away.paused))
    return told


def piece(n_samples: int, **fields: Any) -> Block:
    return Block(np.ones(n_samples, np.float32), **fields)


def absent(why: str = "", n_samples: int = 0) -> Block:
    """The source went away, or is back after so many samples."""
    return Block(np.empty(0, np.float32), absence=Absence(why, n_samples))


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
def test_a_recording_that_went_on_in_a_pause_knows_when_it_was_spoken(
    before: int, recorded_s: float
) -> None:
    told = resumed(piece(before), piece(30, recorded_s=1000.0), piece(40))
    (back,) = [block for block in told if block.absence == Absence("", before + 70)]
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
