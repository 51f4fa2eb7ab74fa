"""How often each client may ask, and how many of its requests may be under way."""

from __future__ import annotations

import pytest

from tests.unit.serve.house import House
from tests.unit.serve.web import client
from whisper_hailo.serve.errors import BusyError, TooManyError
from whisper_hailo.serve.http.guard import Places, Rate
from whisper_hailo.serve.options import LimitOptions


def test_so_many_requests_a_minute(house: House) -> None:
    web = client(house, LimitOptions(rate=2))
    statuses = [web.get("/v1/models").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    answer = web.get("/v1/models")
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert web.get("/health").status_code == 200


def test_the_rate_is_each_clients_own_and_comes_back() -> None:
    now_s = 0.0
    rate = Rate(2, lambda: now_s)
    for _ in range(2):
        rate.take("one")
    with pytest.raises(TooManyError):
        rate.take("one")
    rate.take("two")
    now_s = 30.0
    rate.take("one")
    with pytest.raises(TooManyError):
        rate.take("one")


def test_clients_that_are_known_are_so_many_at_most() -> None:
    rate = Rate(1)
    for number in range(10_000):
        rate.take(f"client {number}")
    assert len(rate._left) <= 4096


def test_uploads_under_way_are_so_many_in_all_and_for_each() -> None:
    places = Places(3, 2)
    with places.taken("one"), places.taken("one"):
        with pytest.raises(TooManyError, match="2 requests of yours"), places.taken("one"):
            pass
        with (
            places.taken("two"),
            pytest.raises(BusyError, match="all 3 places"),
            places.taken("three"),
        ):
            pass
    with places.taken("one"), places.taken("one"), places.taken("three"):
        pass
    assert not places._taken
