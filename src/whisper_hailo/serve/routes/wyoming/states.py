"""States of a Wyoming session, and the events that lead from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from whisper_hailo.core.errors import AudioError


class SessionState(Enum):
    """How far the present recording is."""

    IDLE = "idle"  # there is none
    RECORDING = "recording"  # it arrives
    ANSWERING = "answering"  # the client stopped it, and gets its text
    ANSWERING_EARLY = "answering early"  # speech ended before the client stopped it
    ANSWERED = "answered"  # it has an early text; more speech may follow


class SessionEvent(Enum):
    """What happens to a recording."""

    START = "audio-start"
    CHUNK = "audio-chunk"
    STOP = "audio-stop"
    END_OF_SPEECH = "end of speech"  # found by the server
    MORE_SPEECH = "more speech"  # found by the server after an early answer
    ANSWER_SENT = "answer sent"


TRANSITIONS: Final[Mapping[SessionState, Mapping[SessionEvent, SessionState]]] = {
    SessionState.IDLE: {
        SessionEvent.START: SessionState.RECORDING,
        SessionEvent.CHUNK: SessionState.RECORDING,  # some clients send no audio-start
    },
    SessionState.RECORDING: {
        SessionEvent.START: SessionState.RECORDING,  # it begins again
        SessionEvent.CHUNK: SessionState.RECORDING,
        SessionEvent.STOP: SessionState.ANSWERING,
        SessionEvent.END_OF_SPEECH: SessionState.ANSWERING_EARLY,
    },
    SessionState.ANSWERING: {
        SessionEvent.ANSWER_SENT: SessionState.IDLE,
    },
    SessionState.ANSWERING_EARLY: {
        SessionEvent.ANSWER_SENT: SessionState.ANSWERED,
    },
    SessionState.ANSWERED: {
        SessionEvent.START: SessionState.RECORDING,
        SessionEvent.CHUNK: SessionState.ANSWERED,
        SessionEvent.MORE_SPEECH: SessionState.RECORDING,
        SessionEvent.STOP: SessionState.IDLE,
    },
}

AWAITING_RECORDING: Final = frozenset({SessionState.IDLE, SessionState.ANSWERED})
"""States in which a connection may be closed for a newcomer."""


def make_state_error(state: SessionState, event: SessionEvent) -> Exception:
    """Return the error of an event that a state does not allow."""
    if state is SessionState.IDLE and event is SessionEvent.STOP:
        return AudioError(
            "no audio before audio-stop; send audio-start and audio-chunk first"
        )
    return RuntimeError(f"event {event.value} is not allowed in state {state.value}")
