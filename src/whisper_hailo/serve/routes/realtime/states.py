"""States of what a realtime client says, and the events that lead from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from whisper_hailo.serve.errors import ClientDisconnectedError
from whisper_hailo.serve.routes.realtime.protocol import empty_commit_error


class ItemState(Enum):
    """How far the item is that the client is speaking."""

    IDLE = "idle"  # there is no item
    OPEN = "open"  # its sound arrives
    COMMITTED = "committed"  # it has all of its sound, but not all of its text
    CANCELLED = "cancelled"  # the client left


class ItemEvent(Enum):
    """What happens to an item."""

    SOUND = "sound"  # sound arrived, which may be silence
    SPEECH = (
        "speech"  # it is speech, by the server's turns or because the client says so
    )
    COMMIT = "commit"  # the client, or the end of a turn, ends the sound
    COMPLETE = "complete"  # all of the text is there
    RESET = "reset"  # the item was cleared, failed, or made room for new settings
    CANCEL = "cancel"  # the client left; may come at any time


TRANSITIONS: Final[Mapping[ItemState, Mapping[ItemEvent, ItemState]]] = {
    ItemState.IDLE: {
        ItemEvent.SOUND: ItemState.IDLE,
        ItemEvent.SPEECH: ItemState.OPEN,
        ItemEvent.RESET: ItemState.IDLE,
        ItemEvent.CANCEL: ItemState.CANCELLED,
    },
    ItemState.OPEN: {
        ItemEvent.SOUND: ItemState.OPEN,
        ItemEvent.SPEECH: ItemState.OPEN,
        ItemEvent.COMMIT: ItemState.COMMITTED,
        ItemEvent.RESET: ItemState.IDLE,
        ItemEvent.CANCEL: ItemState.CANCELLED,
    },
    ItemState.COMMITTED: {
        ItemEvent.COMPLETE: ItemState.IDLE,
        ItemEvent.RESET: ItemState.IDLE,
        ItemEvent.CANCEL: ItemState.CANCELLED,
    },
    ItemState.CANCELLED: {
        ItemEvent.CANCEL: ItemState.CANCELLED,
    },
}


def make_state_error(state: ItemState, event: ItemEvent) -> Exception:
    """Return the error of an event that a state does not allow."""
    if state is ItemState.CANCELLED:
        return ClientDisconnectedError()
    if state is ItemState.IDLE and event is ItemEvent.COMMIT:
        return empty_commit_error(0.0)
    return RuntimeError(f"event {event.value} is not allowed in state {state.value}")
