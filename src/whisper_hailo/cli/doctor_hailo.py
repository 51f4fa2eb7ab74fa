"""The checks of `doctor` for a Hailo chip, its driver, its library and its files."""

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
from whisper_hailo.backends.hailo.hef_catalog import (
    EXAMPLES,
    PAIRS,
    RELEASES,
    matching_hef,
)
from whisper_hailo.backends.hailo.hef_contract import RUNS_ON
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.hailo.isolated_probe import (
    chips,
    compare_with_cpu,
    try_hef,
)
from whisper_hailo.convert.model_cache import cached_models
from whisper_hailo.core.errors import (
    DeviceError,
    HefError,
    ModelError,
    NoBindingError,
)
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
    """Return a finding; one with advice that is not broken is a note."""
    status = NOTE if advice else OK
    if broken:
        status = BROKEN
    return Check(name, status, found, advice)


def _failed_check(name: str, error: Exception) -> Check:
    """Return the finding of a check that an error ended: its message ends with the advice."""
    problem, _, advice = str(error).rpartition("; ")
    return Check(name, NOTE, problem or str(error), advice)


_GEN3_GTS = 8.0

_HAILORT_4: Final = 4
_HAILORT_5: Final = 5
"""HailoRT 4 drives Hailo-8 and 8L, HailoRT 5 later chips."""

_DRIVERS: Final = {_HAILORT_4: "hailo_pci", _HAILORT_5: "hailo1x_pci"}

_10H = "Hailo-10H"
_FIRMWARE = "hailofw"
"""Package of the firmware in Raspberry Pi OS Bookworm, whose kernel brings the driver."""

_FAMILIES: Final = {
    _HAILORT_4: ("hailort", "hailort-pcie-driver", _FIRMWARE, "python3-hailort"),
    _HAILORT_5: ("h10-hailort", "h10-hailort-pcie-driver", "python3-h10-hailort"),
}
"""Packages of one release: library, driver with firmware, binding."""

_INSTALL = "on a Pi: sudo apt install dkms hailo-all (AI HAT, AI HAT+) or hailo-h10-all (AI HAT+ 2)"
_SERVICE = "sudo systemctl enable --now hailort.service"
_USERS: Final = {
    "hailo-ollama": "it occupies the chip: sudo pkill hailo-ollama",
    "Frigate": "it occupies the chip: docker stop frigate",
    "hailo-apps": f"add --share here, too; on a Hailo-8 or 8L that needs {_SERVICE}",
}
"""Advice for known programs that use the chip."""


def hailo_checks() -> list[Check]:
    """Run all checks of the chip; none stops the others."""
    binding, version = _check_binding()
    traces = (
        probe.pci_devices(),
        probe.drivers(),
        probe.device_nodes(),
        library_versions(),
    )
    # No Hailo in this machine: three lines are enough.
    if not version and not any(traces):
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
            return finding(
                name, "installed but invisible to this environment", MAKE_VENV
            ), ""
        return finding(name, "not installed", f"the CPU is used; {_INSTALL}"), ""
    except DeviceError as error:
        return _failed_check(name, error), ""
    return finding(name, f"hailo_platform {version}"), version


def _needed_major() -> int:
    """Return the HailoRT major version that this machine's chip needs, by its bus or driver."""
    has_10h = any(device.kind == _10H for device in probe.pci_devices())
    has_driver = _DRIVERS[_HAILORT_5] in probe.drivers()
    return _HAILORT_5 if has_10h or has_driver else _HAILORT_4


def _same_release(family: int) -> str:
    """Return how to install all packages of one release."""
    unwanted = "hailort-pcie-driver" if _FIRMWARE in probe.packages() else _FIRMWARE
    names = " ".join(name for name in _FAMILIES[family] if name != unwanted)
    return f"install all of one release: sudo apt install --reinstall {names} && sudo reboot"


def _check_users() -> Iterator[Check]:
    """Check for other programs on the chip, and how to run beside them."""
    for pid, name in probe.chip_users().items():
        usual = f"add --share to both programs, or end it: sudo kill {pid}"
        yield finding(
            "Hailo in use", f"{name} (process {pid})", _USERS.get(name, usual)
        )


def _check_library(binding: str) -> Check:
    """Check the library against the binding."""
    name = "HailoRT library"
    versions = library_versions()
    if not versions:
        return finding(name, "none", f"it comes with the binding: {_INSTALL}")
    text = ", ".join(versions)
    if binding and binding not in versions:
        return finding(
            name, f"{text}, binding {binding}", _same_release(_needed_major())
        )
    if len(versions) > 1:
        advice = "several libraries conflict: keep the one of the driver's release"
        return finding(name, text, advice)
    return finding(name, text)


def _check_driver(binding: str) -> Check:
    """Check the driver against the binding; that of Home Assistant OS cannot be replaced."""
    name = "Hailo driver"
    drivers = probe.drivers()
    texts = [f"{driver} {version}" for driver, version in drivers.items()]
    text = ", ".join(texts) or "not loaded"
    if probe.is_home_assistant_os() and _needed_major() == _HAILORT_5:
        text += "; Home Assistant OS has none for a Hailo-10H"
        return finding(
            name, text, "use Raspberry Pi OS with this board, or --encoder-backend onnx"
        )
    if not drivers:
        return finding(
            name, text, f"not needed without a chip; {_INSTALL}, then reboot"
        )
    if len(drivers) > 1:
        advice = (
            "two drivers fight for one chip: blacklist the other one (docs/hailo.md)"
        )
        return finding(name, text, advice)
    needed = _DRIVERS.get(major(binding) or 0)
    if needed is not None and needed not in drivers:
        advice = f"HailoRT {binding} needs the driver {needed}: {_same_release(_needed_major())}"
        return finding(name, text, advice)
    (version,) = drivers.values()
    if binding and major(version) is not None and version != binding:
        advice = _same_release(_needed_major())
        if probe.is_home_assistant_os():
            advice = f"install the driver's release here: pip install hailort-{version}-*.whl"
        return finding(name, f"{text}, binding {binding}", advice)
    return finding(name, text)


def _check_nodes() -> Check:
    """Check that there is a device that this user may open."""
    name = "Hailo device"
    nodes = probe.device_nodes()
    if not nodes:
        advice = "the CPU is used; with a HAT fitted, check its cable and `lspci | grep Hailo`"
        return finding(name, "none", advice)
    text = ", ".join(map(str, nodes))
    if not all(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        advice = "reinstall the driver's package for its udev rule and reboot (docs/hailo.md)"
        return finding(name, f"{text}, not for this user", advice)
    return finding(name, text)


def _check_links() -> Iterator[Check]:
    """Check each chip on the bus: a slow link costs time at runs of several contexts."""
    for device in probe.pci_devices():
        speed = (
            "unknown speed"
            if device.speed_gts is None
            else f"{device.speed_gts:g} GT/s"
        )
        is_slow = device.speed_gts is not None and device.speed_gts < _GEN3_GTS
        can_be_faster = (device.best_gts or _GEN3_GTS) >= _GEN3_GTS
        advice = ""
        if is_slow and can_be_faster:
            advice = "for PCIe Gen 3 add dtparam=pciex1_gen=3 to /boot/firmware/config.txt, reboot"
        text = (
            f"{device.kind} at {device.address}, {speed}, {device.width or '?'} lanes"
        )
        yield finding("PCIe link", text, advice)


def _check_chips(version: str) -> list[Check]:
    """Check the chips, whether their firmware is the driver's, and whether arrays reach one."""
    name = "Hailo chip"
    try:
        devices = chips()
    except DeviceError as error:
        return [_failed_check(name, error), _check_buffers(version, None)]
    if not devices:
        advice = "the CPU is used; with a HAT fitted, check its cable, power and driver"
        return [finding(name, "none", advice), _check_buffers(version, None)]
    checks = []
    for chip in devices:
        text = f"{chip.arch} at {chip.device}"
        if chip.firmware:
            text += f", firmware {chip.firmware}"
        if chip.temperature_c is not None:
            text += f", {chip.temperature_c:.1f} °C"
        arches = " and ".join(sorted(RUNS_ON.get(chip.arch, {"unknown"})))
        text += f"; it takes HEFs for {arches}"
        checks.append(finding(name, text, _advise_firmware(chip.firmware)))
    arch = devices[0].arch
    return [
        *checks,
        _check_buffers(version, _smallest_hef(arch)),
        *_check_answers(arch),
    ]


def _check_answers(arch: str) -> Iterator[Check]:
    """Check that the encoders of the models in the cache answer on the chip as on the CPU."""
    name = "Hailo answer"
    if arch not in RUNS_ON:
        return
    for model in cached_models():
        path = matching_hef(model.directory, model.spec, arch, "encoder")
        if path is None:
            continue
        try:
            figures = compare_with_cpu(path, model.directory)
        except (DeviceError, ModelError) as error:
            problem, _, advice = str(error).rpartition("; ")
            yield finding(name, problem, advice, broken=True)
        else:
            yield finding(
                name, f"{path.name} as {model.spec.name} on the CPU: {figures}"
            )


def _advise_firmware(firmware: str) -> str:
    """Return what to do about a firmware of another release than the driver; empty: nothing."""
    drivers = probe.drivers().values()
    match = re.match(r"\d+\.\d+\.\d+", firmware)
    if match is None or not drivers or match.group() in drivers:
        return ""
    package = (
        _FIRMWARE if _FIRMWARE in probe.packages() else _FAMILIES[_needed_major()][1]
    )
    return (
        f"the driver is {', '.join(drivers)} and loads the firmware at start, reinstall "
        f"that: sudo apt install --reinstall {package} && sudo reboot"
    )


def _check_buffers(version: str, hef: Path | None) -> Check:
    """Check that the binding takes NumPy's arrays, which only a running network proves."""
    name = "Hailo buffers"
    numpy = f"NumPy {metadata.version('numpy')}"
    if hef is not None:
        try:
            try_hef(hef)
        except (DeviceError, HefError) as error:
            return _failed_check(name, error)
        return finding(name, f"{hef.name} ran on arrays of {numpy}")
    untried = "not tried: no chip with a fetched HEF"
    if knows_numpy_2(version) or (major(metadata.version("numpy")) or 0) < 2:
        return finding(name, f"{numpy}, {untried}")
    advice = f"it probably treats such arrays as empty: {OLDER_NUMPY}"
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
    name = "Hailo service"
    state = probe.service_state()
    if state == "active":
        return finding(name, state)
    advice = f"only --share on a Hailo-8 or 8L needs it: {_SERVICE}"
    return finding(name, state or "unknown: systemctl is not available here", advice)


def check_throttling() -> Check:
    """Check whether the board was throttled."""
    state = probe.throttling()
    text = "none" if state.known else "this machine does not report it"
    advice = ""
    if state.known and (state.now or state.before):
        now = ", ".join(state.now) or "none now"
        before = ", ".join(state.before) or "none"
        text = f"{now}; since the start: {before}"
        advice = (
            "against under-voltage use a 27 W supply, against heat a fan for board and HAT; do not "
            "measure speed meanwhile"
        )
    if state.cpu_c is not None:
        text += f", processor at {state.cpu_c:.1f} °C"
    return finding("throttling", text, advice)


def check_hefs() -> list[Check]:
    """Check the fetched HEFs, where there are some."""
    checks: list[Check] = []
    for path in _find_fetched():
        name = "/".join(path.parts[-3:])
        try:
            hef = read_hef(path, verify=False)
        except HefError as error:
            checks.append(
                finding("HEF files", f"{name} is broken", f"fetch it again: {error}")
            )
        else:
            facts = [hef.arch, f"compiler {hef.compiler_version}"]
            facts += [
                f"{group.name} ({group.contexts} contexts)" for group in hef.groups
            ]
            checks.append(finding("HEF files", f"{name}: {', '.join(facts)}"))
    if checks:
        return checks
    pairs = [f"{pair.variant} {pair.window_s} s for {pair.arch}" for pair in PAIRS]
    advice = (
        "fetch one with: whisper-hailo fetch-hef tiny|base|small --arch CHIP, or compile your own "
        f"model's. The vendor publishes {', '.join(pairs)} below {EXAMPLES}, small for hailo10h "
        f"below {RELEASES} (not verified from here)"
    )
    return [finding("HEF files", f"none in {cache_root() / 'hefs'}", advice)]


def _find_fetched() -> list[Path]:
    return sorted((cache_root() / "hefs").glob("*/*/*.hef"))
