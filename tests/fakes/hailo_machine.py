"""Machines with a Hailo, made of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.backends.hailo import binding as binding_module
from whisper_hailo.backends.hailo import probe
from whisper_hailo.backends.hailo.chip import ChipFacts
from whisper_hailo.cli import doctor_hailo
from whisper_hailo.cli.doctor_hailo import Check


class Root:
    """A machine's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text + "\n", encoding="utf-8")

    def package(
        self, name: str, version: str, status: str = "install ok installed"
    ) -> None:
        """Add a Debian package."""
        path = self.folder / "var/lib/dpkg/status"
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        entry = f"Package: {name}\nStatus: {status}\nArchitecture: arm64\nVersion: {version}\n"
        self.put("var/lib/dpkg/status", before + entry)

    def process(self, pid: int, command: str, device: str = "") -> None:
        """Add a running program, with a device file open."""
        self.put(f"proc/{pid}/cmdline", command.replace(" ", "\0"))
        self.put(f"proc/{pid}/comm", command.split(maxsplit=1)[0])
        files = self.folder / f"proc/{pid}/fd"
        files.mkdir()
        (files / "0").symlink_to("/dev/null")
        if device:
            (files / "7").symlink_to(device)

    def pci(self, device: str, speed: str) -> None:
        place = "sys/bus/pci/devices/0000:01:00.0"
        for name, text in (
            ("vendor", "0x1e60"),
            ("device", device),
            ("current_link_speed", speed),
            ("max_link_speed", "8.0 GT/s PCIe"),
            ("current_link_width", "1"),
        ):
            self.put(f"{place}/{name}", text)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Root:
    names = ("pci_devices", "drivers", "device_nodes", "throttling")
    for name in (*names, "packages", "is_home_assistant_os", "chip_users"):
        function = getattr(probe, name)
        monkeypatch.setattr(probe, name, lambda f=function: f(tmp_path))
    monkeypatch.setattr(binding_module, "LIBRARIES", (f"{tmp_path}/usr/lib",))
    monkeypatch.setattr(probe, "service_state", lambda: "inactive")
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    return Root(tmp_path)


def with_binding(
    monkeypatch: pytest.MonkeyPatch, version: str, chip: Any = None
) -> None:
    class Binding:
        __version__ = version

    def found() -> list[ChipFacts]:
        if isinstance(chip, Exception):
            raise chip
        return [chip] if chip else []

    monkeypatch.setattr(doctor_hailo, "load_binding", lambda: Binding)
    monkeypatch.setattr(doctor_hailo, "chips", found)
    monkeypatch.setattr(doctor_hailo, "try_hef", lambda _: None)


def found_checks() -> dict[str, Check]:
    return {check.name: check for check in doctor_hailo.hailo_checks()}
