"""`InferModel`, its configured form, bindings and jobs: one worker per configured model."""

from __future__ import annotations

import queue
import threading
import time
from types import SimpleNamespace
from typing import Any

from hailo_platform._bindings import Bindings, Stream, named
from hailo_platform._graph import Graph
from hailo_platform._machine import MACHINE
from hailo_platform.pyhailort.pyhailort import HailoRTException, failure

QUEUE_SIZE = 4
LEAVE_S = 0.02
"""From the end of a callback until HailoRT's thread has left it, which needs Python's lock."""

THREAD = "standin chip"


class InferModel:
    def __init__(self, vdevice: Any, graph: Graph, *, fits: bool) -> None:
        self.vdevice = vdevice
        self.graph = graph
        self.configured = False
        self._fits = fits
        self._inputs = {n: Stream(self, n, s) for n, s in graph.inputs.items()}
        self._outputs = {n: Stream(self, n, s) for n, s in graph.outputs.items()}

    @property
    def inputs(self) -> list[Stream]:
        return list(self._inputs.values())

    @property
    def outputs(self) -> list[Stream]:
        return list(self._outputs.values())

    @property
    def input_names(self) -> list[str]:
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        return list(self._outputs)

    def input(self, name: str = "") -> Stream:
        return named(self._inputs, name)

    def output(self, name: str = "") -> Stream:
        return named(self._outputs, name)

    def configure(self) -> ConfiguredInferModel:
        self.vdevice.check()
        fault = MACHINE.fault("configure")
        if fault not in {None, "wrong"}:
            raise failure(fault)
        if fault == "wrong" or not self._fits:
            known = MACHINE.knows_incompatible
            raise failure(
                "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE" if known else "HAILO_INVALID_HEF"
            )
        if self.configured:
            MACHINE.violated("a model is configured twice")
        self.configured = True
        return ConfiguredInferModel(self)


class ConfiguredInferModel:
    """Everything a job needs is checked when it is handed over, as libhailort does."""

    def __init__(self, model: InferModel) -> None:
        self.model = model
        self.priority = 16
        self.alive = True
        # In C, like the binding: no handler of a signal ends it half-way.
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pending = 0
        self._ready = threading.Condition()
        self._in_callback = False
        self._worker = threading.Thread(target=self._work, daemon=True, name=THREAD)
        self._worker.start()
        model.vdevice.models.add(self)

    def __enter__(self) -> ConfiguredInferModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def create_bindings(self) -> Bindings:
        self._check()
        return Bindings(self.model)

    def set_scheduler_priority(self, priority: int) -> None:
        self._check()
        if not 0 <= priority <= 31:
            raise failure("HAILO_INVALID_ARGUMENT")
        self.priority = priority

    def get_async_queue_size(self) -> int:
        return QUEUE_SIZE

    def wait_for_async_ready(
        self, timeout_ms: int = 1000, frames_count: int = 1
    ) -> None:
        self._check()
        self._no_callback("wait_for_async_ready")
        with self._ready:
            if not self._ready.wait_for(
                lambda: self._pending + frames_count <= QUEUE_SIZE, timeout_ms / 1000
            ):
                raise failure("HAILO_TIMEOUT")

    def run(self, bindings: list[Bindings], timeout: int) -> None:
        self.run_async(bindings).wait(timeout)

    def run_async(self, bindings: list[Bindings], callback: Any = None) -> Job:
        self._check()
        self._no_callback("run_async")
        fault = MACHINE.fault("run")
        if fault == "refuse":
            raise failure("HAILO_INVALID_OPERATION")
        for binding in bindings:
            binding.check()
        with self._ready:
            if self._pending + len(bindings) > QUEUE_SIZE:
                raise failure("HAILO_QUEUE_IS_FULL")
            self._pending += len(bindings)
            MACHINE.most_queued = max(MACHINE.most_queued, self._pending)
        for binding in bindings:
            binding.hand_over()
        job = Job(bindings, callback, fault)
        self._jobs.put(job)
        return job

    def shutdown(self) -> None:
        """Waiting jobs are aborted, the worker ends."""
        if self.alive:
            self.alive = False
            MACHINE.fault("shutdown")
            if self._in_callback:
                MACHINE.violated("shutdown, with Python's lock, while a callback runs")
            self._jobs.put(None)
            if threading.current_thread() is not self._worker:
                self._worker.join(30)

    def _no_callback(self, what: str) -> None:
        """Callbacks have one thread: what waits in it for another run waits for itself."""
        if threading.current_thread() is self._worker:
            MACHINE.violated(f"{what} is called in a callback")

    def _check(self) -> None:
        if not self.alive:
            MACHINE.violated("a configured model is used after its end")
            raise failure("HAILO_INVALID_OPERATION")
        self.model.vdevice.check()

    def _work(self) -> None:
        hung = []
        while (job := self._jobs.get()) is not None:
            if job.fault == "timeout":
                hung.append(job)  # no answer, and its place in the queue stays taken
                continue
            error = self._one(job)
            if job.fault != "late" or self.alive:
                self._done(job, error)
        while not self._jobs.empty():
            hung.append(self._jobs.get())
        for job in hung:
            self._done(job, failure("HAILO_STREAM_ABORT"))

    def _one(self, job: Job) -> HailoRTException | None:
        if job.fault == "late":
            time.sleep(MACHINE.facts["late_s"])
        if job.fault in {"lost", "gone"}:
            MACHINE.lose(0 if job.fault == "lost" else 1_000_000)
            self.model.vdevice.lost = True
        if self.model.vdevice.lost:
            return failure("HAILO_COMMUNICATION_CLOSED")
        if job.fault == "abort":
            return failure("HAILO_STREAM_ABORT")
        if job.fault is not None and job.fault.startswith("HAILO_"):
            return failure(job.fault)
        handle = MACHINE.turn(self.priority)
        try:
            MACHINE.latency()
            for binding in job.bindings:
                binding.execute(self.model.graph)
            MACHINE.ran(
                priority=self.priority, network=next(iter(self.model.graph.outputs))
            )
        finally:
            MACHINE.over(handle)
        return None

    def _done(self, job: Job, error: HailoRTException | None) -> None:
        with self._ready:
            self._pending -= len(job.bindings)
            self._ready.notify_all()
        for binding in job.bindings:
            binding.come_back()
        if job.callback is not None:
            self._in_callback = True
            try:
                job.callback(completion_info=SimpleNamespace(exception=error))
            except Exception as escaped:  # it would end the process
                MACHINE.violated(f"a callback raises {escaped!r}")
            if error is not None:  # a failure is what a chip is given up for
                time.sleep(LEAVE_S)
            self._in_callback = False
        job.error = error
        job.finished.set()


class Job:
    def __init__(
        self, bindings: list[Bindings], callback: Any, fault: str | None
    ) -> None:
        self.bindings = bindings
        self.callback = callback
        self.fault = fault
        self.error: HailoRTException | None = None
        self.finished = threading.Event()

    def wait(self, timeout_ms: int) -> None:
        if threading.current_thread().name == THREAD:
            MACHINE.violated("a job is waited for in a callback")
        if not self.finished.wait(timeout_ms / 1000):
            raise failure("HAILO_TIMEOUT")
        if self.error is not None:
            raise self.error
