"""A web server that sends a byte now and then, which no time-out ever sees."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PAUSE_S = 0.02
N_DRIPS = 1500
"""Half a minute: then it gives up, so that a client without a limit fails instead of hanging."""

HEADS = {
    "headers": b"HTTP/1.1 200 OK\r\nX-Drip: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n",
}


@contextmanager
def dripping(where: str) -> Iterator[str]:
    """Its address; `where` it drips, `headers` or `body`."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, HEADS[where], over), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, head: bytes, over: threading.Event) -> None:
    while not over.is_set():
        try:
            client, _ = server.accept()
        except OSError:  # closed
            return
        threading.Thread(target=_drip, args=(client, head, over), daemon=True).start()


def _drip(client: socket.socket, head: bytes, over: threading.Event) -> None:
    with client:
        try:
            client.recv(65536)
            client.sendall(head)
            for _ in range(N_DRIPS):
                client.sendall(b"x")
                if over.wait(PAUSE_S):
                    return
        except OSError:  # the client went away, as it should
            return
