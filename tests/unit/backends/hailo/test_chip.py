"""Facts that a chip reports, and how it is opened, shared and released."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.backends.hailo.conftest import Hefs, mel_of
from whisper_hailo.backends.hailo import chip as chip_module
from whisper_hailo.backends.hailo.chip import UNKNOWN, Chip, ChipFacts, chip_facts
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.backends.hailo.watchdog import ANSWER_S
from whisper_hailo.backends.options import ALONE, ChipOptions
from whisper_hailo.core.errors import WrongChipError
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
