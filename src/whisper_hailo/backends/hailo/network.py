"""One network on the chip: configured once, run by as many streams as there are."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from whisper_hailo.backends.hailo.faults import Faults
from whisper_hailo.backends.hailo.options import ChipOptions
from whisper_hailo.backends.hailo.run import SOON_MS, AsyncRun, BufferSlot
from whisper_hailo.backends.hef.read import HefFile
from whisper_hailo.core.errors import DeviceLostError, DeviceTimeoutError
from whisper_hailo.core.names import shown
from whisper_hailo.core.types import FloatArray

_DRAIN_S = 1.0
"""How long runs that nobody waits for any more may take to end before the network is taken off."""


@dataclass(frozen=True, slots=True)
class OpenDevice:
    """A device that networks can be put on.

    Attributes:
        binding: the vendor's package.
        vdevice: its own object.
        faults: makes the binding's failures ours.
    """

    binding: Any
    vdevice: Any
    faults: Faults


class ConfiguredNetwork:
    """A configured network. Closed before its device, by whoever made it.

    Args:
        device: what it is configured on.
        source: the file, and which of its networks.
        options: time-outs and priority.

    Raises:
        WrongChipError, HefError, DeviceError: it cannot be loaded.
    """

    def __init__(
        self, device: OpenDevice, source: tuple[HefFile, str], options: ChipOptions
    ) -> None:
        hef, group = source
        binding, vdevice, faults = device.binding, device.vdevice, device.faults
        self._hef = hef
        self._faults = faults
        self._options = options
        self._hangs = False
        self._lock = threading.RLock()
        self._free: list[BufferSlot] = []
        # One place for each run that HailoRT takes before its queue is full. Callbacks give them
        # back and must never wait, least of all for a lock that is held while HailoRT is called.
        self._places = threading.Semaphore(0)
        self._queue_size = 0
        # Only files with several networks need a name; older bindings do not take one.
        named = {"name": group} if len(hef.groups) > 1 else {}
        with faults.during(f"loading {hef.path}", hef):
            self._model: Any = vdevice.create_infer_model(str(hef.path), **named)
            streams = [*self._model.inputs, *self._model.outputs]
            for stream in streams:
                stream.set_format_type(binding.FormatType.FLOAT32)
            self._shapes = {stream.name: tuple(stream.shape) for stream in streams}
            self._inputs = [stream.name for stream in self._model.inputs]
            self._configured: Any = self._model.configure()
        try:
            with faults.during(f"setting up {hef.path}", hef):
                self._configured.set_scheduler_priority(int(options.priority))
                self._queue_size = max(1, int(self._configured.get_async_queue_size()))
            self._places.release(self._queue_size)
        except BaseException:
            self.close()  # it must not outlive the device
            raise

    def run(self, inputs: dict[str, FloatArray], wanted: tuple[str, ...]) -> dict[str, FloatArray]:
        """Run once and wait; see `run_async` and `AsyncRun.result`."""
        return self.run_async(inputs, wanted).result()

    def run_async(self, inputs: dict[str, FloatArray], wanted: tuple[str, ...]) -> AsyncRun:
        """Hand one run to the chip and come back; several threads may, each with its own buffers.

        Args:
            inputs: name to float32 array with as many elements as the network's input has; they
                are copied.
            wanted: names of the outputs to give back.

        Returns:
            the run, whose `result` waits for the outputs.

        Raises:
            DeviceTimeoutError: the queue stayed full for the options' time.
            DeviceLostError: the chip gave up or went away.
            DeviceError: it did not take the run.
        """
        self._enter()
        handed_over = False
        try:
            slot = self._take()
            for name, array in inputs.items():
                slot.inputs[name][...] = array.reshape(slot.inputs[name].shape)
            run = AsyncRun(self, slot, wanted, self._options.timeout_s)
            with self._lock, self._faults.during(self._what, self._hef, running=True):
                configured = self._still()
                configured.wait_for_async_ready(timeout_ms=SOON_MS)  # there is room: we count
                run.begin(configured)
            handed_over = True
            return run
        finally:
            if not handed_over:
                self._places.release()

    def leave(self) -> None:
        """A run's callback came: its place in the queue is free. Called in HailoRT's thread."""
        self._places.release()

    def give_back(self, slot: BufferSlot) -> None:
        """Buffers of a run that went well, to be used again."""
        Faults.has_run = True
        with self._lock:
            if self._configured is not None:
                self._free.append(slot)

    def failed(self, error: BaseException) -> Exception:
        """A run's failure as one of ours."""
        return self._faults.translated(error, self._what, self._hef, running=True)

    def silent(self) -> DeviceTimeoutError:
        """A run's time is over. Nobody waits for its callback when the network is closed."""
        self._hangs = True
        return DeviceTimeoutError(
            f"the Hailo chip did not answer within {self._options.timeout_s:g} s while "
            f"{self._what}; it is overloaded, too hot or hangs: see whisper-hailo doctor"
        )

    def close(self) -> None:
        """Take the network off the chip; runs under way end first, if they do so soon."""
        with self._lock:
            self._free.clear()
            configured, self._configured = self._configured, None
        if configured is not None:
            self._drain()
            with contextlib.suppress(Exception):  # it may have failed already
                configured.shutdown()
            configured.__exit__(None, None, None)
        self._model = None

    def _drain(self) -> None:
        """Wait for callbacks: HailoRT's `shutdown` keeps Python's lock, which they need, too."""
        until_s = time.monotonic() + (0.0 if self._hangs else _DRAIN_S)
        for _ in range(self._queue_size):
            self._places.acquire(timeout=max(0.0, until_s - time.monotonic()))
        for _ in range(self._queue_size):
            self._places.release()  # whoever waited for a place sees that it is over

    @property
    def _what(self) -> str:
        return f"running {self._hef.path.name}"

    def _enter(self) -> None:
        """Wait for a place in the chip's queue.

        Raises:
            DeviceTimeoutError: there was none in time.
        """
        if not self._places.acquire(timeout=self._options.timeout_s):
            raise DeviceTimeoutError(
                f"the Hailo chip took no more work for {self._options.timeout_s:g} s; it is "
                "overloaded or hangs: see whisper-hailo doctor"
            )

    def _still(self) -> Any:  # noqa: ANN401
        """The configured model; called with the lock held, so that it does not end meanwhile.

        Raises:
            DeviceLostError: another stream found the chip gone and gave it up.
        """
        if self._configured is None:
            raise DeviceLostError(
                f"the Hailo chip was given up while running {shown(self._hef.path.name)}"
            )
        return self._configured

    def _take(self) -> BufferSlot:
        with self._lock, self._faults.during("binding buffers", self._hef, running=True):
            configured = self._still()
            if self._free:
                return self._free.pop()
            arrays = {name: np.zeros(shape, np.float32) for name, shape in self._shapes.items()}
            slot = BufferSlot(
                bindings=configured.create_bindings(),
                inputs={name: arrays[name] for name in self._inputs},
                outputs={name: arrays[name] for name in self._shapes if name not in self._inputs},
            )
            for name, array in slot.inputs.items():
                slot.bindings.input(name).set_buffer(array)
            for name, array in slot.outputs.items():
                slot.bindings.output(name).set_buffer(array)
            return slot
