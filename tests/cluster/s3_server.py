"""An S3 server on the loopback device that fails as real ones do: moto, behind a layer of faults.

    python -m tests.cluster.s3_server PORT SHARE SEED EXPIRED

A share of the requests for recordings gets 503, comes late, is cut off in its middle, or is refused
since the credentials have expired. While the file EXPIRED exists, all of them are refused.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
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
    """WSGI middleware; writes a line for each fault to standard error."""

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        share: float,
        seed: int,
        expired: Path,
    ) -> None:
        self._app = app
        self._share = share
        self._chance = Random(seed)
        self._expired = expired

    def __call__(
        self, environment: dict[str, Any], start: Callable[..., Any]
    ) -> Iterable[bytes]:
        is_read = environment["REQUEST_METHOD"] in {"GET", "HEAD"}
        is_recording = environment["PATH_INFO"].endswith(".ogg")
        if not (is_read and is_recording):
            return self._app(environment, start)
        fault = self._choose_fault()
        if not fault:
            return self._app(environment, start)
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

    def _choose_fault(self) -> str:
        """Return what happens to a request; nothing to most of them."""
        if self._expired.exists():
            return "expired"
        if self._chance.random() > self._share:
            return ""
        return self._chance.choice(["busy", "late", "cut", "expired"])

    @staticmethod
    def _cut(content: Iterable[bytes]) -> Iterator[bytes]:
        """Yield half of the content, which its header promises whole."""
        data = b"".join(content)
        yield data[: len(data) // 2]
        raise ConnectionResetError


def main() -> None:
    """Serve until the process is killed."""
    port, share, seed, expired = sys.argv[1:]
    app = DomainDispatcherApplication(create_backend_app)
    faults = Faults(app, float(share), int(seed), Path(expired))
    run_simple("127.0.0.1", int(port), faults, threaded=True)


if __name__ == "__main__":
    main()
