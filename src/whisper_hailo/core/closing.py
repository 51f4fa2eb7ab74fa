"""`with` for everything that is opened and closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """A `with` block opens and closes; each class says how."""

    def open(self) -> Self:
        """Acquire what is needed; by default nothing."""
        return self

    def close(self) -> None:
        """Give it back; harmless when there is nothing to give."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
