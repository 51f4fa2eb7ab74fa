"""One network on the chip: configured once, run by as many streams as there are."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from whisper_hailo.backends.hailo.faults import Faults
from whisper_hailo.backends.hailo.options import ChipOptions
from whisper_hailo.backends.hef.read import HefFile
from whisper_hailo.core.errors import DeviceLostError, DeviceTimeoutError
from whisper_hailo.core.types import FloatArray

_READY_MS = 1000


@dataclass(frozen=True, slots=True)
class Slot:
    """Buffers of one run, bound once and used again and again.

    Attributes:
        bindings: the binding's own object for them.
        inputs: name to array, float32, C-contiguous, in the network's shapes.
        outputs: likewise; all of the network's, also those that nobody reads.
    """

    bindings: Any
    inputs: dict[str, FloatArray]
    outputs: dict[str, FloatArray]


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


class Network:
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
        self._room = threading.Condition()
        self._in_flight = 0
        self._free: list[Slot] = []
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
        except BaseException:
            self.close()  # it must not outlive the device
            raise

    def run(self, inputs: dict[str, FloatArray], wanted: tuple[str, ...]) -> dict[str, FloatArray]:
        """Run once; several threads may, each with buffers of its own.

        Args:
            inputs: name to float32 array with as many elements as the network's input has.
            wanted: names of the outputs to give back.

        Returns:
            name to a copy of the output, in the network's shape.

        Raises:
            DeviceTimeoutError: no answer within the options' time.
            DeviceLostError: the chip gave up or went away.
            DeviceError: any other failure.
        """
        self._enter()
        # After a failure the chip may still write into its buffers: only good ones are used again,
        # and their place in the queue stays taken.
        slot = self._take()
        for name, array in inputs.items():
            slot.inputs[name][...] = array.reshape(slot.inputs[name].shape)
        self._execute(slot)
        results = {name: slot.outputs[name].copy() for name in wanted}
        with self._room:
            self._free.append(slot)
            self._in_flight -= 1
            self._room.notify()
        return results

    def close(self) -> None:
        """Take the network off the chip."""
        with self._room:
            self._free.clear()
            configured, self._configured = self._configured, None
            self._room.notify_all()
        if configured is not None:
            with contextlib.suppress(Exception):  # it may have failed already
                configured.shutdown()
            configured.__exit__(None, None, None)
        self._model = None

    def _enter(self) -> None:
        """Wait for a place in the chip's queue.

        Raises:
            DeviceTimeoutError: there was none in time.
        """
        with self._room:
            free = self._room.wait_for(
                lambda: self._configured is None or self._in_flight < self._queue_size,
                self._options.timeout_s,
            )
            if not free:
                raise DeviceTimeoutError(
                    f"the Hailo chip took no more work for {self._options.timeout_s:g} s; it is "
                    "overloaded or hangs: see whisper-hailo doctor"
                )
            self._in_flight += 1

    def _still(self) -> Any:  # noqa: ANN401
        """The configured model; called with the lock held, so that it does not end meanwhile.

        Raises:
            DeviceLostError: another stream found the chip gone and gave it up.
        """
        if self._configured is None:
            raise DeviceLostError(
                f"the Hailo chip was given up while running {self._hef.path.name}"
            )
        return self._configured

    def _take(self) -> Slot:
        with self._room, self._faults.during("binding buffers", self._hef, running=True):
            configured = self._still()
            if self._free:
                return self._free.pop()
            arrays = {name: np.zeros(shape, np.float32) for name, shape in self._shapes.items()}
            slot = Slot(
                bindings=configured.create_bindings(),
                inputs={name: arrays[name] for name in self._inputs},
                outputs={name: arrays[name] for name in self._shapes if name not in self._inputs},
            )
            for name, array in slot.inputs.items():
                slot.bindings.input(name).set_buffer(array)
            for name, array in slot.outputs.items():
                slot.bindings.output(name).set_buffer(array)
            return slot

    def _execute(self, slot: Slot) -> None:
        """Hand the buffers to the chip and wait for its callback.

        The callback is waited for, not the binding's job: that one may take twice the time-out,
        and an interrupt gets through only here.
        """
        what = f"running {self._hef.path.name}"
        finished = threading.Event()
        failures: list[BaseException] = []

        def on_finished(completion_info: Any) -> None:  # noqa: ANN401 - the binding's own class
            if completion_info.exception is not None:
                failures.append(completion_info.exception)
            finished.set()

        with self._room, self._faults.during(what, self._hef, running=True):
            configured = self._still()
            configured.wait_for_async_ready(timeout_ms=_READY_MS)  # there is room: we count
            configured.run_async([slot.bindings], on_finished)
        if not finished.wait(self._options.timeout_s):
            raise DeviceTimeoutError(
                f"the Hailo chip did not answer within {self._options.timeout_s:g} s while {what}; "
                "it is overloaded, too hot or hangs: see whisper-hailo doctor"
            )
        if failures:
            error = failures[0]
            raise self._faults.translated(error, what, self._hef, running=True) from error
