"""One network on the chip: configured once, run by as many streams as there are."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
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
"""HailoRT's time-out for waits that are over already."""


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """Float32 buffers of one run, in the network's shapes; bound once, used again and again."""

    bindings: Any
    inputs: dict[str, FloatArray]
    outputs: dict[str, FloatArray]


class AsyncRun:
    """A run that was handed to the chip; its buffers live as long as the chip may write into them.

    HailoRT's callback ends it, not the binding's job: waiting for the job may take twice the
    time-out. The buffers are used again only after a result.
    """

    def __init__(
        self,
        network: ConfiguredNetwork,
        configured: Any,  # noqa: ANN401 - the binding's own object
        slot: BufferSlot,
        outputs: tuple[str, ...],
        timeout_s: float,
    ) -> None:
        self._network = network
        self._slot = slot
        self._outputs = outputs
        self._timeout_s = timeout_s
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._ended_s = -math.inf  # not yet
        self._began_s = time.monotonic()
        self._job: Any = None
        network.runs.add(self)  # before its callback can come
        self._job = configured.run_async([slot.bindings], self._on_finished)

    @property
    def took_ms(self) -> float:
        """Time from the hand-over to the callback, queue included; 0 before that."""
        return max(0.0, self._ended_s - self._began_s) * 1000

    def result(self) -> dict[str, FloatArray]:
        """Wait for copies of the outputs by name. To be called once.

        Raises:
            DeviceTimeoutError: the chip does not answer in time.
            DeviceError: the run failed.
        """
        self._wait()
        try:
            with self._network.guarded():
                if self._error is not None:
                    self.leave_callback()
                    raise self._error
                self._job.wait(SOON_MS)  # as in `leave_callback`
        finally:
            # The job refers to this run: a cycle would keep the buffers. A run without an answer
            # keeps it until the network is closed, since its callback may still come.
            self._job = None
        results = {name: self._slot.outputs[name].copy() for name in self._outputs}
        self._network.give_back(self._slot)
        return results

    def leave_callback(self) -> None:
        """Wait until HailoRT's thread has left the callback of this run.

        The thread needs Python's lock to leave. `shutdown` keeps the lock and waits for the thread:
        called in between, the two would wait for each other. Waiting for the job keeps no lock.
        """
        job = self._job
        # A run that the chip never answers has no callback to leave.
        if job is not None and self._finished.is_set():
            # An error is that of the run itself, which `result` raises.
            with contextlib.suppress(Exception):
                job.wait(SOON_MS)

    def _wait(self) -> None:
        """Wait for the callback, from the hand-over for as long as one run may take."""
        until_s = self._began_s + self._timeout_s
        if self._finished.wait(max(0.0, until_s - time.monotonic())):
            return
        if self._finished.wait(_GRACE_S):
            return
        raise DeviceTimeoutError(
            f"the Hailo chip did not answer within {self._timeout_s:g} s while "
            f"{self._network.action}; it is overloaded, too hot or hangs: see doctor"
        )

    def _on_finished(self, completion_info: Any) -> None:  # noqa: ANN401 - HailoRT's
        """Note the end of the run: HailoRT's callback, in its own thread.

        It is short, and calls nothing of the binding.
        """
        self._ended_s = time.monotonic()
        self._error = completion_info.exception
        self._finished.set()  # before the place is free, as `_drain` asks for it
        self._network.places.release()  # one in the queue


_DRAIN_S = 1.0
"""Longest wait for abandoned runs before the network is released."""


class ConfiguredNetwork:
    """A configured network of a file, on the binding's open device, which it must not outlive.

    Attributes:
        action: what it does, for messages.
        free_slots: buffers that no run uses.
        places: free places of HailoRT's queue, so that a run never meets a full one.
        runs: that somebody still holds, read or not.
    """

    def __init__(
        self,
        vdevice: Any,  # noqa: ANN401
        faults: Faults,
        source: tuple[HefFile, str],
        options: ChipOptions,
    ) -> None:
        hef, group = source
        self._hef = hef
        self.action = f"running {hef.path.name}"
        self._faults = faults
        self._options = options
        self._lock = threading.RLock()
        self.free_slots: list[BufferSlot] = []
        self.runs: weakref.WeakSet[AsyncRun] = weakref.WeakSet()
        # Callbacks give places back and must never wait, least of all for a lock that is held while
        # HailoRT is called: so a semaphore counts them, without a lock of ours.
        self.places = threading.Semaphore(0)
        self._queue_size = 0
        # Only files with several networks need a name; older bindings do not take one.
        name = {"name": group} if len(hef.groups) > 1 else {}
        with faults.during(f"loading {hef.path}", hef):
            self.infer_model: Any = vdevice.create_infer_model(str(hef.path), **name)
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

    def run_async(
        self, inputs: dict[str, FloatArray], outputs: tuple[str, ...]
    ) -> AsyncRun:
        """Hand one run to the chip and return; several threads may, each with its own buffers.

        Each float32 input has as many elements as the network's; inputs are copied. `outputs` are
        the names of those that the result is to have.

        Raises:
            DeviceTimeoutError: the chip's queue stays full.
        """
        if not self.places.acquire(timeout=self._options.timeout_s):
            raise DeviceTimeoutError(
                f"the Hailo chip accepted no more work for {self._options.timeout_s:g} s; it is "
                "overloaded or hangs: see whisper-hailo doctor"
            )
        try:
            slot = self._take_slot()
            for name, array in inputs.items():
                buffer = slot.inputs[name]
                buffer[...] = array.reshape(buffer.shape)
            with self._lock, self.guarded():
                configured = self._require_configured()
                # Comes back at once: `places` counts the runs in HailoRT's queue.
                configured.wait_for_async_ready(timeout_ms=SOON_MS)
                return AsyncRun(
                    self, configured, slot, outputs, self._options.timeout_s
                )
        except BaseException:
            self.places.release()
            raise

    def guarded(self) -> AbstractContextManager[None]:
        """Turn the binding's exceptions while it runs the network into our errors."""
        return self._faults.during(self.action, self._hef, running=True)

    def give_back(self, slot: BufferSlot) -> None:
        """Take the buffers of a run that went well, to be used again."""
        Faults.has_run = True
        with self._lock:
            if self.configured is not None:
                self.free_slots.append(slot)

    def close(self) -> None:
        """Take the network off the chip; runs under way end first, if they do so soon."""
        with self._lock:
            self.free_slots.clear()
            configured = self.configured
            self.configured = None
        if configured is not None:
            self._drain()
            with contextlib.suppress(Exception):  # it may have failed already
                configured.shutdown()
            configured.__exit__(None, None, None)
        self.infer_model = None

    def _drain(self) -> None:
        """Wait for callbacks: HailoRT's `shutdown` holds Python's lock, which they need, too."""
        until_s = time.monotonic() + _DRAIN_S
        for _ in range(self._queue_size):
            self.places.acquire(timeout=max(0.0, until_s - time.monotonic()))
        # A callback gives its place back before HailoRT's thread has left it.
        for run in list(self.runs):
            run.leave_callback()
        for _ in range(self._queue_size):
            self.places.release()  # so that waiting threads see the network is gone

    def _require_configured(self) -> Any:  # noqa: ANN401
        """Return the configured model; the caller holds the lock, so that it stays."""
        if self.configured is None:
            raise DeviceLostError(f"the Hailo chip was abandoned while {self.action}")
        return self.configured

    def _take_slot(self) -> BufferSlot:
        """Return buffers that no run uses, with their bindings."""
        with self._lock, self.guarded():
            configured = self._require_configured()
            if self.free_slots:
                return self.free_slots.pop()
            bindings = configured.create_bindings()
            inputs: dict[str, FloatArray] = {}
            outputs: dict[str, FloatArray] = {}
            for name, shape in self.shapes.items():
                array = np.zeros(shape, np.float32)
                if name in self.input_names:
                    inputs[name] = array
                    bindings.input(name).set_buffer(array)
                else:
                    outputs[name] = array
                    bindings.output(name).set_buffer(array)
            return BufferSlot(bindings, inputs, outputs)
