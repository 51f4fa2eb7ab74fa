"""Routes of monitoring: whether the process runs, and whether requests are accepted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from whisper_hailo.core.version import __version__
from whisper_hailo.serve.routes.health import health_router
from whisper_hailo.serve.served_model import ModelState


def make_client(state: ModelState) -> TestClient:
    """Return a client of a service with one model, which has nothing but its state."""
    service: Any = SimpleNamespace(
        state=state,
        models=[SimpleNamespace(name="micro", state=state)],
        metrics=SimpleNamespace(render_page=lambda: b"up 1\n"),
    )
    app = FastAPI()
    app.include_router(health_router(service))
    return TestClient(app)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (ModelState.LOADING, 503),
        (ModelState.READY, 200),
        (ModelState.RELEASED, 200),
        (ModelState.ENDING, 503),
        (ModelState.BROKEN, 503),
        (ModelState.CLOSED, 503),
    ],
)
def test_ready_status_depends_on_the_state(state: ModelState, status: int) -> None:
    answer = make_client(state).get("/ready")
    assert answer.status_code == status
    assert answer.json() == {"status": state.value, "models": {"micro": state.value}}


def test_health_of_a_broken_model_is_ok() -> None:
    answer = make_client(ModelState.BROKEN).get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "version": __version__}


def test_metrics_route_is_text_for_prometheus() -> None:
    answer = make_client(ModelState.READY).get("/metrics")
    assert answer.text == "up 1\n"
    assert answer.headers["content-type"].startswith("text/plain; version=")
