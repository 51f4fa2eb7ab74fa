"""One run, with a scripted network and a scripted binding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whisper_hailo.backends.hailo import network as run_module
from whisper_hailo.backends.hailo.hef_parts import HefEncoding
from whisper_hailo.backends.hailo.network import AsyncRun, BufferSlot
from whisper_hailo.core.errors import DeviceTimeoutError


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
