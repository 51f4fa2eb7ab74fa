"""Checks of a Hailo with parts that are missing, slow, or closed to this user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.hailo_machine import Root, found_checks, root, with_binding
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo import probe
from whisper_hailo.backends.hailo.chip import ChipFacts
from whisper_hailo.cli import doctor_hailo
from whisper_hailo.cli.doctor_hailo import NOTE, OK, Check
from whisper_hailo.core.errors import NoBindingError

__all__ = ["root"]


def test_hailo_checks_driver_without_binding_are_noted(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a machine with a Hailo: all is looked at but what only the binding tells."""
    error = NoBindingError("none")
    monkeypatch.setattr(
        doctor_hailo, "load_binding", lambda: (_ for _ in ()).throw(error)
    )
    monkeypatch.setattr(doctor_hailo, "system_binding", lambda: None)
    root.put("sys/module/hailo_pci/version", "4.20.0")
    checks = found_checks()
    assert [*checks] == [
        "Hailo binding", "HailoRT library", "Hailo driver",
        "Hailo device", "Hailo service", "throttling", "HEF files",
    ]  # fmt: skip
    assert (checks["Hailo binding"].status, checks["Hailo binding"].found) == (
        NOTE,
        "not installed",
    )
    assert checks["Hailo binding"].advice
    assert (checks["HailoRT library"].status, checks["HailoRT library"].found) == (
        NOTE,
        "none",
    )
    assert checks["HailoRT library"].advice
    assert (checks["Hailo driver"].status, checks["Hailo driver"].found) == (
        OK,
        "hailo_pci 4.20.0",
    )


def test_hailo_checks_binding_alone_is_noted(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    del root
    with_binding(monkeypatch, "4.23.0")
    checks = found_checks()
    assert (checks["Hailo driver"].status, checks["Hailo driver"].found) == (
        NOTE,
        "not loaded",
    )
    assert "reboot" in checks["Hailo driver"].advice
    assert (checks["Hailo chip"].status, checks["Hailo chip"].found) == (NOTE, "none")
    assert checks["Hailo chip"].advice
    assert "not tried" in checks["Hailo buffers"].found
    assert (checks["Hailo device"].status, checks["Hailo device"].found) == (
        NOTE,
        "none",
    )


@pytest.mark.parametrize(
    ("now", "best", "status"),
    [
        ("5.0 GT/s PCIe", "8.0 GT/s PCIe", NOTE),
        ("5.0 GT/s PCIe", "16.0 GT/s PCIe", NOTE),
        ("5.0 GT/s PCIe", "Unknown", NOTE),
        ("5.0 GT/s PCIe", "5.0 GT/s PCIe", OK),
        ("8.0 GT/s PCIe", "16.0 GT/s PCIe", OK),
        ("16.0 GT/s PCIe", "16.0 GT/s PCIe", OK),
        ("Unknown", "8.0 GT/s PCIe", OK),
    ],
)
def test_hailo_checks_slow_pcie_link_is_noted(
    root: Root, monkeypatch: pytest.MonkeyPatch, now: str, best: str, status: str
) -> None:
    with_binding(monkeypatch, "4.23.0")
    root.pci("0x2864", now)
    place = "sys/bus/pci/devices/0000:01:00.0"
    root.put(f"{place}/max_link_speed", best)
    root.put(f"{place}/current_link_width", "4")
    check = found_checks()["PCIe link"]
    assert check.status == status
    assert ("pciex1_gen=3" in check.advice) == (status == NOTE)
    speed = (
        "unknown speed"
        if now == "Unknown"
        else now.removesuffix(" PCIe").replace(".0", "")
    )
    assert f" at 0000:01:00.0, {speed}, 4 lanes" in check.found


@pytest.mark.parametrize("lacking", [os.R_OK, os.W_OK])
def test_hailo_checks_device_needs_read_and_write(
    root: Root, monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    root.put("dev/hailo0", "")
    monkeypatch.setattr(doctor_hailo.os, "access", lambda _, mode: not mode & lacking)
    check = found_checks()["Hailo device"]
    assert (check.status, bool(check.advice)) == (NOTE, True)
    monkeypatch.setattr(doctor_hailo.os, "access", lambda *_: True)
    assert found_checks()["Hailo device"] == Check(
        "Hailo device", OK, f"{root.folder}/dev/hailo0"
    )


@pytest.mark.parametrize(
    ("bits", "found"),
    [
        ("0x50000", "none now; since the start: under-voltage, throttled"),
        ("0x1", "under-voltage; since the start: none"),
        ("0x0", "none"),
    ],
)
def test_check_throttling_names_power_and_heat(
    root: Root, bits: str, found: str
) -> None:
    place = "sys/devices/platform/soc/soc:firmware/get_throttled"
    root.put(place, bits.removeprefix("0x"))
    check = doctor_hailo.check_throttling()
    assert (check.status, check.found) == (OK if found == "none" else NOTE, found)
    assert bool(check.advice) == (check.status == NOTE)


@pytest.mark.parametrize(
    ("state", "status", "found"),
    [
        ("active", OK, "active"),
        ("inactive", NOTE, "inactive"),
        ("", NOTE, "unknown: systemctl is not available here"),
    ],
)
def test_check_service_inactive_is_noted(
    monkeypatch: pytest.MonkeyPatch, state: str, status: str, found: str
) -> None:
    monkeypatch.setattr(probe, "service_state", lambda: state)
    check = doctor_hailo.check_service()
    assert (check.status, check.found) == (status, found)
    assert ("--share" in check.advice) == (status == NOTE)


@pytest.mark.parametrize(
    ("binding", "driver", "version", "status"),
    [
        ("4.23.0", "hailo_pci", "4.23.0", OK),
        ("5.1.1", "hailo1x_pci", "5.1.1", OK),
        ("4.23.0", "hailo1x_pci", "4.23.0", NOTE),
        ("4.23.0", "hailo_pci", "", OK),  # some tell no version
    ],
)
def test_hailo_checks_driver_of_same_release_is_ok(
    *, root: Root, monkeypatch: pytest.MonkeyPatch, binding: str, driver: str, version: str,
    status: str,
) -> None:  # fmt: skip
    with_binding(monkeypatch, binding)
    root.put(f"sys/module/{driver}/version", version)
    check = found_checks()["Hailo driver"]
    assert check.status == status
    assert check.found == f"{driver} {version or 'unknown'}"


def test_hailo_checks_have_a_line_per_chip(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    del root
    with_binding(monkeypatch, "5.1.1")
    found = [
        ChipFacts("0000:01:00.0", "hailo10h"),
        ChipFacts("0000:02:00.0", "hailo99", "9.9"),
    ]
    monkeypatch.setattr(doctor_hailo, "chips", lambda: found)
    checks = [
        check for check in doctor_hailo.hailo_checks() if check.name == "Hailo chip"
    ]
    assert [(check.status, check.found) for check in checks] == [
        (
            OK,
            "hailo10h at 0000:01:00.0; it takes HEFs for hailo10h and hailo15h and hailo15m",
        ),
        (OK, "hailo99 at 0000:02:00.0, firmware 9.9; it takes HEFs for unknown"),
    ]


def test_check_hefs_has_a_line_per_file(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of their names, whatever the system's."""
    nets = [Net("e", {"e/i": (1, 10, 8)}, {"e/o": (1, 5, 8)}, contexts=4),
            Net("d", {"d/i": (1, 10, 8)}, {"d/o": (1, 5, 8)}, contexts=1)]  # fmt: skip
    for name, content in (
        ("a", hef_bytes(Wish(nets, arch="hailo8"))),
        ("b", b"rotten"),
    ):
        path = root.folder / "cache/hefs/hailo8/tiny" / f"{name}.hef"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    paths = sorted(root.folder.rglob("*.hef"), reverse=True)
    monkeypatch.setattr(Path, "glob", lambda *_: iter(paths))
    good, bad = doctor_hailo.check_hefs()
    assert (good.status, good.found) == (
        OK, "hailo8/tiny/a.hef: hailo8, compiler 3.33.0, e (4 contexts), d (1 contexts)",
    )  # fmt: skip
    assert (bad.status, bad.found) == (NOTE, "hailo8/tiny/b.hef is broken")


def test_hailo_checks_library_without_binding_is_ok(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = NoBindingError("none")
    monkeypatch.setattr(
        doctor_hailo, "load_binding", lambda: (_ for _ in ()).throw(error)
    )
    monkeypatch.setattr(doctor_hailo, "system_binding", lambda: None)
    root.put("usr/lib/libhailort.so.4.20.0", "")
    assert found_checks()["HailoRT library"] == Check("HailoRT library", OK, "4.20.0")
