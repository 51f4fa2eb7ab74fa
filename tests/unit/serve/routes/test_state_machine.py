"""States of sessions: each table is complete, and what it does not allow is refused."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from whisper_hailo.serve.routes.realtime import states as realtime
from whisper_hailo.serve.routes.realtime.states import ItemState
from whisper_hailo.serve.routes.wyoming import states as wyoming
from whisper_hailo.serve.routes.wyoming.states import SessionState


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
