"""An S3 server on the loopback device that fails as real ones do: moto, behind a layer of faults.

    python -m tests.cluster.s3_server PORT SHARE SEED

A share of the requests for recordings gets 503, comes late, is cut off in its middle, or is refused
since the credentials have expired.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

EXPIRED = (
    b"<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"
)
BUSY = (
    b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
)


class Faults:
    """WSGI middleware; writes how often it did what to standard error at the end of each fault."""

    def __init__(
        self, app: Callable[..., Iterable[bytes]], share: float, seed: int
    ) -> None:
        self._app = app
        self._share = share
        self._chance = Random(seed)

    def __call__(
        self, environment: dict[str, Any], start: Callable[..., Any]
    ) -> Iterable[bytes]:
        is_read = environment["REQUEST_METHOD"] in {"GET", "HEAD"}
        is_recording = environment["PATH_INFO"].endswith(".ogg")
        if not (is_read and is_recording) or self._chance.random() > self._share:
            return self._app(environment, start)
        fault = self._chance.choice(["busy", "late", "cut", "expired"])
        os.write(2, f"fault {fault}\n".encode())
        if fault == "busy":
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [BUSY]
        if fault == "expired":
            start("400 Bad Request", [("Content-Type", "application/xml")])
            return [EXPIRED]
        if fault == "late":
            time.sleep(1.0)
            return self._app(environment, start)
        return self._cut(self._app(environment, start))

    @staticmethod
    def _cut(content: Iterable[bytes]) -> Iterator[bytes]:
        """Yield half of the content, which its header promises whole."""
        data = b"".join(content)
        yield data[: len(data) // 2]
        raise ConnectionResetError


def main() -> None:
    """Serve until the process is killed."""
    port, share, seed = sys.argv[1:]
    app = DomainDispatcherApplication(create_backend_app)
    faults = Faults(app, float(share), int(seed))
    run_simple("127.0.0.1", int(port), faults, threaded=True)


if __name__ == "__main__":
    main()
