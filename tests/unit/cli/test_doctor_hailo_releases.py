"""Checks of a Hailo with differing releases, other systems, and other programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.hailo_machine import Root, found_checks, root, with_binding
from whisper_hailo.backends.hailo import faults, probe
from whisper_hailo.backends.hailo.chip import ChipFacts
from whisper_hailo.cli.doctor_hailo import NOTE, OK

__all__ = ["root"]

RELEASED = "4.23.0 (release,app,extended context switch buffer)"


@pytest.mark.parametrize(
    ("arch", "driver", "version", "firmware", "package"),
    [
        (
            "hailo8l",
            "hailo_pci",
            "4.23.0",
            RELEASED.replace("3", "0", 1),
            "hailort-pcie-driver",
        ),
        ("hailo10h", "hailo1x_pci", "5.3.0", "5.1.1", "h10-hailort-pcie-driver"),
    ],
)
def test_hailo_checks_other_firmware_is_noted(
    *, root: Root, monkeypatch: pytest.MonkeyPatch, arch: str, driver: str, version: str,
    firmware: str, package: str,
) -> None:  # fmt: skip
    with_binding(monkeypatch, version, ChipFacts("0000:01:00.0", arch, firmware))
    root.put(f"sys/module/{driver}/version", version)
    check = found_checks()["Hailo chip"]
    assert check.status == NOTE
    assert version in check.advice
    assert f"--reinstall {package}" in check.advice
    if arch == "hailo8l":
        root.package("hailofw", "4.20.0-1")
        assert "--reinstall hailofw" in found_checks()["Hailo chip"].advice


@pytest.mark.parametrize("firmware", [RELEASED, "4.23.0", "", "unknown"])
def test_hailo_checks_matching_firmware_is_ok(
    root: Root, monkeypatch: pytest.MonkeyPatch, firmware: str
) -> None:
    with_binding(monkeypatch, "4.23.0", ChipFacts("0000:01:00.0", "hailo8", firmware))
    root.put("sys/module/hailo_pci/version", "4.23.0")
    assert found_checks()["Hailo chip"].status == OK


@pytest.mark.parametrize(
    ("device", "binding", "status", "advice"),
    [
        ("0x2864", "4.21.0", OK, ""),
        ("0x2864", "4.23.0", NOTE, "pip install hailort-4.21.0-*.whl"),
        ("0x45c4", "5.1.1", NOTE, "--encoder-backend onnx"),
    ],
)
def test_hailo_checks_home_assistant_os_keeps_driver(
    *, root: Root, monkeypatch: pytest.MonkeyPatch, device: str, binding: str, status: str,
    advice: str,
) -> None:  # fmt: skip
    with_binding(monkeypatch, binding)
    root.pci(device, "8.0 GT/s PCIe")
    root.put("proc/sys/kernel/osrelease", "6.12.48-haos-raspi")
    root.put("sys/module/hailo_pci/version", "4.21.0")
    check = found_checks()["Hailo driver"]
    assert check.status == status
    assert advice in check.advice


@pytest.mark.parametrize(
    ("command", "device", "name", "advice"),
    [
        ("/usr/bin/hailo-ollama", "", "hailo-ollama", "sudo pkill hailo-ollama"),
        ("python3 -u -m frigate", "", "Frigate", "docker stop frigate"),
        (
            "python -m hailo_apps.python.simple_whisper_chat",
            "",
            "hailo-apps",
            "--share",
        ),
        ("rpicam-hello -t 0", "/dev/hailo0", "rpicam-hello", "sudo kill 42"),
        ("viewer", "/dev/h1x-0", "viewer", "--share"),
    ],
)
def test_hailo_checks_program_on_chip_is_named(
    *, root: Root, monkeypatch: pytest.MonkeyPatch, command: str, device: str, name: str,
    advice: str,
) -> None:  # fmt: skip
    with_binding(monkeypatch, "5.1.1")
    root.process(41, "bash")
    root.process(42, command, device)
    root.process(os.getpid(), "hailo-ollama", "/dev/hailo0")
    check = found_checks()["Hailo in use"]
    assert (check.status, check.found) == (NOTE, f"{name} (process 42)")
    assert advice in check.advice


def test_no_device_or_busy_names_program(monkeypatch: pytest.MonkeyPatch) -> None:
    class Binding:
        class Device:
            @staticmethod
            def scan() -> list[str]:
                return ["0000:01:00.0"]

    for users, text in (({42: "Frigate"}, "(Frigate, process 42); "), ({}, "; ")):
        monkeypatch.setattr(faults, "chip_users", lambda found=users: found)
        error = faults.Faults(Binding).no_device_or_busy()
        assert f"another program holds the Hailo chip {text}".replace(" ;", ";") in str(
            error
        )


def test_probe_of_empty_machine_finds_nothing(tmp_path: Path) -> None:
    assert probe.packages(tmp_path) == {}
    assert probe.chip_users(tmp_path) == {}
    assert not probe.is_home_assistant_os(tmp_path)
