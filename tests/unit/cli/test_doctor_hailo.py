"""Checks of a Hailo, on machines made of files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fakes.hailo_machine import Root, found_checks, root, with_binding
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo import probe
from whisper_hailo.backends.hailo.chip import ChipFacts
from whisper_hailo.cli import doctor_hailo
from whisper_hailo.cli.doctor_hailo import NOTE, OK
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
