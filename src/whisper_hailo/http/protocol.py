"""HTTP as the page speaks it: uvicorn's, but for requests that turn out to be none.

Loaded only where uvicorn is.
"""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

_BAD: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class PageProtocol(H11Protocol):
    """Refuses a request once, also when what is wrong with it comes behind its head.

    By then it is being answered: uvicorn's refusal, or that answer, would be one too many, which is
    an error in the task or in the connection.
    """

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; an answer that has begun is cut instead."""
        del msg  # which is uvicorn's, and always the same
        cycle, has_begun = self.cycle, False
        if cycle is not None:
            has_begun = cycle.response_started and not cycle.response_complete
            cycle.disconnected = True  # it is told so, and what it sends goes nowhere
            cycle.message_event.set()
        if not has_begun:
            self.transport.write(_BAD)
        self.transport.close()
