"""Checks of a Hailo, on machines made of files: whole, and with missing or slow parts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fakes.hailo_machine import Root, found_checks, root, with_binding
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo import probe
from whisper_hailo.backends.hailo.chip import ChipFacts
from whisper_hailo.cli import doctor_hailo
from whisper_hailo.cli.doctor_hailo import NOTE, OK, Check
from whisper_hailo.core.errors import (
    BindingMismatchError,
    NoBindingError,
    NoDeviceError,
)

__all__ = ["root"]


def test_hailo_checks_without_hailo_are_few(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = NoBindingError("none")
    monkeypatch.setattr(
        doctor_hailo, "load_binding", lambda: (_ for _ in ()).throw(error)
    )
    monkeypatch.setattr(doctor_hailo, "system_binding", lambda: None)
    assert list(found_checks()) == ["Hailo binding", "Hailo device", "throttling"]
    monkeypatch.setattr(doctor_hailo, "system_binding", lambda: Path("/usr/lib/x"))
    check = found_checks()["Hailo binding"]
    assert "--system-site-packages" in check.advice


def test_hailo_checks_of_good_machine_are_ok(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    chip = ChipFacts("0000:01:00.0", "hailo8", "4.23.0", 51.25)
    with_binding(monkeypatch, "4.23.0", chip)
    root.pci("0x2864", "8.0 GT/s PCIe")
    root.put("sys/module/hailo_pci/version", "4.23.0")
    root.put("usr/lib/libhailort.so.4.23.0", "")
    root.put("dev/hailo0", "")
    root.put("sys/devices/platform/soc/soc:firmware/get_throttled", "0")
    root.put("sys/class/thermal/thermal_zone0/type", "cpu-thermal")
    root.put("sys/class/thermal/thermal_zone0/temp", "61250")
    monkeypatch.setattr(probe, "service_state", lambda: "active")
    folder = root.folder / "cache/hefs/hailo8/tiny"
    folder.mkdir(parents=True)
    net = Net("e", {"e/i": (1, 1000, 80)}, {"e/o": (1, 500, 384)}, contexts=4)
    (folder / "e.hef").write_bytes(hef_bytes(Wish([net])))
    checks = found_checks()
    assert {check.status for check in checks.values()} == {OK}
    assert checks["PCIe link"].found == "Hailo-8 or 8L at 0000:01:00.0, 8 GT/s, 1 lanes"
    assert checks["Hailo chip"].found == (
        "hailo8 at 0000:01:00.0, firmware 4.23.0, 51.2 °C; it takes HEFs for hailo8 and hailo8l"
    )
    assert checks["throttling"].found == "none, processor at 61.2 °C"
    expected = "hailo8/tiny/e.hef: hailo8l, compiler 3.33.0, e (4 contexts)"
    assert checks["HEF files"].found == expected
    assert "e.hef" in checks["Hailo buffers"].found
    (folder / "e.hef").write_bytes(b"rotten")
    assert found_checks()["HEF files"].status == NOTE


def test_hailo_checks_of_conflicting_releases_are_noted(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 4.x binding beside a 5.x library, both drivers, a slow link, and too little power."""
    with_binding(
        monkeypatch, "4.20.0", NoDeviceError("no Hailo chip found; check the cable")
    )
    root.pci("0x45c4", "5.0 GT/s PCIe")
    root.put("sys/module/hailo_pci/version", "4.20.0")
    root.put("sys/module/hailo1x_pci/version", "5.1.1")
    root.put("usr/lib/libhailort.so.5.1.1", "")
    root.put("sys/devices/platform/soc/soc:firmware/get_throttled", "50005")
    checks = found_checks()
    assert checks.pop("Hailo binding").status == OK, "by itself it can be imported"
    # A binding that Python 3.13 can import was built for NumPy 2, whatever its version.
    built_for_numpy_2 = sys.version_info >= (3, 13)
    assert checks.pop("Hailo buffers").status == (OK if built_for_numpy_2 else NOTE)
    assert {check.status for check in checks.values()} == {NOTE}
    assert all(check.advice for check in checks.values())
    assert checks["HailoRT library"].found == "5.1.1, binding 4.20.0"
    assert "pciex1_gen=3" in checks["PCIe link"].advice
    assert "Hailo-10H" in checks["PCIe link"].found
    assert checks["throttling"].found == (
        "under-voltage, throttled; since the start: under-voltage, throttled"
    )


@pytest.mark.parametrize(
    ("binding", "driver", "version", "expected"),
    [
        ("5.1.1", "hailo_pci", "4.23.0", "hailo1x_pci"),
        ("4.23.0", "hailo_pci", "4.20.0", "--reinstall hailort"),
    ],
)
def test_hailo_checks_driver_of_other_release_is_noted(
    *,
    root: Root,
    monkeypatch: pytest.MonkeyPatch,
    binding: str,
    driver: str,
    version: str,
    expected: str,
) -> None:
    with_binding(monkeypatch, binding)
    root.put(f"sys/module/{driver}/version", version)
    assert expected in found_checks()["Hailo driver"].advice


def test_hailo_checks_two_libraries_or_closed_node_are_noted(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_binding(monkeypatch, "4.23.0")
    root.put("usr/lib/libhailort.so.4.23.0", "")
    root.put("usr/lib/libhailort.so.4.20.0", "")
    root.put("dev/h1x-0", "")
    assert found_checks()["HailoRT library"].status == NOTE
    monkeypatch.setattr(doctor_hailo.os, "access", lambda *_: False)
    check = found_checks()["Hailo device"]
    assert "h1x-0" in check.found
    assert "udev" in check.advice


def test_hailo_checks_binding_mismatch_has_its_advice(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = BindingMismatchError(
        "it does not run with this NumPy; pip install 'numpy<2'"
    )
    monkeypatch.setattr(
        doctor_hailo, "load_binding", lambda: (_ for _ in ()).throw(error)
    )
    check = found_checks()["Hailo binding"]
    assert (check.found, check.advice) == (
        "it does not run with this NumPy",
        "pip install 'numpy<2'",
    )


@pytest.mark.parametrize(
    ("binding", "numpy", "status"),
    [("4.23.0", "2.2.1", NOTE), ("4.23.0", "1.26.4", OK), ("5.1.1", "2.2.1", OK)],
)
def test_hailo_checks_buffers_follow_numpy_version(
    *,
    root: Root,
    monkeypatch: pytest.MonkeyPatch,
    binding: str,
    numpy: str,
    status: str,
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    monkeypatch.setattr(doctor_hailo.metadata, "version", lambda _: numpy)
    for chip in (
        None,
        NoDeviceError("none; look"),
        ChipFacts("0000:01:00.0", "hailo8"),
    ):
        with_binding(monkeypatch, binding, chip)
        check = found_checks()["Hailo buffers"]
        assert (check.status, f"NumPy {numpy}" in check.found) == (status, True)
        assert ("pip install 'numpy<2'" in check.advice) == (status == NOTE)


def test_hailo_checks_buffers_are_tried_with_smallest_hef(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smallest file that the chip takes is run; what it says counts, not the versions."""
    with_binding(monkeypatch, "5.1.1", ChipFacts("0000:01:00.0", "hailo8l"))
    tried = []

    def fail(path: Path) -> None:
        tried.append(path.name)
        raise BindingMismatchError(
            "HailoRT treats arrays as empty; pip install 'numpy<2'"
        )

    monkeypatch.setattr(doctor_hailo, "try_hef", fail)
    net = Net("e", {"e/i": (1, 1000, 80)}, {"e/o": (1, 500, 384)})
    for name, arch, weights in (
        ("large", "hailo8l", 9000),
        ("s", "hailo8l", 9),
        ("x", "hailo8", 1),
    ):
        path = root.folder / "cache/hefs/hailo8l/tiny" / f"{name}.hef"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(hef_bytes(Wish([net], arch=arch, weights=bytes(weights))))
    check = found_checks()["Hailo buffers"]
    assert tried == ["s.hef"]
    assert (check.status, check.found) == (NOTE, "HailoRT treats arrays as empty")
    assert check.advice == "pip install 'numpy<2'"


def test_throttling_reads_vcgencmd_on_this_machine_only(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits 0 and 18: too little voltage now, throttled since the start."""
    calls: list[tuple[str, ...]] = []

    def answer(*words: str) -> str:
        calls.append(words)
        return "throttled=0x40001"

    monkeypatch.setattr(probe, "run_command", answer)
    assert not probe.throttling().known
    assert calls == []
    monkeypatch.setattr(probe, "ROOT", root.folder)
    found = probe.throttling()
    assert calls == [("vcgencmd", "get_throttled")]
    assert (len(found.now), len(found.before), found.known) == (1, 1, True)
    root.put("sys/devices/platform/soc/soc:firmware/get_throttled", "0")
    assert probe.throttling() == probe.Throttling((), (), None, known=True)
    assert len(calls) == 1, "the kernel says it"


def test_service_state_is_first_line_of_systemctl(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "systemctl"
    for script, expected in (
        (
            '[ "$*" = "is-active hailort.service" ] && printf "\\nactive\\nmore\\n"; exit 3',
            "active",
        ),
        ("echo trouble >&2", ""),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        assert probe.service_state() == expected
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe.service_state() == ""


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
