"""One network on a scripted device: calls, buffers, runs, release."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.hailo.conftest import Hefs
from whisper_hailo.backends.hailo import network as run_module
from whisper_hailo.backends.hailo.faults import Faults
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, HefEncoding, HefRunner
from whisper_hailo.backends.hailo.network import AsyncRun, BufferSlot, ConfiguredNetwork
from whisper_hailo.backends.options import ChipOptions, ChipPriority
from whisper_hailo.core.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    ModelError,
    ShapeError,
)
from whisper_hailo.core.spec import ModelSpec

OPTIONS = ChipOptions(priority=ChipPriority.LIVE, timeout_s=0.01)


class Stream:
    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name = name
        self.shape = shape
        self.format = None

    def set_format_type(self, which: Any) -> None:
        self.format = which


class Bindings:
    """Arrays that a run reads and writes."""

    def __init__(self) -> None:
        self.buffers: dict[str, Any] = {}

    def input(self, name: str) -> Any:
        return SimpleNamespace(
            set_buffer=lambda array: self.buffers.update({name: array})
        )

    def output(self, name: str) -> Any:
        return self.input(name)


class Device:
    """A device whose network adds its inputs; runs end when `end` is called."""

    def __init__(self, queue_size: int = 2) -> None:
        self.queue_size = queue_size
        self.inputs = [Stream("a", (1, 2, 3)), Stream("b", (6,))]
        self.outputs = [Stream("o", (3, 2))]
        self.names: list[dict[str, str]] = []
        self.calls: list[Any] = []
        self.made: list[weakref.ref[Any]] = []
        self.ends: list[Callable[[], None]] = []
        self.fails = ""

    def create_infer_model(self, _path: str, **named: str) -> Device:
        self.names.append(named)
        return self

    def configure(self) -> Device:
        return self

    def set_scheduler_priority(self, priority: int) -> None:
        if self.fails == "priority":
            raise OSError("no priority")
        self.calls.append(priority)

    def get_async_queue_size(self) -> int:
        return self.queue_size

    def create_bindings(self) -> Any:
        bindings = Bindings()
        self.made.append(weakref.ref(bindings))
        return bindings

    def wait_for_async_ready(self, timeout_ms: int) -> None:
        if self.fails == "ready":
            raise OSError("not ready")

    def run_async(self, bindings: list[Any], callback: Any) -> Any:
        (buffers,) = (binding.buffers for binding in bindings)

        def end() -> None:
            buffers["o"][...] = (buffers["a"].ravel() + buffers["b"]).reshape(3, 2)
            callback(SimpleNamespace(exception=None))

        self.ends.append(end)
        return SimpleNamespace(wait=lambda _ms: None)

    def end(self) -> None:
        self.ends.pop(0)()

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def __exit__(self, *_: object) -> None:
        self.calls.append("exit")


def network_on(
    device: Device, n_groups: int = 1, options: ChipOptions = OPTIONS
) -> Any:
    binding = SimpleNamespace(
        FormatType=SimpleNamespace(FLOAT32="f32"), __version__="4.23.0"
    )
    hef: Any = SimpleNamespace(path=Path("x.hef"), groups=[None] * n_groups)
    return ConfiguredNetwork(device, Faults(binding), (hef, "group"), options)


def inputs(value: float) -> dict[str, Any]:
    return {
        "a": np.full((2, 3), value, np.float32),
        "b": np.arange(6, dtype=np.float32),
    }


def test_network_is_named_only_among_several() -> None:
    """Older bindings take no name."""
    device = Device()
    for n_groups in (1, 2):
        network_on(device, n_groups).close()
    assert device.names == [{}, {"name": "group"}]
    assert {stream.format for stream in (*device.inputs, *device.outputs)} == {"f32"}
    assert device.calls[:3] == [24, "shutdown", "exit"]


def test_network_binds_buffers_once_per_run_in_flight() -> None:
    device = Device()
    network = network_on(device)
    for value in (1, 2):
        run = network.run_async(inputs(value), ("o",))
        device.end()
        got = run.result()["o"]
        assert got.tolist() == (np.arange(6) + value).reshape(3, 2).tolist()
    assert len(device.made) == 1
    first, second = (network.run_async(inputs(value), ("o",)) for value in (3, 4))
    device.end()
    device.end()
    assert [run.result()["o"][0, 0] for run in (second, first)] == [4, 3]
    assert got[0, 0] == 2, "a result is the caller's"
    assert len(device.made) == 2
    del run, first, second
    network.close()
    gc.collect()
    assert [made() for made in device.made] == [None, None], (
        "they go before the device does"
    )
    assert network.infer_model is None


def test_network_run_notes_that_numpy_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Faults, "has_run", False)
    device = Device()
    network = network_on(device)
    run = network.run_async(inputs(1), ("o",))
    device.end()
    assert not Faults.has_run
    run.result()
    assert Faults.has_run
    network.close()


@pytest.mark.parametrize("queue_size", [0, 1, 3])
def test_network_allows_as_many_runs_as_the_queue(queue_size: int) -> None:
    device = Device(queue_size)
    network = network_on(device)
    runs = [network.run_async(inputs(0), ("o",)) for _ in range(max(1, queue_size))]
    with pytest.raises(DeviceTimeoutError, match=r"\b0\.01 s;.*doctor"):
        network.run_async(inputs(0), ("o",))
    device.end()
    runs.append(network.run_async(inputs(0), ("o",)))
    while device.ends:
        device.end()
    assert all(run.result() for run in runs)
    network.close()


def test_network_run_that_fails_frees_its_place() -> None:
    device = Device(1)
    network = network_on(device)
    with pytest.raises(ValueError, match="reshape"):
        network.run_async({"a": np.zeros(5, np.float32)}, ("o",))
    device.fails = "ready"
    with pytest.raises(DeviceError, match=r"running x\.hef \(not ready\)"):
        network.run_async(inputs(0), ("o",))
    device.fails = ""
    run = network.run_async(inputs(1), ("o",))
    device.end()
    assert run.result()["o"][0, 0] == 1
    network.close()


def test_network_that_fails_setup_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[object] = []

    class Slots(threading.Semaphore):
        def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return True

    monkeypatch.setattr(threading, "Semaphore", Slots)
    device = Device()
    device.fails = "priority"
    with pytest.raises(DeviceError, match=r"setting up x\.hef \(no priority\)"):
        network_on(device)
    assert device.calls == ["shutdown", "exit"]
    assert waits == [], "no run is under way"


def test_network_drops_buffers_after_close() -> None:
    device = Device()
    network = network_on(device)
    run = network.run_async(inputs(1), ("o",))
    device.end()
    network.close()
    network.close()
    assert run.result()["o"][0, 0] == 1
    assert network.free_slots == []
    assert device.calls == [24, "shutdown", "exit"]
    with pytest.raises(DeviceLostError, match=r"running x\.hef$"):
        network.run_async(inputs(1), ("o",))


def test_hef_runner_joins_vocabulary_parts_in_order(
    hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    runner = HefRunner(hefs.decoder, spec, hailo_directory)
    assert runner.name == "hef-hailo8l"
    tokens = np.zeros((2, 16), np.int64)
    features = np.ones((2, 100, 64), np.float32)
    with pytest.raises(ModelError, match=r"^hef-hailo8l "):
        runner.run(tokens, features)
    calls: list[Any] = []

    def run(arrays: dict[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
        calls.append({name: array.shape for name, array in arrays.items()})
        return {
            name: np.full((1, 16, 50), number + 10 * len(calls), np.float32)
            for number, name in reversed([*enumerate(wanted)])
        }

    scripted: Any = SimpleNamespace(run=run, open=lambda: None, close=lambda: None)
    runner.lease = scripted
    with runner:
        logits = runner.run(tokens, features)
        with pytest.raises(ValueError, match="shorter"):
            runner.run(tokens, features[:1])
    assert logits.shape == (2, 16, 200)
    assert logits[:, 0, ::50].tolist() == [[10, 11, 12, 13], [20, 21, 22, 23]]
    shape = runner.shape
    assert calls[0] == {shape.features: (100, 64), shape.embeddings: (16, 64)}
    with pytest.raises(ModelError, match=r"^hef-hailo8l "):
        runner.run(tokens, features)


@pytest.mark.parametrize("shape", [(1, 79, 200), (80, 200), (1, 80, 202), (1, 80, 198)])
def test_hef_encoder_refuses_other_mel_shapes(
    hefs: Hefs, spec: ModelSpec, shape: tuple[int, ...]
) -> None:
    encoder = HefEncoder(hefs.encoder, spec)
    with pytest.raises(ShapeError):
        encoder.encode_async(np.zeros(shape, np.float32))


class Network:
    """A network that records the calls of a run."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.runs: set[AsyncRun] = set()
        self.places = SimpleNamespace(release=lambda: self.calls.append("left"))

    def give_back(self, slot: BufferSlot) -> None:
        self.calls.append("given back")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise OSError(str(error)) from error

    action = "running x.hef"


class Job:
    """A job, which the binding gives for a run; waiting for it may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.waits = 0

    def wait(self, _timeout_ms: int) -> None:
        self.waits += 1
        if self.error is not None:
            raise self.error


def begun(network: Network, job: Job, *, timeout_s: float = 60.0) -> AsyncRun:
    slot = BufferSlot(None, {}, {"out": np.arange(3, dtype=np.float32)})
    configured: Any = SimpleNamespace(run_async=lambda _bindings, _callback: job)
    scripted: Any = network
    return AsyncRun(scripted, configured, slot, ("out",), timeout_s)


def ended(run: AsyncRun, error: Exception | None = None) -> None:
    run._on_finished(SimpleNamespace(exception=error))


def test_async_run_results_are_copies() -> None:
    network = Network()
    run = begun(network, Job())
    assert run.took_ms == 0
    ended(run)
    out = run.result()["out"]
    assert out.tolist() == [0, 1, 2]
    assert out is not run._slot.outputs["out"]
    assert run.took_ms > 0
    assert network.calls == ["left", "given back"]


def test_async_run_times_follow_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time-out counts from the start of the run, not from the call of `result`."""
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: now.s))
    for read_s, left_s in ((110.0, 50.0), (160.0, 0.0), (200.0, 0.0)):
        now.s = 100.0
        run = begun(Network(), Job())
        waits: list[float] = []
        run._finished = SimpleNamespace(  # type: ignore[assignment]
            wait=lambda s, waits=waits: not waits.append(s), set=lambda: None
        )
        now.s = 100.25
        ended(run)
        assert run.took_ms == 250
        now.s = read_s
        run.result()
        assert waits == [left_s]


@pytest.mark.parametrize("source", ["callback", "job"])
def test_async_run_raises_errors_of_callback_and_job(source: str) -> None:
    network = Network()
    error = RuntimeError("it broke")
    job = Job(error if source == "job" else None)
    run = begun(network, job)
    ended(run, error if source == "callback" else None)
    with pytest.raises(OSError, match="it broke"):
        run.result()
    assert job.waits == 1, "HailoRT's thread has left the callback"
    assert network.calls == ["left"], "buffers of a run that failed are not used again"


@pytest.mark.parametrize("is_finished", [False, True])
def test_leave_callback_waits_for_finished_runs(is_finished: bool) -> None:
    job = Job(RuntimeError("it broke"))
    run = begun(Network(), job)
    if is_finished:
        ended(run)
    run.leave_callback()
    assert job.waits == int(is_finished)


@pytest.mark.parametrize(
    ("waits", "is_finished_late"),
    [([True], True), ([False, True], True), ([False, False], False)],
)
def test_async_run_accepts_a_slightly_late_callback(
    waits: list[bool], is_finished_late: bool
) -> None:
    """After the whole process was stopped, the time may be over before the callback could run."""
    run = begun(Network(), Job(), timeout_s=0.0)
    left = iter(waits)
    run._finished = SimpleNamespace(wait=lambda _: next(left))  # type: ignore[assignment]
    if is_finished_late:
        assert run.result()["out"].size == 3
    else:
        with pytest.raises(DeviceTimeoutError, match=r"\b0 s .*running x\.hef;"):
            run.result()
    assert not list(left)


def test_hef_encoding_keeps_two_windows_in_flight() -> None:
    """The next is handed over when the first of them is back; their times add up."""
    under_way: list[Any] = []
    most: list[int] = []

    def begin(inputs: dict[str, Any], wanted: tuple[str, ...]) -> Any:
        assert wanted == ("o",)
        (mel,) = inputs.values()
        assert (mel.shape, mel.dtype) == ((4, 3), np.float32)
        run = SimpleNamespace(took_ms=float(mel[0, 0]))

        def result() -> dict[str, Any]:
            under_way.remove(run)
            return {"o": np.full((1, 2, 5), mel[0, 0], np.float32)}

        run.result = result
        under_way.append(run)
        most.append(len(under_way))
        return run

    shape: Any = SimpleNamespace(input="i", output="o", n_positions=2, d_model=5)
    scripted: Any = SimpleNamespace(run_async=begin)
    mel = np.ones((5, 3, 4)) * np.arange(5)[:, np.newaxis, np.newaxis]
    encoding = HefEncoding(scripted, shape, mel)
    assert len(under_way) == 2
    assert encoding.took_ms == 0
    features = encoding.result()
    assert features.shape == (5, 2, 5)
    assert features[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert encoding.took_ms == 10
    assert max(most) == 2
