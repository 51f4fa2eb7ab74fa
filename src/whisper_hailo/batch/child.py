"""A process of our own that does one thing after the other, and may die of it."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

_PATIENCE_S: Final = 5.0

Target = Callable[..., None]
"""Takes its end of the pipe, and what `Child` was given; ends when the pipe does."""


class Child:
    """A process, and a pipe to it. It ends when this one does, however that happens."""

    def __init__(self, target: Target, *args: object) -> None:
        # Nothing of this process is shared: sessions of the runtime do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_begin, args=(target, theirs, *args), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, message: object) -> None:
        """Hand it something.

        Raises:
            EOFError: it died.
        """
        try:
            self.pipe.send(message)
        except OSError as error:
            raise EOFError from error

    def receive(self) -> Any:  # noqa: ANN401 - whatever its target sends
        """Wait for something.

        Raises:
            EOFError: it died.
            Exception: its target did.
        """
        try:
            message = self.pipe.recv()
        except OSError as error:
            raise EOFError from error
        if isinstance(message, Exception):
            raise message
        return message

    @property
    def died_of(self) -> str:
        """The signal, such as `SIGKILL`, or the exit code that it ended with."""
        self._process.join(_PATIENCE_S)
        code = self._process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def end(self) -> None:
        """Have it end, at once."""
        self.pipe.close()
        self._process.kill()
        self._process.join(_PATIENCE_S)


def _begin(target: Target, pipe: Connection, *args: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is its parent's affair
    try:
        target(pipe, *args)
    except EOFError:
        return
    except Exception as error:  # its parent tells it
        with suppress(OSError):
            pipe.send(error)
