"""Runs of engines: what they raise becomes one line, and none goes on for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from whisper_hailo.backends.watch import WATCH
from whisper_hailo.core.errors import ModelError

if TYPE_CHECKING:
    import onnxruntime

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


class running_graph(running):  # noqa: N801 - used as a function
    """One run of ONNX Runtime, which is ended where it goes on for ever: gives its run options.

    Raises:
        ModelError: it failed, or was ended.
    """

    __slots__ = ("_number", "_options")

    def __enter__(self) -> onnxruntime.RunOptions:
        """Options that the run has to be given."""
        import onnxruntime

        self._options = onnxruntime.RunOptions()
        self._number = WATCH.begin(self._stop)
        return self._options

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if WATCH.end(self._number) and isinstance(error, Exception):
            raise took_too_long(self._name, self._advice) from error
        super().__exit__(kind, error, trace)

    def _stop(self) -> None:
        self._options.terminate = True


def took_too_long(name: str, advice: str) -> ModelError:
    """What is said of a graph that was ended."""
    return ModelError(
        f"{name} was ended after {WATCH.limit_s:g} s: it is broken, or far too large for this "
        f"machine; {advice}"
    )


def reason_of(error: BaseException) -> str:
    """What the runtime said, in one line: its beginning, and its end, which holds the reason."""
    text = " ".join(str(error).split())
    if len(text) <= _REASON_HEAD + _REASON_TAIL:
        return text
    return f"{text[:_REASON_HEAD]} ... {text[-_REASON_TAIL:]}"
