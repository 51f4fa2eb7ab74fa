"""States of a realtime item."""

from __future__ import annotations

import pytest

from whisper_hailo.serve.errors import ClientDisconnectedError
from whisper_hailo.serve.routes.realtime import states as realtime
from whisper_hailo.serve.routes.realtime.protocol import SessionError
from whisper_hailo.serve.routes.realtime.states import ItemEvent, ItemState
from whisper_hailo.serve.routes.state_machine import StateMachine


def make_item_machine(*events: ItemEvent) -> StateMachine[ItemState, ItemEvent]:
    """Return the machine of a realtime item after some events."""
    machine = StateMachine(
        ItemState.IDLE, realtime.TRANSITIONS, realtime.make_state_error
    )
    for event in events:
        machine.process(event)
    return machine


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
