"""States of a Wyoming session."""

from __future__ import annotations

import pytest

from whisper_hailo.core.errors import AudioError
from whisper_hailo.serve.routes.state_machine import StateMachine
from whisper_hailo.serve.routes.wyoming import states as wyoming
from whisper_hailo.serve.routes.wyoming.states import SessionEvent, SessionState


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
