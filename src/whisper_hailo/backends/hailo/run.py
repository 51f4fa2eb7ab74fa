"""One run on its way through the chip."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Any, Final, Protocol

from whisper_hailo.core.errors import DeviceTimeoutError
from whisper_hailo.core.types import FloatArray

_GRACE_S: Final = 0.2
"""After this process itself was stopped, the callback's thread is given a moment to run, too."""

SOON_MS: Final = 1000
"""HailoRT is told to wait so long for what is the case already."""


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """Buffers of one run, bound once and used again and again.

    Attributes:
        bindings: the binding's own object for them.
        inputs: name to array, float32, C-contiguous, in the network's shapes.
        outputs: likewise; all of the network's, also those that nobody reads.
    """

    bindings: Any
    inputs: dict[str, FloatArray]
    outputs: dict[str, FloatArray]


class Runner(Protocol):
    """What a run tells its network."""

    def leave(self) -> None: ...

    def give_back(self, slot: BufferSlot) -> None:
        """The buffers can be used again."""
        ...

    def failed(self, error: BaseException) -> Exception:
        """What to raise for HailoRT's exception."""
        ...

    def silent(self) -> DeviceTimeoutError:
        """What to raise when no answer came."""
        ...


class AsyncRun:
    """A run that was handed to the chip; its buffers live as long as it may write into them.

    HailoRT's callback is what ends it, not the binding's job: waiting for that one may take twice
    the time-out. After a failure, or when nobody asks for the result, the buffers are not used
    again.

    Args:
        runner: the network.
        slot: buffers, the inputs filled.
        wanted: names of the outputs to give back.
        timeout_s: for the answer, from `begin` on.
    """

    def __init__(
        self, runner: Runner, slot: BufferSlot, wanted: tuple[str, ...], timeout_s: float
    ) -> None:
        self._runner = runner
        self._slot = slot
        self._wanted = wanted
        self._timeout_s = timeout_s
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._job: Any = None
        self._began_s: float  # of `begin`
        self._ended_s = -math.inf  # not yet

    def begin(self, configured: Any) -> None:  # noqa: ANN401 - the binding's own object
        """Hand it over; there is room in the queue.

        Raises:
            Exception: the binding's own.
        """
        self._began_s = time.monotonic()
        self._job = configured.run_async([self._slot.bindings], self._on_finished)

    @property
    def took_ms(self) -> float:
        """From handing it over to the callback, queue included; 0 before that."""
        return max(0.0, self._ended_s - self._began_s) * 1000

    def result(self) -> dict[str, FloatArray]:
        """Wait for the outputs. To be called once.

        Returns:
            name to a copy of the output, in the network's shape.

        Raises:
            DeviceTimeoutError: no answer in time.
            DeviceLostError: the chip gave up or went away.
            DeviceError: any other failure.
        """
        job, self._job = self._job, None  # which refers to this run again
        left_s = self._began_s + self._timeout_s - time.monotonic()
        if not self._finished.wait(max(0.0, left_s)) and not self._finished.wait(_GRACE_S):
            raise self._runner.silent()
        if self._error is not None:
            raise self._runner.failed(self._error) from self._error
        try:
            job.wait(SOON_MS)  # HailoRT's thread has left the callback
        except Exception as error:
            raise self._runner.failed(error) from error
        results = {name: self._slot.outputs[name].copy() for name in self._wanted}
        self._runner.give_back(self._slot)
        return results

    def _on_finished(self, completion_info: Any) -> None:  # noqa: ANN401 - HailoRT's
        """HailoRT's callback, in its own thread: short, and nothing of the binding is called."""
        self._ended_s = time.monotonic()
        self._error = completion_info.exception
        self._runner.leave()
        self._finished.set()
