"""Runs of engines: what they raise becomes one line."""

from __future__ import annotations

from typing import Final

from whisper_hailo.core.errors import ModelError

CONVERT_AGAIN: Final = "convert the checkpoint again"
EXPORT_AGAIN: Final = "export the checkpoint again"
"""Advice for graphs of ours and for those of other programs."""

_REASON_HEAD: Final = 60
_REASON_TAIL: Final = 135
"""Characters kept of a long reason: which error it is, and what it comes to. Between them stand the
types of all inputs of a node."""


class running:  # noqa: N801 - used as a function
    """One run of an engine: what it raises there is an error in one line.

    A class, since a generator takes three times as long around every pass (0.7 instead of 0.2 µs).

    Raises:
        ModelError: it failed, so the model is not what it was taken for.
    """

    __slots__ = ("_advice", "_name")

    def __init__(self, name: str, advice: str = CONVERT_AGAIN) -> None:
        self._name = name
        self._advice = advice

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Turn what the engine raised, which has a dozen unrelated exception classes."""
        if isinstance(error, Exception):
            raise ModelError(f"{self._name} failed ({reason_of(error)}); {self._advice}") from error


def reason_of(error: BaseException) -> str:
    """What the runtime said, in one line: its beginning, and its end, which holds the reason."""
    text = " ".join(str(error).split())
    if len(text) <= _REASON_HEAD + _REASON_TAIL:
        return text
    return f"{text[:_REASON_HEAD]} ... {text[-_REASON_TAIL:]}"
