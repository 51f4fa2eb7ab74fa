"""Networks: `InferModel`, its configured form, bindings and jobs; numbers by ONNX Runtime."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
from layer_facts import (
    FACTS,
    LATER,
    NUMBERS,
    FormatOrder,
    FormatType,
    HailoRTStatusException,
    at,
    hang,
    status,
    typed,
)

_QUEUE = 4
_LEAVE_S = 0.02
"""From the end of a callback until HailoRT's thread has left it, which needs Python's lock."""

_BYTES = {0: 1, 1: 1, 2: 2, 3: 4}
_TAKES = {
    "hailo8": {"hailo8", "hailo8l"},
    "hailo8l": {"hailo8l"},
    "hailo10h": {"hailo10h", "hailo15h", "hailo15m"},
}


def _named(streams: dict[str, Any], name: str) -> Any:
    if name not in streams:
        raise status("HAILO_NOT_FOUND")
    return streams[name]


class _Stream:
    def __init__(self, name: str, shape: list[int]) -> None:
        self._name = name
        self._shape = shape
        self._type = FormatType.AUTO

    def name(self) -> str:
        return self._name

    def shape(self) -> list[int]:
        return list(self._shape)

    def format(self) -> Any:
        return SimpleNamespace(order=FormatOrder.NHWC, type=self._type, flags=0)

    def is_nms(self) -> bool:
        return False

    def set_format_type(self, kind: Any) -> None:
        self._type = typed(kind, FormatType)

    def frame(self) -> int:
        return int(np.prod(self._shape)) * _BYTES[self._type]


class InferModel:
    def __init__(self, arch: str, facts: dict[str, Any], graph: bytes) -> None:
        self.facts = facts
        self.graph = graph
        self._arch = arch
        self._inputs = {
            name: _Stream(name, one["shape"]) for name, one in facts["inputs"].items()
        }
        self._outputs = {
            name: _Stream(name, one["shape"]) for name, one in facts["outputs"].items()
        }

    def get_input_names(self) -> list[str]:
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        return list(self._outputs)

    def inputs(self) -> list[_Stream]:
        return list(self._inputs.values())

    def outputs(self) -> list[_Stream]:
        return list(self._outputs.values())

    def input(self, name: str) -> Any:
        return _named(self._inputs, name)

    def output(self, name: str) -> Any:
        return _named(self._outputs, name)

    def configure(self) -> ConfiguredInferModel:
        at("configure")
        if self._arch not in _TAKES[FACTS["chip"]]:
            later = "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE"
            raise status(later if later in NUMBERS else "HAILO_INVALID_HEF")
        return ConfiguredInferModel(self)


class _Bound:
    array: Any = None
    size = -1

    def __init__(self, frame: int) -> None:
        self.frame = frame

    def set_buffer(self, array: Any) -> None:
        if not typed(array, np.ndarray).flags.writeable:
            raise ValueError("array is not writeable")
        blind = FACTS["pybind"] != "new" and not LATER and np.__version__ >= "2"
        self.array = array
        self.size = 0 if blind else array.nbytes

    def copy(self) -> _Bound:
        """At hand-over: what is bound afterwards is for the next run."""
        if self.size != self.frame:
            raise status("HAILO_INVALID_OPERATION")
        other = _Bound(self.frame)
        other.array = self.array
        return other


class _Bindings:
    def __init__(self, model: InferModel) -> None:
        self._inputs = {
            stream.name(): _Bound(stream.frame()) for stream in model.inputs()
        }
        self._outputs = {
            stream.name(): _Bound(stream.frame()) for stream in model.outputs()
        }

    def input(self, name: str) -> Any:
        return _named(self._inputs, name)

    def output(self, name: str) -> Any:
        return _named(self._outputs, name)

    def copies(self) -> dict[str, _Bound]:
        both = {**self._inputs, **self._outputs}
        return {name: bound.copy() for name, bound in both.items()}


class AsyncInferJob:
    def __init__(self) -> None:
        self.finished = threading.Event()

    def wait(self, timeout: timedelta) -> None:
        if not self.finished.wait(typed(timeout, timedelta).total_seconds()):
            raise status("HAILO_TIMEOUT")


class ConfiguredInferModel:
    def __init__(self, model: InferModel) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._model = model
        self._pending = 0
        self._room = threading.Condition()
        self._session = onnxruntime.InferenceSession(
            model.graph, sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._jobs: queue.Queue[Any] = queue.Queue()
        self._ended: queue.Queue[Any] = queue.Queue()
        self._in_callback = False
        threading.Thread(target=self._work, daemon=True).start()
        threading.Thread(target=self._call_back, daemon=True).start()

    def create_bindings(self) -> _Bindings:
        return _Bindings(self._model)

    def set_scheduler_priority(self, priority: int) -> None:
        if not 0 <= typed(priority, int) <= 31:
            raise status("HAILO_INVALID_ARGUMENT")

    def get_async_queue_size(self) -> int:
        return _QUEUE

    def wait_for_async_ready(self, timeout: timedelta, frames_count: int) -> None:
        most = _QUEUE - typed(frames_count, int)
        with self._room:
            seconds = typed(timeout, timedelta).total_seconds()
            if not self._room.wait_for(lambda: self._pending <= most, seconds):
                raise status("HAILO_TIMEOUT")

    def run_async(
        self, bindings: list[_Bindings], callback: Callable[[int], None]
    ) -> AsyncInferJob:
        at("run")
        (bound,) = (one.copies() for one in bindings)
        with self._room:
            if self._pending >= _QUEUE:
                raise status("HAILO_QUEUE_IS_FULL")
            self._pending += 1
        job = AsyncInferJob()
        self._jobs.put((bound, callback, job))
        return job

    def shutdown(self) -> None:
        at("shutdown")
        # It keeps Python's lock and waits for the thread of callbacks, which needs the lock.
        if self._in_callback:
            hang()
        self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            bound, callback, job = item
            number = 0
            try:
                at("callback")
                self._execute(bound)
            except HailoRTStatusException as error:
                number = int(error.args[0])
            with self._room:
                self._pending -= 1
                self._room.notify_all()
            self._ended.put((callback, number, job))
        self._ended.put(None)

    def _execute(self, bound: dict[str, _Bound]) -> None:
        feeds = {}
        for name, stream in self._model.facts["inputs"].items():
            array = bound[name].array.reshape(stream["shape"])
            turned = array.transpose(2, 0, 1) if stream["turn"] else array
            feeds[stream["tensor"]] = np.ascontiguousarray(turned).reshape(stream["as"])
        names = {
            stream["tensor"]: name
            for name, stream in self._model.facts["outputs"].items()
        }
        for name, value in zip(
            names.values(), self._session.run(list(names), feeds), strict=True
        ):
            bound[name].array[...] = value.reshape(bound[name].array.shape)

    def _call_back(self) -> None:
        """One thread per configured model, in which an exception ends the process."""
        while (item := self._ended.get()) is not None:
            callback, number, job = item
            self._in_callback = True
            try:
                callback(number)
            except BaseException as error:
                sys.stderr.write(f"terminate called after {error!r}\n")
                os.abort()
            time.sleep(_LEAVE_S)
            self._in_callback = False
            job.finished.set()
