"""Local servers: one of files, as publishers of HEFs have, and one that says nothing."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Server:
    """What is behind each path; every request is counted."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    says_length: bool = True
    asked: list[str] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            if state.says_length:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(
                content[: len(content) // 2] if self.path in state.cut else content
            )

        def log_message(self, *_: Any) -> None:
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    state.address = f"http://127.0.0.1:{httpd.server_port}/"
    try:
        yield state
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@contextmanager
def silent() -> Iterator[str]:
    """Its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
