"""Quotas: how often, how much at once and how many bytes clients may take, each and in all."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from whisper_hailo.core.protocols import Closing
from whisper_hailo.serve.errors import BusyError, TooManyError
from whisper_hailo.serve.options import LimitOptions

_MAX_CLIENTS: Final = 4096  # whose rates are remembered
ENDING: Final = "the server is about to end; try again when it is back"


class Quota:
    """Requests a minute and at once, live streams, and bytes of all clients; thread-safe.

    Bytes are those of uploads and their samples. One that `is_closed` takes no request.
    """

    def __init__(
        self, limits: LimitOptions | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or LimitOptions()
        self._now = now
        self.lock = threading.Lock()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._requests: Counter[str] = Counter()
        self._live: Counter[str] = Counter()
        self.n_bytes = 0
        self.is_closed = False

    def count_request(self, client: str) -> None:
        """Count a request against the client's rate limit, a token bucket."""
        per_minute = self.limits.rate
        if not per_minute:
            return
        now_s = self._now()
        left, since_s = self._tokens.pop(client, (float(per_minute), now_s))
        left = min(per_minute, left + (now_s - since_s) * per_minute / 60)
        self._tokens[client] = (max(0.0, left - 1) if left >= 1 else left, now_s)
        if len(self._tokens) > _MAX_CLIENTS:
            self._tokens.popitem(last=False)
        if left < 1:
            raise TooManyError(f"more than {per_minute} requests in a minute; wait a little")

    @contextmanager
    def request(self, client: str) -> Iterator[Reservation]:
        """Hold a place for a request, and what it stores, as long as the block lasts."""
        most, each = self.limits.queue, self.limits.queue_each
        with (
            self._slot(self._requests, client, most, each, "requests"),
            Reservation(self) as stored,
        ):
            yield stored

    def live(self, client: str) -> AbstractContextManager[None]:
        """Hold a place for a live stream as long as the block lasts; one client has half."""
        most = self.limits.live
        return self._slot(self._live, client, most, (most + 1) // 2, "live streams")

    @contextmanager
    def _slot(
        self, taken: Counter[str], client: str, most: int, each: int, kind: str
    ) -> Iterator[None]:
        with self.lock:
            if self.is_closed:
                raise BusyError(ENDING)
            if taken.total() >= most:
                raise BusyError(f"all {most} places for {kind} are taken; try again soon")
            if taken[client] >= each:
                raise TooManyError(f"{each} {kind} of yours are not done yet; wait for one of them")
            taken[client] += 1
        try:
            yield
        finally:
            with self.lock:
                taken[client] -= 1
                if not taken[client]:
                    del taken[client]


class Reservation(Closing):
    """Bytes that one request or stream has taken of a quota, given back when it is closed."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self.n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Take more, or give some back where `n_bytes` is less than 0."""
        quota = self._quota
        most = quota.limits.max_stored_mib << 20
        with quota.lock:
            if n_bytes > 0 and quota.n_bytes + n_bytes > most:
                raise BusyError(
                    f"recordings of {quota.n_bytes >> 20} MiB wait already, expected "
                    f"{most >> 20} MiB at most; try again soon"
                )
            quota.n_bytes += n_bytes
        self.n_bytes += n_bytes

    def close(self) -> None:
        self.take(-self.n_bytes)
