"""The route `/v1/realtime`: which connections it admits, and the places that they hold."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.websockets import WebSocketDisconnect

from whisper_hailo.serve.access import CLIENT
from whisper_hailo.serve.errors import UnknownModelError
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.request import Priority
from whisper_hailo.serve.routes.realtime import router


@dataclass
class Session:
    """A session that ends at once, or with an error.

    Attributes:
        given: caller and model of each session.
        n_live: live streams of its client while it runs.
    """

    quota: Quota
    error: Exception | None = None
    given: list[tuple[Any, str]] = field(default_factory=list)
    n_live: int = 0

    def open(
        self, service: Any, caller: Any, socket: Any, threads: Any, model: str
    ) -> Any:
        del service, socket, threads
        self.given.append((caller, model))
        return self

    async def run(self) -> None:
        self.n_live = self.quota._n_live["me"]
        if self.error is not None:
            raise self.error


@pytest.fixture
def quota() -> Quota:
    return Quota(LimitOptions(live=2))


@pytest.fixture
def session(quota: Quota, monkeypatch: pytest.MonkeyPatch) -> Session:
    fake = Session(quota)
    monkeypatch.setattr(router, "RealtimeSession", fake.open)
    return fake


def find_model(name: str) -> None:
    if name not in {"micro", "base"}:
        raise UnknownModelError(f"{name} is not served; ask for /v1/models")


def connect(quota: Quota, query: str = "", *subprotocols: str) -> list[dict[str, Any]]:
    """Return what the server sends to a client that connects with a query."""
    service: Any = SimpleNamespace(
        default=SimpleNamespace(name="micro"),
        find_model=find_model,
        quota=quota,
        metrics=Metrics(),
    )
    app = FastAPI()
    app.include_router(router.realtime_router(service))
    messages: list[dict[str, Any]] = []
    scope = {
        "type": "websocket",
        "path": "/v1/realtime",
        "query_string": query.encode(),
        "headers": [],
        "subprotocols": list(subprotocols),
        "extensions": {"websocket.http.response": {}},
        CLIENT: "me",
    }

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(app(scope, receive, send))
    return messages


def test_router_admits_a_client_as_live(quota: Quota, session: Session) -> None:
    (accepted,) = connect(quota, "intent=transcription&model=base")
    assert accepted["type"] == "websocket.accept"
    ((caller, model),) = session.given
    assert model == "base"
    assert caller.client == "me"
    assert caller.priority is Priority.LIVE


def test_router_without_a_model_takes_the_default(
    quota: Quota, session: Session
) -> None:
    connect(quota)
    assert session.given[0][1] == "micro"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ((), None),
        (("realtime", "openai-insecure-api-key.k"), "realtime"),
        (("x",), None),
    ],
)
def test_router_answers_an_offered_subprotocol_only(
    quota: Quota, session: Session, offered: tuple[str, ...], chosen: str | None
) -> None:
    """A browser closes a connection whose answer has a subprotocol that it did not offer."""
    assert connect(quota, "", *offered)[0]["subprotocol"] == chosen


@pytest.mark.parametrize(
    ("query", "status"),
    [("intent=conversation", 400), ("model=other", 404)],
)
def test_router_refuses_over_http_without_a_session(
    quota: Quota, session: Session, query: str, status: int
) -> None:
    start, body = connect(quota, query)
    assert start["status"] == status
    assert b'"error"' in body["body"]
    assert session.given == []


def test_router_holds_a_place_until_the_session_ends(
    quota: Quota, session: Session
) -> None:
    connect(quota)
    assert session.n_live == 1
    for client in ("me", "another"):
        with quota.hold_live_stream(client):
            pass


@pytest.mark.parametrize(("holder", "status"), [("me", 429), ("another", 200)])
def test_router_limits_the_streams_of_each_client(
    quota: Quota, session: Session, holder: str, status: int
) -> None:
    with quota.hold_live_stream(holder):
        message = connect(quota)[0]
    assert message.get("status", 200) == status
    assert len(session.given) == (status == 200)


def test_router_frees_the_place_of_a_client_that_left(
    quota: Quota, session: Session
) -> None:
    session.error = WebSocketDisconnect(1006)
    connect(quota)
    session.error = None
    assert [message["type"] for message in connect(quota)] == ["websocket.accept"]
