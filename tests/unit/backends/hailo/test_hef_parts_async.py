"""Runs whose results are read later: overlap, order, failures, priorities."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.hailo.conftest import Hefs
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.backends.hailo.network import ConfiguredNetwork
from whisper_hailo.backends.options import ChipOptions, ChipPriority
from whisper_hailo.core.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    NoDeviceError,
    ShapeError,
)
from whisper_hailo.core.protocols import AsyncEncoder
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray

QUICK = ChipOptions(timeout_s=1.5, open_timeout_s=30)


@pytest.fixture(scope="module")
def spec(hailo_directory: Path) -> ModelSpec:
    return ModelSpec.load(hailo_directory)


def _mel(seed: int, batch: int = 1) -> FloatArray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((batch, 80, 200)).astype(np.float32)


def _until(is_so: Callable[[], bool]) -> None:
    """Waits for other threads."""
    end_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def _network(encoder: HefEncoder) -> ConfiguredNetwork:
    (network,) = encoder.lease.chip.networks.values()
    return network


def test_encode_async_returns_before_the_chip(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        assert isinstance(encoder, AsyncEncoder)
        expected = encoder.encode(_mel(1))
        machine.set(latency_ms=100)
        with machine.held():  # it comes back before the chip does
            encoding = encoder.encode_async(_mel(1))
        np.testing.assert_array_equal(encoding.result(), expected)
        assert encoding.took_ms >= 100


def test_encode_async_results_match_their_runs(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        expected = [encoder.encode(_mel(seed)) for seed in range(4)]
        encodings = [encoder.encode_async(_mel(seed)) for seed in range(4)]
        for seed in (3, 0, 2, 1):
            np.testing.assert_array_equal(encodings[seed].result(), expected[seed])
        assert len(_network(encoder).free_slots) == 4, (
            "all buffers are there to be used again"
        )


def test_encode_async_batch_leaves_room_in_the_queue(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        rows = np.concatenate([encoder.encode(_mel(seed)) for seed in range(9)])
        machine.set()
        batch = np.concatenate([_mel(seed) for seed in range(9)])
        with ThreadPoolExecutor(1) as pool:
            with machine.held():
                encoding = pool.submit(encoder.encode, batch)
                _until(lambda: machine.most_queued == 2)
            np.testing.assert_array_equal(encoding.result(60), rows)
        assert machine.most_queued == 2
        assert machine.counts["run"] == 9
        assert len(_network(encoder).free_slots) <= 2


def test_encode_async_of_more_streams_than_the_queue(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    """No result is read until all runs are handed over: callbacks free the places."""
    with HefEncoder(hefs.encoder, spec) as encoder:
        expected = [encoder.encode(_mel(seed)) for seed in range(10)]
        encodings = [encoder.encode_async(_mel(seed)) for seed in range(10)]
        for encoding, features in zip(encodings, expected, strict=True):
            np.testing.assert_array_equal(encoding.result(), features)
        assert machine.most_queued <= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("timeout", DeviceTimeoutError),
        ("late", DeviceTimeoutError),
        ("refuse", DeviceError),
    ],
)
def test_encode_async_raises_in_result(
    *, machine: Any, hefs: Hefs, spec: ModelSpec, fault: str, kind: type[Exception]
) -> None:
    with HefEncoder(hefs.encoder, spec, QUICK) as encoder:
        expected = encoder.encode(_mel(1))
        machine.set(faults={"run": {"0": fault}})
        encoding = encoder.encode_async(_mel(1))
        with pytest.raises(kind):
            encoding.result()
        np.testing.assert_array_equal(encoder.encode(_mel(1)), expected)


@pytest.mark.parametrize("fault", ["lost", "abort"])
def test_encode_async_repeats_runs_of_a_lost_chip(
    machine: Any, hefs: Hefs, spec: ModelSpec, fault: str
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        expected = [encoder.encode(_mel(seed)) for seed in range(4)]
        machine.set(faults={"run": {"1": fault}})
        encodings = [encoder.encode_async(_mel(seed)) for seed in range(4)]
        for encoding, features in zip(encodings, expected, strict=True):
            np.testing.assert_array_equal(encoding.result(), features)
        assert machine.counts["open"] == 1, "opened once more, not once for every run"


@pytest.mark.slow
def test_encode_async_of_gone_chip_fails_every_result(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec, QUICK) as encoder:
        machine.set(faults={"run": {"0": "gone"}})
        first = encoder.encode_async(_mel(1))
        second = encoder.encode_async(_mel(2))
        for encoding in (first, second):
            with pytest.raises((DeviceLostError, NoDeviceError)):
                encoding.result()


def test_encode_async_abandoned_result_blocks_nothing(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        machine.set(latency_ms=50)
        for seed in range(8):
            encoder.encode_async(_mel(seed))
        gc.collect()
        assert encoder.encode(_mel(1)).shape == (1, 100, 64)
        encoder.encode_async(_mel(2))  # under way when the chip is closed


def test_encode_async_refuses_other_windows_at_once(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with (
        HefEncoder(hefs.encoder, spec) as encoder,
        pytest.raises(ShapeError, match="--window 2"),
    ):
        encoder.encode_async(_mel(1)[:, :, :100])


def test_encode_async_live_runs_overtake_files(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    """Eight runs of a file wait; a caption's run is next after the one that has begun."""
    live, batch = (
        ChipOptions(priority=which) for which in (ChipPriority.LIVE, ChipPriority.BATCH)
    )
    with (
        HefEncoder(hefs.encoder, spec, batch) as file,
        HefEncoder(hefs.encoder, spec, live) as captions,
    ):
        machine.set()
        with ThreadPoolExecutor(1) as pool, machine.held():
            waiting = pool.submit(file.encode, _mel(1, batch=8))
            _until(lambda: bool(machine.order) and machine.most_queued == 2)
            caption = captions.encode_async(_mel(2))
            _until(lambda: 24 in machine.waiting)
        assert caption.result().shape == waiting.result(60)[:1].shape
    assert machine.order == [12, 24, *[12] * 7]


def _arguments(
    network: ConfiguredNetwork,
) -> tuple[dict[str, FloatArray], tuple[str, ...]]:
    """Noise, and the names of the outputs."""
    names = network.input_names
    inputs = {name: np.zeros(network.shapes[name], np.float32) for name in names}
    return inputs, tuple(name for name in network.shapes if name not in names)


def test_encode_async_of_full_queue_times_out(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    options = ChipOptions(timeout_s=0.2, open_timeout_s=30)
    with HefEncoder(hefs.encoder, spec, options) as encoder:
        network = _network(encoder)
        inputs, wanted = _arguments(network)
        with machine.held():
            runs = [network.run_async(inputs, wanted) for _ in range(4)]
            with pytest.raises(DeviceTimeoutError, match=r"\b0\.2 s;.*doctor"):
                network.run_async(inputs, wanted)
        _until(lambda: all(run.took_ms for run in runs))
        assert network.run_async(inputs, wanted).result().keys() == {*wanted}


def test_encode_async_refused_run_frees_its_place(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec, QUICK) as encoder:
        network = _network(encoder)
        inputs, wanted = _arguments(network)
        machine.set(faults={"run": {str(number): "refuse" for number in range(6)}})
        for _ in range(6):  # more than the queue has places
            with pytest.raises(DeviceError, match="HAILO_INVALID_OPERATION"):
                network.run_async(inputs, wanted)
        assert network.run_async(inputs, wanted).result().keys() == {*wanted}


def test_network_shutdown_failure_still_releases_it(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    """The network must not outlive the device."""

    def fail() -> None:
        raise OSError("not now")

    with HefEncoder(hefs.encoder, spec) as encoder:
        network = _network(encoder)
        configured = network.configured
        network.configured = SimpleNamespace(
            shutdown=fail, __exit__=configured.__exit__
        )
        network.close()
        assert not configured.alive


def test_encode_async_took_ms_is_0_before_the_result(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        run = encoder.lease.run_async(*_arguments(_network(encoder)))
        assert run.took_ms == 0
        run.result()
        assert run.took_ms > 0
