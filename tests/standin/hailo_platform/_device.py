"""`Device`: scanning, identity, temperature."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any

from hailo_platform._machine import MACHINE
from hailo_platform.pyhailort.pyhailort import bare, failure


class _Arch(Enum):
    HAILO8 = 0
    HAILO8L = 1
    HAILO10H = 2
    HAILO15H = 3


class _Control:
    def __init__(self, device: Device) -> None:
        self._device = device

    def identify(self) -> Any:
        self._device.check()
        return SimpleNamespace(
            device_architecture=_Arch[MACHINE.chip.upper()],
            firmware_version=f"{MACHINE.version} (release,app)",
            board_name="Hailo-8",
        )

    def get_chip_temperature(self) -> Any:
        self._device.check()
        degrees = MACHINE.facts["temperature_c"]
        if degrees is None:
            raise failure("HAILO_NOT_SUPPORTED")
        return SimpleNamespace(ts0_temperature=degrees, ts1_temperature=degrees + 1)


class Device:
    @staticmethod
    def scan() -> list[str]:
        fault = MACHINE.fault("scan")
        if fault not in {None, "none"}:
            raise bare(fault)
        return [] if fault == "none" else MACHINE.devices()

    def __init__(self, device_id: str | None = None) -> None:
        if MACHINE.fault("identify") == "refused" or not MACHINE.facts["devices"]:
            raise bare("HAILO_DRIVER_OPERATION_FAILED")
        self._open = True
        self.device_id = device_id
        self.control = _Control(self)

    def check(self) -> None:
        if not self._open:
            raise failure("HAILO_INVALID_OPERATION")

    def release(self) -> None:
        self._open = False
