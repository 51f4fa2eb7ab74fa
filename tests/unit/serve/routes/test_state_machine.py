"""States of sessions: each table is complete, and what it does not allow is refused."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from whisper_hailo.core.errors import AudioError
from whisper_hailo.serve.errors import ClientDisconnectedError
from whisper_hailo.serve.routes.realtime import states as realtime
from whisper_hailo.serve.routes.realtime.protocol import SessionError
from whisper_hailo.serve.routes.realtime.states import ItemEvent, ItemState
from whisper_hailo.serve.routes.state_machine import StateMachine
from whisper_hailo.serve.routes.wyoming import states as wyoming
from whisper_hailo.serve.routes.wyoming.states import SessionEvent, SessionState


def make_item_machine(*events: ItemEvent) -> StateMachine[ItemState, ItemEvent]:
    """Return the machine of a realtime item after some events."""
    machine = StateMachine(
        ItemState.IDLE, realtime.TRANSITIONS, realtime.make_state_error
    )
    for event in events:
        machine.process(event)
    return machine


def make_session_machine(
    *events: SessionEvent,
) -> StateMachine[SessionState, SessionEvent]:
    """Return the machine of a Wyoming session after some events."""
    machine = StateMachine(
        SessionState.IDLE, wyoming.TRANSITIONS, wyoming.make_state_error
    )
    for event in events:
        machine.process(event)
    return machine


@pytest.mark.parametrize(
    ("states", "transitions"),
    [(ItemState, realtime.TRANSITIONS), (SessionState, wyoming.TRANSITIONS)],
    ids=["realtime", "wyoming"],
)
def test_transitions_every_state_is_listed_and_reached(
    states: type[Enum], transitions: Mapping[Any, Mapping[Any, Any]]
) -> None:
    assert set(transitions) == set(states)
    reached = {state for allowed in transitions.values() for state in allowed.values()}
    assert reached == set(states)


def test_item_committed_after_speech_completes_to_idle() -> None:
    machine = make_item_machine(ItemEvent.SOUND, ItemEvent.SPEECH, ItemEvent.COMMIT)
    assert machine.state is ItemState.COMMITTED
    assert machine.process(ItemEvent.COMPLETE) is ItemState.IDLE


def test_item_commit_without_speech_is_a_session_error() -> None:
    machine = make_item_machine(ItemEvent.SOUND)
    with pytest.raises(SessionError) as refused:
        machine.process(ItemEvent.COMMIT)
    assert refused.value.code == "input_audio_buffer_commit_empty"
    assert machine.state is ItemState.IDLE


@pytest.mark.parametrize(
    "event", [event for event in ItemEvent if event is not ItemEvent.CANCEL]
)
def test_item_cancelled_refuses_all_events(event: ItemEvent) -> None:
    machine = make_item_machine(ItemEvent.SPEECH, ItemEvent.CANCEL, ItemEvent.CANCEL)
    with pytest.raises(ClientDisconnectedError):
        machine.process(event)


def test_item_impossible_event_is_a_fault() -> None:
    with pytest.raises(RuntimeError, match="complete"):
        make_item_machine().process(ItemEvent.COMPLETE)


def test_session_stopped_by_client_is_idle_after_answer() -> None:
    machine = make_session_machine(
        SessionEvent.START, SessionEvent.CHUNK, SessionEvent.STOP
    )
    assert machine.state is SessionState.ANSWERING
    assert machine.process(SessionEvent.ANSWER_SENT) is SessionState.IDLE


def test_session_answered_early_stops_without_answer() -> None:
    machine = make_session_machine(
        SessionEvent.CHUNK, SessionEvent.END_OF_SPEECH, SessionEvent.ANSWER_SENT
    )
    assert machine.process(SessionEvent.CHUNK) is SessionState.ANSWERED
    assert machine.process(SessionEvent.STOP) is SessionState.IDLE


def test_session_answered_early_answers_more_speech() -> None:
    machine = make_session_machine(
        SessionEvent.CHUNK, SessionEvent.END_OF_SPEECH, SessionEvent.ANSWER_SENT
    )
    assert machine.process(SessionEvent.MORE_SPEECH) is SessionState.RECORDING
    assert machine.process(SessionEvent.STOP) is SessionState.ANSWERING


def test_session_answered_early_takes_next_recording() -> None:
    machine = make_session_machine(
        SessionEvent.CHUNK, SessionEvent.END_OF_SPEECH, SessionEvent.ANSWER_SENT
    )
    assert machine.process(SessionEvent.START) is SessionState.RECORDING


def test_session_stop_without_recording_is_an_audio_error() -> None:
    with pytest.raises(AudioError):
        make_session_machine().process(SessionEvent.STOP)


def test_session_impossible_event_is_a_fault() -> None:
    with pytest.raises(RuntimeError, match="end of speech"):
        make_session_machine().process(SessionEvent.END_OF_SPEECH)
