"""Chips, drivers and heat, read from a machine's files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.backends.hailo import probe
from whisper_hailo.backends.hailo.probe import (
    PciDevice,
    Throttling,
    device_nodes,
    drivers,
    pci_devices,
    throttling,
)


@pytest.fixture(autouse=True)
def reversed_glob(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order in which a disk names its files is its own."""
    glob = Path.glob
    monkeypatch.setattr(
        Path, "glob", lambda *a, **k: sorted(glob(*a, **k), reverse=True)
    )


def put(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def test_pci_devices_are_hailo_chips_in_order(tmp_path: Path) -> None:
    slots = "sys/bus/pci/devices"
    put(
        tmp_path,
        {
            f"{slots}/0002:01:00.0/vendor": "0x1e60\n",
            f"{slots}/0002:01:00.0/device": "0x9999\n",
            f"{slots}/0001:01:00.0/vendor": "0x1e60\n",
            f"{slots}/0001:01:00.0/device": "0x45c4\n",
            f"{slots}/0001:01:00.0/current_link_speed": "5.0 GT/s PCIe\n",
            f"{slots}/0001:01:00.0/current_link_width": "4\n\0",
            f"{slots}/0001:01:00.0/max_link_speed": "8.0 GT/s PCIe\n",
            f"{slots}/0000:00:00.0/vendor": "0x8086\n",
            f"{slots}/0000:00:00.0/device": "0x2864\n",
        },
    )
    assert pci_devices(tmp_path) == [
        PciDevice("0001:01:00.0", "Hailo-10H", 5.0, "4", 8.0),
        PciDevice("0002:01:00.0", "Hailo device 0x9999", None, "", None),
    ]
    put(tmp_path, {f"{slots}/0002:01:00.0/device": "0x2864\n"})
    assert pci_devices(tmp_path)[1].kind == "Hailo-8 or 8L"


def test_drivers_without_version_are_unknown(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "sys/module/hailo_pci/version": "4.23.0\n",
            "sys/module/hailo1x_pci/refcnt": "0",
            "sys/module/hailo_integrated_nnc": "no folder",
            "sys/module/other/version": "1",
        },
    )
    assert drivers(tmp_path) == {"hailo_pci": "4.23.0", "hailo1x_pci": "unknown"}
    (tmp_path / "sys/module/hailo_pci/version").write_bytes(b"\xff4.23\0\n")
    assert drivers(tmp_path)["hailo_pci"] == "\ufffd4.23"


def test_device_nodes_of_every_driver(tmp_path: Path) -> None:
    put(
        tmp_path,
        {f"dev/{name}": "" for name in ("hailo1", "hailo0", "h1x-0", "hailort", "h1x")},
    )
    assert [path.name for path in device_nodes(tmp_path)] == [
        "h1x-0",
        "hailo0",
        "hailo1",
    ]


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("61250", 61.25),
        ("-5500\n", -5.5),
        ("0", 0.0),
        ("hot", None),
        ("", None),
        ("12.5", None),
    ],
)
def test_throttling_reads_temperature_in_thousandths(
    tmp_path: Path, text: str, degrees: float | None
) -> None:
    put(
        tmp_path,
        {
            "sys/class/thermal/thermal_zone0/type": "nvme\n",
            "sys/class/thermal/thermal_zone0/temp": "99000",
            "sys/class/thermal/thermal_zone1/type": "x86_pkg_temp\n",
            "sys/class/thermal/thermal_zone1/temp": text,
        },
    )
    assert throttling(tmp_path).cpu_c == degrees
    put(
        tmp_path,
        {
            "sys/class/thermal/thermal_zone2/type": "soc_thermal",
            "sys/class/thermal/thermal_zone2/temp": "40000",
        },
    )
    assert throttling(tmp_path).cpu_c == (40.0 if degrees is None else degrees)


FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"
ALL = ("under-voltage", "clock capped", "throttled", "soft temperature limit")


@pytest.mark.parametrize(
    ("bits", "now", "before"),
    [
        ("0", (), ()),
        ("1", ALL[:1], ()),
        ("2", ALL[1:2], ()),
        ("4", ALL[2:3], ()),
        ("8", ALL[3:], ()),
        ("10", (), ()),
        ("f000f", ALL, ALL),
        (
            "0xa0005",
            ("under-voltage", "throttled"),
            ("clock capped", "soft temperature limit"),
        ),
    ],
)
def test_throttling_reads_firmware_bits(
    tmp_path: Path, bits: str, now: tuple[str, ...], before: tuple[str, ...]
) -> None:
    """The low bits are the present, those sixteen higher the past."""
    put(tmp_path, {FIRMWARE: bits})
    assert throttling(tmp_path) == Throttling(now, before, None, known=True)


@pytest.mark.parametrize("error", [OSError("no"), subprocess.TimeoutExpired("x", 1)])
def test_service_state_of_silent_program_is_empty(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any, timeout: float, **__: Any) -> None:
        assert 0 < timeout < 60
        raise error

    monkeypatch.setattr(probe.subprocess, "run", fail)
    assert probe.service_state() == ""
