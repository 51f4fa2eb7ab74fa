"""Runs that fail on the stand-in: lost chips, time-outs, refusals, interrupts."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.hailo.conftest import QUICK, Hefs, mel_of
from whisper_hailo.backends.hailo import binding, chip, faults
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.core.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    NoDeviceError,
)
from whisper_hailo.core.spec import ModelSpec


@pytest.mark.parametrize("fault", ["lost", "abort", "HAILO_COMMUNICATION_CLOSED"])
def test_encode_after_a_reset_continues(
    *,
    machine: Any,
    hefs: Hefs,
    spec: ModelSpec,
    fault: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        expected = encoder.encode(mel_of())
        machine.set(faults={"run": {"0": fault}})
        np.testing.assert_array_equal(encoder.encode(mel_of()), expected)
        assert machine.counts["open"] == 1, "opened once more"
    assert "opening it again" in caplog.text


def test_encode_waits_for_a_missing_chip(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    """Both runs: the one that lost it, and the one that began while it was away."""
    with HefEncoder(hefs.encoder, spec, QUICK) as encoder:
        expected = encoder.encode(mel_of())
        machine.set(faults={"run": {"0": "gone"}})
        runs = [encoder.encode_async(mel_of()) for _ in range(2)]
        threading.Timer(0.5, machine.set).start()
        for run in runs:
            np.testing.assert_array_equal(run.result(), expected)


def test_encode_gives_up_a_chip_that_stays_away(
    machine: Any, hefs: Hefs, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chip, "RECOVERY_S", 0.5)
    with HefEncoder(hefs.encoder, spec, QUICK) as encoder:
        machine.set(faults={"run": {"0": "gone"}})
        for _ in range(2):
            with pytest.raises(NoDeviceError):
                encoder.encode(mel_of())
        machine.set()
        assert encoder.encode(mel_of()).shape == (1, 100, 64), "back, and used again"


def test_encode_reopens_a_lost_chip_once(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec, QUICK) as encoder:
        machine.set(faults={"run": {"0": "abort", "1": "abort"}})
        with pytest.raises(
            DeviceLostError, match=r"encoder_hailo8l\.hef \(HAILO_STREAM_ABORT\)"
        ):
            encoder.encode(mel_of())
        assert encoder.encode(mel_of()).shape == (1, 100, 64)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["timeout", "late"])
def test_encode_of_hanging_chip_times_out(
    machine: Any, hefs: Hefs, spec: ModelSpec, fault: str
) -> None:
    with HefEncoder(hefs.encoder, spec, QUICK) as encoder:
        expected = encoder.encode(mel_of())
        machine.set(faults={"run": {"0": fault}})
        with pytest.raises(
            DeviceTimeoutError, match=r"\b1\.5 s .*encoder_hailo8l\.hef;"
        ):
            encoder.encode(mel_of(2))
        np.testing.assert_array_equal(encoder.encode(mel_of()), expected)


def test_encode_failure_names_the_log_and_doctor(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    with HefEncoder(hefs.encoder, spec) as encoder:
        encoder.encode(mel_of())
        machine.set(faults={"run": {"0": "refuse"}})
        with pytest.raises(
            DeviceError,
            match=r"4\.23\.0 .*HAILO_INVALID_OPERATION.*hailort\.log.*doctor",
        ):
            encoder.encode(mel_of())


@pytest.mark.parametrize(
    ("version", "python", "expected"),
    [
        (
            "4.23.0",
            (3, 11, 2),
            r"NumPy 2\.4\.6 .*pip install 'numpy<2'",
        ),
        ("4.23.0", (3, 13, 5), "HAILO_INVALID_OPERATION"),
    ],
)
def test_encode_with_unfit_numpy_says_what_to_install(
    *,
    machine: Any,
    hefs: Hefs,
    spec: ModelSpec,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    python: tuple[int, ...],
    expected: str,
) -> None:
    monkeypatch.setattr(binding.sys, "version_info", python)
    monkeypatch.setattr(faults.np, "__version__", "2.4.6")
    monkeypatch.setattr(faults.Faults, "has_run", False)
    machine.set(version=version, knows_numpy_2=False)
    with (
        HefEncoder(hefs.encoder, spec) as encoder,
        pytest.raises(DeviceError, match=expected),
    ):
        encoder.encode(mel_of())


def test_encode_interrupted_leaves_nothing_open(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    def interrupted(place: str, count: int) -> str | None:
        if place == "run":
            raise KeyboardInterrupt
        return None

    machine.plan = interrupted
    with pytest.raises(KeyboardInterrupt), HefEncoder(hefs.encoder, spec) as encoder:
        encoder.encode(mel_of())


def test_encode_of_several_streams_survives_one_loss(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    """All fail at once; the chip is given up once for each time it was lost, not once for each."""
    with HefEncoder(hefs.encoder, spec, QUICK) as encoder:
        expected = encoder.encode(mel_of())
        machine.set(faults={"run": {"5": "lost"}})
        failed: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(6):
                    np.testing.assert_array_equal(encoder.encode(mel_of()), expected)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert failed == []
        assert machine.counts["open"] <= 2
