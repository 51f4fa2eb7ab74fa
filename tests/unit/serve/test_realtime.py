"""`/v1/realtime`: what is said is told turn by turn, until one side leaves."""

from __future__ import annotations

import asyncio
import re
import time

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from tests.unit.serve.house import DEMO, DEMO_TEXT, GERMAN, House
from tests.unit.serve.realtime_client import BUFFER, PAUSE_S, TRANSCRIPTION, pcm, speech, talk
from tests.unit.serve.running import Running, running
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio

pytestmark = pytest.mark.slow


def test_what_is_committed_has_the_text_of_the_command(
    web: Running, transcriber: Transcriber
) -> None:
    with talk(web) as said:
        assert said.update()["session"]["audio"]["input"]["turn_detection"] is None
        for path in (DEMO, GERMAN[0]):
            said.append(pcm(load_audio(path)))
            said.say(BUFFER + "commit")
            done = said.until(TRANSCRIPTION + "completed")
            alone = transcriber.transcribe(load_audio(path))
            assert done["transcript"] == alone.text
            assert said.deltas(done["item_id"]) == done["transcript"]
            seconds = load_audio(path).size / 16_000
            assert done["usage"]["seconds"] == pytest.approx(seconds, abs=0.04)
    committed = [event for event in said.events if event["type"] == BUFFER + "committed"]
    first, second = committed
    assert (first["previous_item_id"], second["previous_item_id"]) == (None, first["item_id"])
    added = [event["item"]["id"] for event in said.events if event["type"].endswith("item.added")]
    assert added == [first["item_id"], second["item_id"]]
    assert done["item_id"] == second["item_id"]


def test_text_comes_before_the_commit(web: Running) -> None:
    with talk(web) as said:
        said.update(transcription={"language": "en"})
        said.append(pcm(load_audio(DEMO)))
        delta = said.until(TRANSCRIPTION + "delta")
        assert BUFFER + "committed" not in said.kinds()
        said.say(BUFFER + "commit")
        done = said.until(TRANSCRIPTION + "completed")
    assert done["transcript"].startswith(delta["delta"])
    assert done["item_id"] == delta["item_id"]


def test_the_server_finds_the_turns(web: Running) -> None:
    turns = {"type": "server_vad", "silence_duration_ms": 700, "prefix_padding_ms": 200}
    with talk(web) as said:
        said.update(turns)
        said.append(speech(GERMAN[0], GERMAN[1]))
        items = [said.until(TRANSCRIPTION + "completed")["item_id"]]
        items.append(said.until(TRANSCRIPTION + "completed")["item_id"])
    for item in items:
        own = [event["type"] for event in said.events if event.get("item_id") == item]
        assert [kind for kind in own if not kind.endswith("delta")] == [
            BUFFER + "speech_started",
            BUFFER + "speech_stopped",
            BUFFER + "committed",
            TRANSCRIPTION + "completed",
        ]
    begin, end = (
        next(event for event in said.events if event["type"] == BUFFER + kind)
        for kind in ("speech_started", "speech_stopped")
    )
    seconds = load_audio(GERMAN[0]).size / 16_000
    assert 0 <= begin["audio_start_ms"] < end["audio_end_ms"]
    assert end["audio_end_ms"] < (seconds + PAUSE_S) * 1000
    second = [event for event in said.events if event["type"] == BUFFER + "speech_started"][1]
    assert second["audio_start_ms"] >= (seconds + PAUSE_S) * 1000 - 300


def test_what_is_cleared_is_not_heard(web: Running) -> None:
    with talk(web) as said:
        said.update()
        said.append(pcm(load_audio(DEMO)))
        said.say(BUFFER + "clear")
        said.until(BUFFER + "cleared")
        said.say(BUFFER + "commit", event_id="mine")
        error = said.until("error")["error"]
        assert error["code"] == "input_audio_buffer_commit_empty"
        assert error["event_id"] == "mine"
        assert TRANSCRIPTION + "completed" not in said.kinds()


def test_items_are_requests_and_looks_are_not() -> None:
    with House() as house, running(house) as web, talk(web) as said:
        said.update()
        said.append(pcm(load_audio(DEMO)))
        said.until(TRANSCRIPTION + "delta")
        assert b"whisper_hailo_live_streams 1.0" in house.metrics.page()
        said.say(BUFFER + "commit")
        said.until(TRANSCRIPTION + "completed")
        page = house.metrics.page().decode()
    assert 'whisper_hailo_requests_total{api="realtime",outcome="done"} 1.0' in page
    assert 'whisper_hailo_wait_seconds_count{priority="live"}' in page
    assert re.search(r'looks_total\{outcome="done"\} [1-9]', page)
    assert re.search(r"audio_seconds_total 14\.[789]", page)


def test_words_may_have_their_probabilities(web: Running) -> None:
    with talk(web) as said:
        session = {"type": "transcription", "include": [TRANSCRIPTION[13:-1] + ".logprobs"]}
        session["audio"] = {"input": {"turn_detection": None}}  # type: ignore[assignment]
        said.say("session.update", session=session)
        said.until("session.updated")
        said.append(pcm(load_audio(DEMO)))
        said.say(BUFFER + "commit")
        done = said.until(TRANSCRIPTION + "completed")
    assert "".join(entry["token"] for entry in done["logprobs"]).strip() == done["transcript"]
    assert all(entry["logprob"] <= 0 for entry in done["logprobs"])


def test_a_session_may_last(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time for the head of a request is none for what follows it."""
    monkeypatch.setattr("whisper_hailo.http.connections.IDLE_S", 0.1)
    with running(house) as web, talk(web) as said:
        time.sleep(0.3)
        said.update()


def test_who_leaves_frees_the_place_at_once() -> None:
    long = np.tile(load_audio(DEMO), 8)
    with House() as house, running(house) as web:
        with talk(web) as said:
            said.update()
            said.append(pcm(long), 1 << 20)
            said.until(TRANSCRIPTION + "delta")
        assert house.worker.queue.wait_until_empty(60)
        assert not house.worker.queue.n_live
        assert asyncio.run(house.text(load_audio(DEMO))) == DEMO_TEXT


def test_the_end_of_the_server_completes_what_is_being_said(
    transcriber: Transcriber,
) -> None:
    with House() as house, running(house) as web, talk(web) as said:
        said.update()
        said.append(pcm(load_audio(DEMO)))
        said.until(TRANSCRIPTION + "delta")
        house.service.close()
        web.loop.call_soon_threadsafe(house.service.ending.set)
        done = said.until(TRANSCRIPTION + "completed")
        assert done["transcript"]
        with pytest.raises(ConnectionClosed) as left:
            said.next()
        assert left.value.rcvd is not None
        assert left.value.rcvd.code == 1012


def test_a_client_that_is_silent_is_sent_away(
    web: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.serve.routes.realtime.session._IDLE_S", 0.05)
    with talk(web) as said:
        with pytest.raises(ConnectionClosed) as left:
            said.next()
        assert left.value.rcvd is not None
        assert left.value.rcvd.code == 1001
