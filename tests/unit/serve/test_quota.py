"""How often each client may ask, and how many of its requests may be under way."""

from __future__ import annotations

import pytest

from tests.unit.serve.house import House
from tests.unit.serve.web import client
from whisper_hailo.serve.errors import BusyError, TooManyError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota


def test_rate_above_the_limit_is_429() -> None:
    with House(quota=Quota(LimitOptions(rate=2))) as house:
        web = client(house)
        statuses = [web.get("/v1/models").status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        answer = web.get("/v1/models")
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"
        assert web.get("/health").status_code == 200


def test_rate_is_per_client_and_recovers() -> None:
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


def test_remembered_clients_are_bounded() -> None:
    quota = Quota(LimitOptions(rate=1))
    for number in range(10_000):
        quota.count_request(f"client {number}")
    assert len(quota._tokens) <= 4096


@pytest.mark.parametrize("kind", ["request", "live"])
def test_places_are_limited_in_all_and_per_client(kind: str) -> None:
    quota = Quota(LimitOptions(queue=3, queue_each=2, live=3))
    hold = getattr(quota, kind)
    with hold("one"), hold("one"):
        with pytest.raises(TooManyError), hold("one"):
            pass
        with hold("two"), pytest.raises(BusyError), hold("three"):
            pass
    with hold("one"), hold("one"), hold("three"):
        pass
    assert not quota._requests
    assert not quota.n_live


def test_bytes_are_given_back_with_their_reservation() -> None:
    quota = Quota(LimitOptions(max_stored_mib=1))
    with quota.reserve() as stored:
        stored.take(1 << 20)
        with pytest.raises(BusyError):
            stored.take(1)
    assert quota.n_bytes == 0
