"""What the kernel and the system say of a Hailo chip and its surroundings, without the binding."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path("/")
_VENDOR: Final = "0x1e60"
_CHIPS: Final = {"0x2864": "Hailo-8 or 8L", "0x45c4": "Hailo-10H"}
_DRIVERS: Final = ("hailo_pci", "hailo1x_pci", "hailo_integrated_nnc")
_THROTTLED_BITS: Final = (
    "under-voltage",
    "clock capped",
    "throttled",
    "soft temperature limit",
)
_SINCE_BOOT: Final = 16
"""Places from the bits that say `now` to those that say `since the start`."""

_COMMAND_S: Final = 5.0

PROGRAMS: Final = {
    "hailo-ollama": r"(^|/)hailo-ollama\b",
    "Frigate": r"\bfrigate\b",
    "hailo-apps": r"\bhailo_apps\b|\bhailo-apps\b",
}
"""Programs that use a chip, by their command lines."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A Hailo chip on the bus.

    Attributes:
        kind: name of the chip.
        speed_gts: of the link in gigatransfers per second: 5 with Gen 2, 8 with Gen 3.
        width: number of lanes.
        best_gts: the most that the chip can.
    """

    address: str
    kind: str
    speed_gts: float | None
    width: str
    best_gts: float | None


@dataclass(frozen=True, slots=True)
class Throttling:
    """What holds the processor back.

    Attributes:
        now: reasons, such as `under-voltage`.
        before: those since the start.
        cpu_c: temperature of the processor.
        known: the machine reports throttling at all.
    """

    now: tuple[str, ...]
    before: tuple[str, ...]
    cpu_c: float | None
    known: bool


def pci_devices(root: Path = ROOT) -> list[PciDevice]:
    """Return Hailo chips on the PCIe bus, whether or not a driver has them."""
    devices = []
    for folder in sorted(root.glob("sys/bus/pci/devices/*")):
        if _read_text(folder / "vendor") != _VENDOR:
            continue
        device_id = _read_text(folder / "device")
        device = PciDevice(
            address=folder.name,
            kind=_CHIPS.get(device_id, f"Hailo device {device_id}"),
            speed_gts=_read_speed(folder / "current_link_speed"),
            width=_read_text(folder / "current_link_width"),
            best_gts=_read_speed(folder / "max_link_speed"),
        )
        devices.append(device)
    return devices


def drivers(root: Path = ROOT) -> dict[str, str]:
    """Return loaded Hailo kernel modules, with their versions."""
    versions = {}
    for name in _DRIVERS:
        folder = root / "sys" / "module" / name
        if folder.is_dir():
            versions[name] = _read_text(folder / "version") or "unknown"
    return versions


def device_nodes(root: Path = ROOT) -> list[Path]:
    """Return device files: `hailo0`, ... of the 8 and 8L, `h1x-0`, ... of the 10H."""
    patterns = ("hailo[0-9]*", "h1x-*")
    return sorted(path for pattern in patterns for path in root.glob(f"dev/{pattern}"))


def packages(root: Path = ROOT) -> dict[str, str]:
    """Return installed Debian packages of Hailo, with their upstream versions."""
    versions = {}
    for paragraph in _read_text(root / "var/lib/dpkg/status").split("\n\n"):
        fields = dict(
            re.findall(r"^(Package|Status|Version): (.+)$", paragraph, re.MULTILINE)
        )
        name = fields.get("Package", "")
        is_installed = fields.get("Status", "").endswith(" installed")
        if is_installed and re.search(r"hailo|^h10-", name):
            versions[name] = _upstream_version(fields.get("Version", ""))
    return versions


def _upstream_version(version: str) -> str:
    """Return `4.20.0` of a Debian version such as `1:4.20.0+dfsg-2`."""
    _, _, version = version.rpartition(":")
    return re.split(r"[-+]", version)[0]


def is_home_assistant_os(root: Path = ROOT) -> bool:
    """Return whether the kernel is Home Assistant OS's, which a container sees, too."""
    return "haos" in _read_text(root / "proc/sys/kernel/osrelease")


def chip_users(root: Path = ROOT) -> dict[int, str]:
    """Return ids and names of processes that are known to use a chip, or have its device file open.

    Open files of other users' processes are seen by root alone; command lines by everybody.
    """
    users = {}
    for folder in root.glob("proc/[0-9]*"):
        pid = int(folder.name)
        if pid == os.getpid():
            continue
        program = _known_program(_read_text(folder / "cmdline").replace("\0", " "))
        if program is not None:
            users[pid] = program
        elif _has_device(folder):
            users[pid] = _read_text(folder / "comm")
    return dict(sorted(users.items()))


def _known_program(command: str) -> str | None:
    for name, pattern in PROGRAMS.items():
        if re.search(pattern, command):
            return name
    return None


def _has_device(process: Path) -> bool:
    """Return whether a process has a chip's device file open, as far as this user may see it."""
    with contextlib.suppress(OSError):
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if re.match(r"/dev/(hailo\d|h1x-)", os.readlink(link)):
                    return True
    return False


def throttling(root: Path = ROOT) -> Throttling:
    """Read the throttling that the Raspberry Pi's firmware reports."""
    cpu_c = _cpu_temperature(root)
    text = _read_text(root / "sys/devices/platform/soc/soc:firmware/get_throttled")
    if not text and root == ROOT:
        text = run_command("vcgencmd", "get_throttled").removeprefix("throttled=")
    if not re.fullmatch(r"(0x)?[0-9a-fA-F]+", text):
        return Throttling((), (), cpu_c, known=False)
    bits = int(text, 16)
    now = _throttled_reasons(bits)
    before = _throttled_reasons(bits >> _SINCE_BOOT)
    return Throttling(now, before, cpu_c, known=True)


def _throttled_reasons(bits: int) -> tuple[str, ...]:
    return tuple(
        reason for bit, reason in enumerate(_THROTTLED_BITS) if bits >> bit & 1
    )


def service_state() -> str:
    """Return the state of HailoRT's service, such as `active`; empty where none can be asked."""
    return run_command("systemctl", "is-active", "hailort.service")


def _cpu_temperature(root: Path) -> float | None:
    for zone in sorted(root.glob("sys/class/thermal/thermal_zone*")):
        if re.search(r"cpu|x86_pkg|soc", _read_text(zone / "type")):
            text = _read_text(zone / "temp")
            if text.lstrip("-").isdigit():
                return int(text) / 1000
    return None


def _read_speed(path: Path) -> float | None:
    """Return 8.0 of a file that says `8.0 GT/s PCIe`."""
    match = re.match(r"[\d.]+", _read_text(path))
    return float(match.group()) if match else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return ""


def run_command(*words: str) -> str:
    """Return the first line that a program prints; empty when it is not there or hangs."""
    try:
        completed = subprocess.run(
            words, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = completed.stdout.strip().splitlines()
    return lines[0] if lines else ""
