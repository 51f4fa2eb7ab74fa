"""Quotas: how many requests and bytes clients may have, each of them and all together."""

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

_MAX_CLIENTS: Final = 4096
"""Clients whose rates are remembered; strangers decide how many there are."""

ENDING: Final = "the server is shutting down; try again when it is back"


class Quota:
    """Requests a minute and at once, live streams, and bytes of all clients; thread-safe.

    Attributes:
        n_bytes: bytes of all uploads and their samples.
        is_closed: no request and no live stream gets a place any more.
    """

    def __init__(
        self,
        limits: LimitOptions | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or LimitOptions()
        self._now = now
        self.lock = threading.Lock()
        # Tokens of each client, and when they were counted; the least recent client first.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._n_requests: Counter[str] = Counter()
        self._n_live: Counter[str] = Counter()
        self.n_bytes = 0
        self.is_closed = False

    def count_request(self, client: str) -> None:
        """Count a request against the client's rate limit, a token bucket.

        Raises:
            TooManyError: the client's bucket is empty.
        """
        per_minute = self.limits.rate
        if not per_minute:
            return
        now_s = self._now()
        n_tokens, since_s = self._buckets.pop(client, (float(per_minute), now_s))
        n_tokens = min(per_minute, n_tokens + (now_s - since_s) * per_minute / 60)
        is_allowed = n_tokens >= 1
        if is_allowed:
            n_tokens -= 1
        self._buckets[client] = (n_tokens, now_s)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        if not is_allowed:
            raise TooManyError(
                f"more than {per_minute} requests in a minute; wait a moment"
            )

    @contextmanager
    def hold_request(self, client: str) -> Iterator[Reservation]:
        """Hold a place for a request, and what it stores, as long as the block lasts.

        Raises:
            BusyError: all places are taken, or the server ends.
            TooManyError: the client has as many places as one client may have.
        """
        limits = self.limits
        with (
            self._hold_place(
                self._n_requests, client, limits.queue, limits.queue_each, "requests"
            ),
            Reservation(self) as reservation,
        ):
            yield reservation

    def hold_live_stream(self, client: str) -> AbstractContextManager[None]:
        """Hold a place for a live stream as long as the block lasts; one client has half of them.

        Raises:
            BusyError: all places are taken, or the server ends.
            TooManyError: the client has half of the places.
        """
        max_streams = self.limits.live
        max_each = (max_streams + 1) // 2
        return self._hold_place(
            self._n_live, client, max_streams, max_each, "live streams"
        )

    @contextmanager
    def _hold_place(
        self, counts: Counter[str], client: str, max_all: int, max_each: int, kind: str
    ) -> Iterator[None]:
        with self.lock:
            if self.is_closed:
                raise BusyError(ENDING)
            if counts.total() >= max_all:
                raise BusyError(
                    f"all {max_all} places for {kind} are taken; try again soon"
                )
            if counts[client] >= max_each:
                raise TooManyError(
                    f"you already have {max_each} {kind} in progress; wait until one is done"
                )
            counts[client] += 1
        try:
            yield
        finally:
            with self.lock:
                counts[client] -= 1
                # A client without a place is forgotten, or names would pile up.
                if not counts[client]:
                    del counts[client]


class Reservation(Closing):
    """Bytes that one request or stream takes of a quota, given back when it is closed."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self.n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Take bytes, or give some back where `n_bytes` is negative.

        Raises:
            BusyError: the recordings of all clients leave no room for them.
        """
        quota = self._quota
        max_bytes = quota.limits.max_stored_mib << 20
        with quota.lock:
            if n_bytes > 0 and quota.n_bytes + n_bytes > max_bytes:
                raise BusyError(
                    f"{quota.n_bytes >> 20} MiB of recordings are already stored, expected "
                    f"{max_bytes >> 20} MiB at most; try again soon"
                )
            quota.n_bytes += n_bytes
        self.n_bytes += n_bytes

    def close(self) -> None:
        self.take(-self.n_bytes)
