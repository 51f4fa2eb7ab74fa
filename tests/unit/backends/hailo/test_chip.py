"""Facts that a chip reports, its leases, and runs that fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.hailo.conftest import QUICK, Hefs, mel_of
from whisper_hailo.backends.hailo import binding, chip, faults
from whisper_hailo.backends.hailo import chip as chip_module
from whisper_hailo.backends.hailo.chip import (
    UNKNOWN,
    Chip,
    ChipFacts,
    Lease,
    chip_facts,
)
from whisper_hailo.backends.hailo.hef_file import HefFile, read_hef
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, HefRunner
from whisper_hailo.backends.hailo.network import ConfiguredNetwork
from whisper_hailo.backends.hailo.watchdog import ANSWER_S
from whisper_hailo.backends.options import ALONE, ChipOptions
from whisper_hailo.core.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    NoDeviceError,
    WrongChipError,
)
from whisper_hailo.core.spec import ModelSpec


class Device:
    """A device that raises errors for facts it does not have."""

    def __init__(self, arch: Any, firmware: str | None, degrees: float | None) -> None:
        self.control = self
        self.arch = arch
        self.firmware = firmware
        self.degrees = degrees
        self.released = 0

    def identify(self) -> Any:
        if self.arch is None:
            raise OSError("busy")
        identity = SimpleNamespace(device_architecture=self.arch)
        if self.firmware is not None:
            identity.firmware_version = self.firmware
        return identity

    def get_chip_temperature(self) -> Any:
        if self.degrees is None:
            raise OSError("no sensor")
        return SimpleNamespace(ts0_temperature=self.degrees)

    def release(self) -> None:
        self.released += 1
        raise OSError("not now")


@pytest.mark.parametrize(
    ("device", "facts"),
    [
        (Device("HAILO8L", "4.23", 50), ChipFacts("0", "hailo8l", "4.23", 50.0)),
        (
            Device(SimpleNamespace(name="HAILO10H"), None, None),
            ChipFacts("0", "hailo10h"),
        ),
        (Device(None, "4.23", 50), ChipFacts("0", UNKNOWN)),
    ],
)
def test_chip_facts_are_read_and_the_device_released(
    device: Device, facts: ChipFacts
) -> None:
    binding = SimpleNamespace(Device=lambda _: device)
    assert chip_facts(binding, "0") == facts
    assert device.released == 1


def test_chip_facts_of_unreadable_device_are_unknown() -> None:
    def refuse(_device: str) -> None:
        raise OSError("not for this user")

    assert chip_facts(SimpleNamespace(Device=refuse), "0") == ChipFacts("0", UNKNOWN)


@pytest.mark.parametrize(
    ("arch", "version", "is_unknown", "service"),
    [
        ("hailo8", "4.23.0", False, True),
        ("hailo8l", "4.23.0", True, True),
        ("hailo10h", "5.1.1", False, False),
        ("hailo10h", "5.1.1", True, False),
    ],
)
def test_shared_chip_uses_the_service_on_hailort_4_only(
    *, machine: Any, arch: str, version: str, is_unknown: bool, service: bool
) -> None:
    faults = {"identify": {"*": "refused"}} if is_unknown else {}
    machine.set(chip=arch, version=version, service=True, faults=faults)
    for share in (False, True):
        chip = Chip(ChipOptions(share=share))
        params = chip.vdevice.params
        assert params.multi_process_service is (service and share)
        assert params.group_id == ("SHARED" if share else "UNIQUE")
        chip.close()
        chip.close()
        assert chip.vdevice is None


def test_chip_network_is_shared_by_all_paths_of_a_file(
    machine: Any, hefs: Hefs, tmp_path: Path
) -> None:
    """Other options make another network."""
    link = tmp_path / "link.hef"
    link.symlink_to(hefs.encoder)
    first = read_hef(hefs.encoder)
    same = read_hef(link)
    (group,) = (group.name for group in first.groups)
    chip = Chip(ALONE)
    network = chip.network(first, group, ALONE)
    assert chip.network(same, group, ALONE) is network
    assert chip.network(first, group, ChipOptions(timeout_s=3)) is not network
    chip.close()


def test_chip_check_refuses_hef_for_another_chip(
    machine: Any, hefs: Hefs, hefs_10h: Hefs
) -> None:
    chip = Chip(ALONE)
    with pytest.raises(
        WrongChipError, match=r"hailo10h\.hef .*\bhailo10h, .*--arch hailo8l"
    ):
        chip.check(read_hef(hefs_10h.encoder))
    chip.facts = ChipFacts("0", UNKNOWN)
    chip.check(read_hef(hefs_10h.encoder))
    chip.close()


def test_chip_calls_are_all_bounded(
    machine: Any, hefs_10h: Hefs, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each within the time that it is given."""
    ends: dict[str, float] = {}

    @contextmanager
    def bounded(timeout_s: float, what: str) -> Iterator[None]:
        ends[what.split(" /", maxsplit=1)[0]] = timeout_s
        yield

    monkeypatch.setattr(chip_module, "bounded", bounded)
    machine.set(chip="hailo10h", version="5.1.1")
    options = ChipOptions(timeout_s=7, open_timeout_s=50)
    with HefEncoder(hefs_10h.encoder, spec, options) as encoder:
        assert encoder.encode(mel_of()).shape == (1, 100, 64)
        assert encoder.temperature_c == 48.5
    expected = {"opening the chip": 50, "loading": 50, "releasing the chip": ANSWER_S}
    assert ends == {**expected, "reading the chip's temperature": ANSWER_S}


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
