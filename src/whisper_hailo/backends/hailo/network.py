"""One network on the chip: configured once, run by as many streams as there are."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo.backends.hailo.faults import Faults
from whisper_hailo.backends.hailo.hef_file import HefFile
from whisper_hailo.backends.options import ChipOptions
from whisper_hailo.core.errors import DeviceLostError, DeviceTimeoutError
from whisper_hailo.core.types import FloatArray

_GRACE_S: Final = 0.2
"""After this process itself was stopped, the callback's thread is given a moment to run, too."""

SOON_MS: Final = 1000
"""Time-out of HailoRT for what is already so."""


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """Float32 buffers of one run, in the network's shapes; bound once, used again and again."""

    bindings: Any
    inputs: dict[str, FloatArray]
    outputs: dict[str, FloatArray]


class AsyncRun:
    """A run that was handed to the chip; its buffers live as long as it may write into them.

    HailoRT's callback is what ends it, not the binding's job: waiting for that one may take twice
    the time-out. The buffers are used again only after a result.
    """

    def __init__(
        self,
        network: ConfiguredNetwork,
        configured: Any,  # noqa: ANN401 - the binding's own object
        slot: BufferSlot,
        wanted: tuple[str, ...],
        timeout_s: float,
    ) -> None:
        self._network, self._slot = network, slot
        self._wanted, self._timeout_s = wanted, timeout_s
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._ended_s = -math.inf  # not yet
        self._began_s = time.monotonic()
        self._job: Any = configured.run_async([slot.bindings], self._on_finished)

    @property
    def took_ms(self) -> float:
        """From handing it over to the callback, queue included; 0 before that."""
        return max(0.0, self._ended_s - self._began_s) * 1000

    def result(self) -> dict[str, FloatArray]:
        """Wait for copies of the outputs by name. To be called once."""
        job, self._job = self._job, None  # which refers to this run again
        left_s = self._began_s + self._timeout_s - time.monotonic()
        if not self._finished.wait(max(0.0, left_s)) and not self._finished.wait(_GRACE_S):
            raise DeviceTimeoutError(
                f"the Hailo chip did not answer within {self._timeout_s:g} s while "
                f"{self._network.what}; it is overloaded, too hot or hangs: see doctor"
            )
        with self._network.guarded():
            if self._error is not None:
                raise self._error
            job.wait(SOON_MS)  # HailoRT's thread has left the callback
        results = {name: self._slot.outputs[name].copy() for name in self._wanted}
        self._network.give_back(self._slot)
        return results

    def _on_finished(self, completion_info: Any) -> None:  # noqa: ANN401 - HailoRT's
        """HailoRT's callback, in its own thread: short, and nothing of the binding is called."""
        self._ended_s = time.monotonic()
        self._error = completion_info.exception
        self._network.places.release()  # in the queue
        self._finished.set()


_DRAIN_S = 1.0
"""How long abandoned runs may take to end before the network is released."""


class ConfiguredNetwork:
    """A configured network of a file, on the binding's open device, which it must not outlive."""

    def __init__(
        self,
        vdevice: Any,  # noqa: ANN401
        faults: Faults,
        source: tuple[HefFile, str],
        options: ChipOptions,
    ) -> None:
        hef, group = source
        self._hef = hef
        self.what = f"running {hef.path.name}"
        self._faults = faults
        self._options = options
        self._lock = threading.RLock()
        self.free_slots: list[BufferSlot] = []
        # One place for each run that HailoRT takes before its queue is full. Callbacks give them
        # back and must never wait, least of all for a lock that is held while HailoRT is called.
        self.places = threading.Semaphore(0)
        self._queue_size = 0
        # Only files with several networks need a name; older bindings do not take one.
        named = {"name": group} if len(hef.groups) > 1 else {}
        with faults.during(f"loading {hef.path}", hef):
            self.infer_model: Any = vdevice.create_infer_model(str(hef.path), **named)
            streams = [*self.infer_model.inputs, *self.infer_model.outputs]
            for stream in streams:
                stream.set_format_type(faults.binding.FormatType.FLOAT32)
            self.shapes = {stream.name: tuple(stream.shape) for stream in streams}
            self.input_names = [stream.name for stream in self.infer_model.inputs]
            self.configured: Any = self.infer_model.configure()
        try:
            with faults.during(f"setting up {hef.path}", hef):
                self.configured.set_scheduler_priority(int(options.priority))
                self._queue_size = max(1, int(self.configured.get_async_queue_size()))
            self.places.release(self._queue_size)
        except BaseException:
            self.close()  # it must not outlive the device
            raise

    def run_async(self, inputs: dict[str, FloatArray], wanted: tuple[str, ...]) -> AsyncRun:
        """Hand one run to the chip and come back; several threads may, each with its own buffers.

        Each float32 input has as many elements as the network's; inputs are copied.
        """
        if not self.places.acquire(timeout=self._options.timeout_s):
            raise DeviceTimeoutError(
                f"the Hailo chip took no more work for {self._options.timeout_s:g} s; it is "
                "overloaded or hangs: see whisper-hailo doctor"
            )
        try:
            slot = self._take()
            for name, array in inputs.items():
                slot.inputs[name][...] = array.reshape(slot.inputs[name].shape)
            with self._lock, self.guarded():
                configured = self._still()
                configured.wait_for_async_ready(timeout_ms=SOON_MS)  # there is room: we count
                return AsyncRun(self, configured, slot, wanted, self._options.timeout_s)
        except BaseException:
            self.places.release()
            raise

    def guarded(self) -> AbstractContextManager[None]:
        """Turn what the binding raises while it runs the network into errors of ours."""
        return self._faults.during(self.what, self._hef, running=True)

    def give_back(self, slot: BufferSlot) -> None:
        """Buffers of a run that went well, to be used again."""
        Faults.has_run = True
        with self._lock:
            if self.configured is not None:
                self.free_slots.append(slot)

    def close(self) -> None:
        """Take the network off the chip; runs under way end first, if they do so soon."""
        with self._lock:
            self.free_slots.clear()
            configured, self.configured = self.configured, None
        if configured is not None:
            self._drain()
            with contextlib.suppress(Exception):  # it may have failed already
                configured.shutdown()
            configured.__exit__(None, None, None)
        self.infer_model = None

    def _drain(self) -> None:
        """Wait for callbacks: HailoRT's `shutdown` keeps Python's lock, which they need, too."""
        until_s = time.monotonic() + _DRAIN_S
        for _ in range(self._queue_size):
            self.places.acquire(timeout=max(0.0, until_s - time.monotonic()))
        for _ in range(self._queue_size):
            self.places.release()  # waiting threads see that it is over

    def _still(self) -> Any:  # noqa: ANN401
        """Return the configured model; the lock is held, so that it does not end meanwhile."""
        if self.configured is None:
            raise DeviceLostError(f"the Hailo chip was given up while {self.what}")
        return self.configured

    def _take(self) -> BufferSlot:
        with self._lock, self.guarded():
            configured = self._still()
            if self.free_slots:
                return self.free_slots.pop()
            arrays = {name: np.zeros(shape, np.float32) for name, shape in self.shapes.items()}
            inputs = {name: arrays.pop(name) for name in self.input_names}
            slot = BufferSlot(configured.create_bindings(), inputs, outputs=arrays)
            for name, array in slot.inputs.items():
                slot.bindings.input(name).set_buffer(array)
            for name, array in slot.outputs.items():
                slot.bindings.output(name).set_buffer(array)
            return slot
