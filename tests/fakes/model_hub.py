"""A model hub with one model, as far as the hub's client asks."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

COMMIT = "0123456789" * 4


def use_hub(address: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hub be at an address, with an empty cache below `home`."""
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_HOME", str(home))
    for name, value in {
        "ENDPOINT": address,
        "HUGGINGFACE_CO_URL_TEMPLATE": address
        + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)


@contextmanager
def serving(
    model: str,
    files: Mapping[str, bytes],
    pause_s: float = 0.0,
    *,
    breaks_off: bool = False,
) -> Iterator[tuple[str, list[str]]]:
    """Its address, and what is asked of it.

    Args:
        model: the only one that there is.
        files: its files.
        pause_s: after each 500 bytes of a file.
        breaks_off: 1000 bytes of a file are all that comes.
    """
    asked: list[str] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            asked.append(f"{self.command} {self.path}")
            path = self.path.partition("?")[0]
            content = b""
            is_file = False
            if path.startswith(f"/api/models/{model}"):
                siblings = [{"rfilename": name} for name in files]
                content = json.dumps(
                    {"id": model, "sha": COMMIT, "siblings": siblings}
                ).encode()
            else:
                wanted = path.partition("/resolve/")[2].partition("/")[2]
                content = files[wanted]
                is_file = True
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", "application/json")
            if is_file:
                self.send_header("ETag", f'"{_id(content)}"')
                self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if with_body:
                most = 1000 if is_file and breaks_off else len(content)
                self._send(content[:most], pause_s if is_file else 0.0)

        def _send(self, content: bytes, pause_s: float) -> None:
            for start in range(
                0, len(content), 500 if pause_s else max(len(content), 1)
            ):
                try:
                    self.wfile.write(
                        content[start : start + (500 if pause_s else len(content))]
                    )
                except OSError:  # the client went away, as it should
                    return
                if over.wait(pause_s):
                    return

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _id(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
