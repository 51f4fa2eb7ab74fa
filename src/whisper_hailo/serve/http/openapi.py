"""The description of the API: what errors and answers look like."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel


class _Failure(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class FailureBody(BaseModel):
    """The body of every answer that is a refusal."""

    error: _Failure


TEXT, EVENTS = "text/plain", "text/event-stream"

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": FailureBody, "description": "What was asked cannot be done"},
    "5XX": {"model": FailureBody, "description": "It cannot be done now"},
}
"""For the description of the API."""


def answers(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """What else than JSON an answer may be, for the same."""
    return {200: {"content": {kind: {} for kind in kinds}}}
