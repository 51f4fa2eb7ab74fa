"""State machines: a table says to which state an event leads, and which events are refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


class StateMachine(Generic[StateT, EventT]):
    """Goes from state to state as its table says; thread-safe.

    Args:
        transitions: for each state, the events that it allows and the states they lead to.
        make_error: returns the error of an event that a state does not allow.
    """

    def __init__(
        self,
        initial: StateT,
        transitions: Mapping[StateT, Mapping[EventT, StateT]],
        make_error: Callable[[StateT, EventT], Exception],
    ) -> None:
        self._state = initial
        self._transitions = transitions
        self._make_error = make_error
        self._lock = threading.Lock()

    @property
    def state(self) -> StateT:
        """The present state."""
        return self._state

    def process(self, event: EventT) -> StateT:
        """Go to the state to which an event leads, and return it.

        Raises:
            Exception: that of `make_error`; the state stays.
        """
        with self._lock:
            allowed = self._transitions[self._state]
            if event not in allowed:
                raise self._make_error(self._state, event)
            self._state = allowed[event]
            return self._state
