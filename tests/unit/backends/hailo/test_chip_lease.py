"""Leases of the chip: the first opens it, and the last closes it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.backends.hailo.conftest import Hefs, mel_of
from whisper_hailo.backends.hailo.chip import Chip, Lease
from whisper_hailo.backends.hailo.hef_file import HefFile
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, HefRunner
from whisper_hailo.backends.hailo.network import ConfiguredNetwork
from whisper_hailo.backends.options import ALONE, ChipOptions
from whisper_hailo.core.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    NoDeviceError,
)
from whisper_hailo.core.spec import ModelSpec


def chip_lease() -> Lease:
    return Lease(None, "", ALONE)  # type: ignore[arg-type]


def test_lease_keeps_the_chip_open_until_the_last_user(machine: Any) -> None:
    first, second, third = (chip_lease().open() for _ in range(3))
    chip = first.chip
    first.close()
    assert second.chip is chip
    third.close()
    assert second.chip is chip
    assert chip.vdevice is not None
    assert second.chip.temperature_c() == 48.5
    second.close()
    assert chip.vdevice is None
    assert machine.counts["open"] == 1


def test_lease_closed_twice_counts_once(machine: Any) -> None:
    first = chip_lease().open()
    second = chip_lease().open()
    chip = second.chip
    first.close()
    first.close()
    assert second.chip is chip
    assert chip.vdevice is not None
    second.close()
    assert machine.counts["open"] == 1


def test_lease_opened_twice_counts_once(machine: Any) -> None:
    lease = chip_lease().open().open()
    chip = lease.chip
    lease.close()
    assert chip.vdevice is None
    with pytest.raises(DeviceError, match=r"open\(\)"):
        _ = lease.chip


def test_lease_closed_until_next_keeps_the_chip(machine: Any) -> None:
    trial = chip_lease().open()
    chip = trial.chip
    trial.close_until_next()
    trial.close()
    with chip_lease() as lease:
        assert lease.chip is chip
    assert chip.vdevice is None
    assert machine.counts["open"] == 1


def test_lease_that_fails_to_open_counts_nothing(machine: Any) -> None:
    machine.set(devices=0)
    failed = chip_lease()
    with pytest.raises(NoDeviceError):
        failed.open()
    machine.set()
    with chip_lease() as lease:
        chip = lease.chip
        failed.close()
        assert lease.chip is chip
    assert chip.vdevice is None


def test_lease_close_leaves_other_encoders_running(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    first = HefEncoder(hefs.encoder, spec).open()
    second = HefEncoder(hefs.encoder, spec).open()
    expected = first.encode(mel_of()).tolist()
    first.close()
    assert second.encode(mel_of()).tolist() == expected
    second.close()
    assert machine.counts["configure"] == 1


@pytest.mark.parametrize("error", [DeviceTimeoutError, DeviceLostError])
def test_lease_after_a_load_failure_reopens_the_chip(
    machine: Any,
    hefs: Hefs,
    spec: ModelSpec,
    monkeypatch: pytest.MonkeyPatch,
    error: type[DeviceError],
) -> None:
    """Its state is unknown: the next run of any stream begins with opening it."""
    load = Chip.network

    def refused(
        chip: Chip, hef: HefFile, group: str, options: ChipOptions
    ) -> ConfiguredNetwork:
        if hef.path == hefs.decoder:
            raise error("no answer")
        return load(chip, hef, group, options)

    monkeypatch.setattr(Chip, "network", refused)
    with HefEncoder(hefs.encoder, spec) as first:
        expected = first.encode(mel_of()).tolist()
        chip = first.lease.chip
        with pytest.raises(error, match="no answer"):
            HefRunner(hefs.decoder, spec, hefs.decoder.parent).lease.open()
        assert chip.vdevice is None
        assert first.encode(mel_of()).tolist() == expected
        assert first.lease.chip is not chip
    assert machine.counts["open"] == 2
