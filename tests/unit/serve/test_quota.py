"""Quotas: rates, places and bytes."""

from __future__ import annotations

import socket
import weakref

import pytest

from tests.fakes.micro_service import MicroService, client, run_server
from tests.fakes.speech_clients import BUFFER, talk
from tests.patience import wait_for
from whisper_hailo.serve.errors import BusyError, TooManyError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota, Reservation


def test_quota_rate_above_the_limit_is_429() -> None:
    with MicroService(limits=LimitOptions(rate=2)) as micro:
        web = client(micro)
        statuses = [web.get("/v1/models").status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        answer = web.get("/v1/models")
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"
        assert web.get("/health").status_code == 200


def test_quota_rate_is_per_client_and_recovers() -> None:
    now_s = 0.0
    quota = Quota(LimitOptions(rate=2), lambda: now_s)
    for _ in range(2):
        quota.count_request("one")
    with pytest.raises(TooManyError):
        quota.count_request("one")
    quota.count_request("two")
    now_s = 30.0
    quota.count_request("one")
    with pytest.raises(TooManyError):
        quota.count_request("one")


def test_quota_remembered_clients_are_bounded() -> None:
    """Only the clients that came last are remembered."""
    quota = Quota(LimitOptions(rate=1), lambda: 0.0)
    for number in range(10_000):
        quota.count_request(f"client {number}")
    with pytest.raises(TooManyError):
        quota.count_request(f"client {10_000 - 4096}")
    quota.count_request(f"client {10_000 - 4096 - 1}")


@pytest.mark.parametrize("kind", ["hold_request", "hold_live_stream"])
def test_quota_places_are_limited_in_all_and_per_client(kind: str) -> None:
    quota = Quota(LimitOptions(queue=3, queue_each=2, live=3))
    hold = getattr(quota, kind)
    with hold("one"), hold("one"):
        with pytest.raises(TooManyError), hold("one"):
            pass
        with hold("two"), pytest.raises(BusyError), hold("three"):
            pass
    with hold("one"), hold("one"), hold("three"):
        pass


class Name(str):
    """A name of which there can be weak references."""


@pytest.mark.parametrize("kind", ["hold_request", "hold_live_stream"])
def test_quota_client_without_place_is_forgotten(kind: str) -> None:
    quota = Quota()
    name = Name("one")
    with getattr(quota, kind)(name):
        remembered = weakref.ref(name)
        del name
        assert remembered() is not None
    assert remembered() is None


def test_reservation_closed_gives_bytes_back() -> None:
    quota = Quota(LimitOptions(max_stored_mib=1))
    with Reservation(quota) as stored:
        stored.take(1 << 20)
        with pytest.raises(BusyError):
            stored.take(1)
    assert quota.n_bytes == 0


def test_session_append_without_room_is_an_error() -> None:
    with (
        MicroService(limits=LimitOptions(max_stored_mib=1)) as micro,
        run_server(micro) as web,
        talk(web) as said,
    ):
        said.update()
        said.append(bytes(3 << 20), 3 << 20)
        assert said.until("error")["error"]["code"] == "busy"
        said.append(bytes(48_000))
        said.say(BUFFER + "clear")
        assert said.until(BUFFER + "cleared", "error")["type"] == BUFFER + "cleared"
        assert wait_for(lambda: not micro.service.quota.n_bytes)


def test_session_departed_client_frees_its_place() -> None:
    with MicroService() as micro, run_server(micro) as web:
        with talk(web, close_timeout=0.1) as said:
            said.update()
            said.append(bytes(30 << 20), 14 << 20)
            said.socket.socket.shutdown(socket.SHUT_RDWR)
        assert wait_for(lambda: not micro.model.queue.n_live)
        assert wait_for(lambda: not micro.service.quota.n_bytes)
