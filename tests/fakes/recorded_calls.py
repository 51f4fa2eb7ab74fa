"""Stands in the place of what a command has done for it."""

from __future__ import annotations

from typing import Any, Self

import pytest


class Asked:
    """Gives the same answer whenever it is called.

    Args:
        answer: what it gives.

    Attributes:
        with_: the arguments of each call.
    """

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.with_: list[tuple[Any, ...]] = []

    def __call__(self, *given: Any) -> Any:
        self.with_.append(given)
        return self._answer

    def patched(self, monkeypatch: pytest.MonkeyPatch, place: str) -> Self:
        """The same, in the place of a function until the end of the test."""
        monkeypatch.setattr(place, self)
        return self
