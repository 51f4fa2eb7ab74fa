"""What `doctor` says of a Hailo chip and all that it needs."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from whisper_hailo.backends.hailo import probe
from whisper_hailo.backends.hailo.binding import (
    MAKE_VENV,
    OLDER_NUMPY,
    binding_version,
    knows_numpy_2,
    library_versions,
    load_binding,
    major,
    system_binding,
)
from whisper_hailo.backends.hailo.hef_catalog import EXAMPLES, PAIRS, RELEASES
from whisper_hailo.backends.hailo.hef_contract import RUNS_ON
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.hailo.isolated_probe import chips, try_hef
from whisper_hailo.core.errors import DeviceError, HefError, NoBindingError
from whisper_hailo.core.paths import cache_root

OK: Final = "ok"
NOTE: Final = "note"
BROKEN: Final = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        status: `ok`, `note` (transcription works without it) or `broken`.
        advice: what to do; empty when nothing has to be done.
    """

    name: str
    status: str
    found: str
    advice: str = ""


def finding(name: str, found: str, advice: str = "", *, broken: bool = False) -> Check:
    """Return a finding, a note if it has an advice and is not broken."""
    return Check(name, BROKEN if broken else NOTE if advice else OK, found, advice)


def _failed_check(name: str, error: Exception) -> Check:
    found, _, advice = str(error).rpartition("; ")
    return Check(name, NOTE, found or str(error), advice)


_GEN3_GTS = 8.0
_LEGACY, _LATER = 4, 5
_DRIVERS: Final = {_LEGACY: "hailo_pci", _LATER: "hailo1x_pci"}
"""HailoRT 4 drives Hailo-8 and 8L, 5 later chips."""

_10H = "Hailo-10H"
_FIRMWARE = "hailofw"
"""Raspberry Pi OS Bookworm's package of it; its driver is the kernel's."""

_FAMILIES: Final = {
    _LEGACY: ("hailort", "hailort-pcie-driver", _FIRMWARE, "python3-hailort"),
    _LATER: ("h10-hailort", "h10-hailort-pcie-driver", "python3-h10-hailort"),
}
"""Packages of one release: library, driver with firmware, binding."""

_INSTALL = "on a Pi: sudo apt install dkms hailo-all (AI HAT, AI HAT+) or hailo-h10-all (AI HAT+ 2)"
_SERVICE = "sudo systemctl enable --now hailort.service"
_USERS: Final = {
    "hailo-ollama": "it takes the chip for itself: sudo pkill hailo-ollama",
    "Frigate": "it takes the chip for itself: docker stop frigate",
    "hailo-apps": f"add --share here, too; on a Hailo-8 or 8L that needs {_SERVICE}",
}
"""How to run beside programs that are known."""


def hailo_checks() -> list[Check]:
    """Run all checks of the chip; none stops the others."""
    binding, version = _check_binding()
    traces = (probe.pci_devices(), probe.drivers(), probe.device_nodes(), library_versions())
    if not version and not any(traces):  # not a machine with a Hailo: three lines are enough
        return [binding, _check_nodes(), check_throttling()]
    return [
        binding,
        _check_library(version),
        _check_driver(version),
        _check_nodes(),
        *_check_links(),
        *(_check_chips(version) if version else []),
        *_check_users(),
        check_service(),
        check_throttling(),
        *check_hefs(),
    ]


def _check_binding() -> tuple[Check, str]:
    """Check the binding; return its version if it can be imported."""
    name = "Hailo binding"
    try:
        version = binding_version(load_binding())
    except NoBindingError:
        if system_binding() is not None:
            return finding(name, "installed but invisible to this environment", MAKE_VENV), ""
        return finding(name, "not installed", f"the CPU is used; {_INSTALL}"), ""
    except DeviceError as error:
        return _failed_check(name, error), ""
    return finding(name, f"hailo_platform {version}"), version


def _needed_major() -> int:
    """Return the HailoRT major version that this machine's chip needs, by its bus or driver."""
    later = any(device.kind == _10H for device in probe.pci_devices())
    return _LATER if later or _DRIVERS[_LATER] in probe.drivers() else _LEGACY


def _same_release(family: int) -> str:
    found = probe.packages()
    unwanted = "hailort-pcie-driver" if _FIRMWARE in found else _FIRMWARE
    names = " ".join(name for name in _FAMILIES[family] if name != unwanted)
    return f"install all of one release: sudo apt install --reinstall {names} && sudo reboot"


def _check_users() -> Iterator[Check]:
    """Check for other programs on the chip, and how to run beside them."""
    for pid, name in probe.chip_users().items():
        usual = f"add --share to both programs, or end it: sudo kill {pid}"
        yield finding("Hailo in use", f"{name} (process {pid})", _USERS.get(name, usual))


def _check_library(binding: str) -> Check:
    versions = library_versions()
    found, advice = ", ".join(versions) or "none", ""
    if binding and versions and binding not in versions:
        found, advice = f"{found}, binding {binding}", _same_release(_needed_major())
    elif len(versions) > 1:
        advice = "several libraries are a tangle: keep the one of the driver's release"
    elif not versions:
        advice = f"it comes with the binding: {_INSTALL}"
    return finding("HailoRT library", found, advice)


def _check_driver(binding: str) -> Check:
    """Check the driver against the binding; that of Home Assistant OS cannot be replaced."""
    loaded, on_home_assistant = probe.drivers(), probe.is_home_assistant_os()
    found, advice = ", ".join(f"{n} {v}" for n, v in loaded.items()) or "not loaded", ""
    version = next(iter(loaded.values()), "")
    wanted = _DRIVERS.get(major(binding) or 0)
    if on_home_assistant and _needed_major() == _LATER:
        found += "; Home Assistant OS has none for a Hailo-10H"
        advice = "use Raspberry Pi OS with this board, or --encoder-backend onnx"
    elif not loaded:
        advice = f"without a chip nothing is missing; {_INSTALL}, then reboot"
    elif len(loaded) > 1:
        advice = "two drivers fight for one chip: blacklist the other one (docs/hailo.md)"
    elif wanted is not None and wanted not in loaded:
        advice = f"HailoRT {binding} wants the driver {wanted}: {_same_release(_needed_major())}"
    elif binding and major(version) is not None and version != binding:
        found, advice = f"{found}, binding {binding}", _same_release(_needed_major())
        if on_home_assistant:
            advice = f"install the driver's release here: pip install hailort-{version}-*.whl"
    return finding("Hailo driver", found, advice)


def _check_nodes() -> Check:
    nodes = probe.device_nodes()
    found, advice = ", ".join(map(str, nodes)) or "none", ""
    if not nodes:
        advice = "the CPU is used; with a HAT fitted, check its cable and `lspci | grep Hailo`"
    elif not all(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        found += ", not for this user"
        advice = "reinstall the driver's package for its udev rule and reboot (docs/hailo.md)"
    return finding("Hailo device", found, advice)


def _check_links() -> Iterator[Check]:
    """Check each chip on the bus: a slow link costs time at runs of several contexts."""
    for device in probe.pci_devices():
        speed = "unknown speed" if device.speed_gts is None else f"{device.speed_gts:g} GT/s"
        slow = device.speed_gts is not None and device.speed_gts < _GEN3_GTS
        can_more = slow and (device.best_gts or _GEN3_GTS) >= _GEN3_GTS
        advice = "for PCIe Gen 3 add dtparam=pciex1_gen=3 to /boot/firmware/config.txt, reboot"
        found = f"{device.kind} at {device.address}, {speed}, {device.width or '?'} lanes"
        yield finding("PCIe link", found, advice if can_more else "")


def _check_chips(version: str) -> list[Check]:
    """Check the chips, whether their firmware is the driver's, and whether arrays reach one."""
    name, drivers = "Hailo chip", probe.drivers().values()
    try:
        found = chips()
    except DeviceError as error:
        return [_failed_check(name, error), _check_buffers(version, None)]
    if not found:
        advice = "the CPU is used; with a HAT fitted, check its cable, power and driver"
        return [finding(name, "none", advice), _check_buffers(version, None)]
    checks = []
    for chip in found:
        degrees = "" if chip.temperature_c is None else f", {chip.temperature_c:.1f} °C"
        firmware = f", firmware {chip.firmware}" if chip.firmware else ""
        takes = " and ".join(sorted(RUNS_ON.get(chip.arch, {"unknown"})))
        stated, advice = re.match(r"\d+\.\d+\.\d+", chip.firmware), ""
        if stated is not None and drivers and stated.group() not in drivers:
            package = _FIRMWARE if _FIRMWARE in probe.packages() else _FAMILIES[_needed_major()][1]
            advice = (
                f"the driver is {', '.join(drivers)} and loads the firmware at start, reinstall "
                f"that: sudo apt install --reinstall {package} && sudo reboot"
            )
        text = f"{chip.arch} at {chip.device}{firmware}{degrees}; it takes HEFs for {takes}"
        checks.append(finding(name, text, advice))
    return [*checks, _check_buffers(version, _smallest_hef(found[0].arch))]


def _check_buffers(version: str, hef: Path | None) -> Check:
    """Check that the binding takes NumPy's arrays, which only a running network proves."""
    name, numpy = "Hailo buffers", f"NumPy {metadata.version('numpy')}"
    if hef is not None:
        try:
            try_hef(hef)
        except (DeviceError, HefError) as error:
            return _failed_check(name, error)
        return finding(name, f"{hef.name} ran on arrays of {numpy}")
    untried = "not tried: no chip with a fetched HEF"
    if knows_numpy_2(version) or (major(metadata.version("numpy")) or 0) < 2:
        return finding(name, f"{numpy}, {untried}")
    advice = f"it most likely takes such arrays for empty: {OLDER_NUMPY}"
    return finding(name, f"{numpy} with HailoRT {version}, {untried}", advice)


def _smallest_hef(arch: str) -> Path | None:
    """Return the quickest to load of the fetched HEFs that a chip takes."""
    for path in sorted(_find_fetched(), key=lambda path: path.stat().st_size):
        with contextlib.suppress(HefError):
            if read_hef(path, verify=False).arch in RUNS_ON.get(arch, ()):
                return path
    return None


def check_service() -> Check:
    """Check whether HailoRT's service runs."""
    state = probe.service_state()
    advice = f"only --share on a Hailo-8 or 8L needs it: {_SERVICE}"
    found = state or "not to be asked here"
    return finding("Hailo service", found, "" if state == "active" else advice)


def check_throttling() -> Check:
    """Check whether the board was throttled."""
    seen = probe.throttling()
    text, advice = "none" if seen.known else "this machine does not tell", ""
    if seen.known and (seen.now or seen.before):
        now, before = (", ".join(seen.now) or "none now", ", ".join(seen.before) or "none")
        text = f"{now}; since the start: {before}"
        advice = "under-voltage: a 27 W supply; heat: a fan for board and HAT. Times are no measure"
    text += "" if seen.cpu_c is None else f", processor at {seen.cpu_c:.1f} °C"
    return finding("throttling", text, advice)


def check_hefs() -> list[Check]:
    """Check the fetched HEFs, where there are some."""
    checks = []
    for path in _find_fetched():
        name = "/".join(path.parts[-3:])
        try:
            hef = read_hef(path, verify=False)
        except HefError as error:
            checks.append(finding("HEF files", f"{name} is broken", f"fetch it again: {error}"))
        else:
            nets = ", ".join(f"{group.name} ({group.contexts} contexts)" for group in hef.groups)
            facts = f"{hef.arch}, compiler {hef.compiler_version}, {nets}"
            checks.append(finding("HEF files", f"{name}: {facts}"))
    known = ", ".join(f"{k.variant} {k.window_s} s for {k.arch}" for k in PAIRS)
    advice = (
        "fetch one with: whisper-hailo fetch-hef tiny|base|small --arch CHIP, or compile your own "
        f"model's. The vendor publishes {known} below {EXAMPLES}, small for hailo10h below "
        f"{RELEASES} (not verified from here)"
    )
    return checks or [finding("HEF files", f"none in {cache_root() / 'hefs'}", advice)]


def _find_fetched() -> list[Path]:
    return sorted((cache_root() / "hefs").glob("*/*/*.hef"))
