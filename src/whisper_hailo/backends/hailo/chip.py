"""The chip of this process: one device, its networks, and what is known of it."""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from typing import Any

from whisper_hailo.backends.hailo.binding import binding_version, load_binding, major
from whisper_hailo.backends.hailo.faults import NO_DEVICE, Faults, wrong_chip
from whisper_hailo.backends.hailo.network import ConfiguredNetwork, OpenDevice
from whisper_hailo.backends.hailo.options import GROUP, ChipOptions
from whisper_hailo.backends.hailo.watchdog import ANSWER_S, bounded
from whisper_hailo.backends.hef.contract import RUNS_ON, check_versions
from whisper_hailo.backends.hef.read import HefFile
from whisper_hailo.core.errors import BindingMismatchError, DeviceError, NoDeviceError

_LOG = logging.getLogger(__name__)

UNKNOWN = "unknown"
_LEGACY = frozenset({"hailo8", "hailo8l"})
"""Chips that are shared through HailoRT's service; on later ones its flag is an error."""

_LEGACY_HAILORT = 4
"""The HailoRT that drives them; 5 drives the later ones."""


@dataclass(frozen=True, slots=True)
class ChipFacts:
    """What a chip says of itself.

    Attributes:
        device: its id, such as `0000:01:00.0`.
        arch: such as `hailo8l`; `unknown` if it does not say.
        firmware: its version; empty if it does not say.
        temperature_c: in degrees Celsius; `None` if it does not say.
    """

    device: str
    arch: str
    firmware: str = ""
    temperature_c: float | None = None


class Chip:
    """An open device and the networks on it.

    Networks that several streams use are configured once; they leave before the device does.
    """

    def __init__(self, options: ChipOptions) -> None:
        self._binding = load_binding()
        self.faults = Faults(self._binding)
        self._lock = threading.RLock()
        self._networks: dict[tuple[str, str, ChipOptions], ConfiguredNetwork] = {}
        with bounded(options.open_timeout_s, "opening the chip"):
            self.facts = self._first_device()
            self._vdevice = self._open(options)

    @property
    def vdevice(self) -> Any:  # noqa: ANN401 - the binding's own object
        """The open device, for engines of the vendor that own their loop."""
        return self._vdevice

    def network(self, hef: HefFile, group: str, options: ChipOptions) -> ConfiguredNetwork:
        """Return a network of this chip, configured when it is first asked for."""
        key = (str(hef.path.resolve()), group, options)
        with self._lock:
            if key not in self._networks:
                self.check(hef)
                device = OpenDevice(self._binding, self._vdevice, self.faults)
                with bounded(options.open_timeout_s, f"loading {hef.path}"):
                    self._networks[key] = ConfiguredNetwork(device, (hef, group), options)
            return self._networks[key]

    def check(self, hef: HefFile) -> None:
        """Refuse a HEF for another chip, and warn of one that is newer than this HailoRT."""
        if hef.arch not in RUNS_ON.get(self.facts.arch, {hef.arch}):
            raise wrong_chip(hef, self.facts.arch)
        newer = check_versions(hef, binding_version(self._binding))
        if newer is not None:
            _LOG.warning("%s", newer)

    def temperature_c(self) -> float | None:
        """Return degrees Celsius of the chip now, if it says so."""
        with bounded(ANSWER_S, "reading the chip's temperature"), contextlib.suppress(Exception):
            return chip_facts(self._binding, self.facts.device).temperature_c
        return None

    def close(self) -> None:
        """Release networks, then the device."""
        with self._lock:
            vdevice, self._vdevice = self._vdevice, None
            if vdevice is None:
                return
            what = "releasing the chip"
            try:
                with bounded(ANSWER_S, what), self.faults.during(what):
                    for network in self._networks.values():
                        with contextlib.suppress(Exception):  # the device is released all the same
                            network.close()
                    vdevice.release()
            except DeviceError as error:  # one that is lost already
                _LOG.warning("%s", error)

    def _first_device(self) -> ChipFacts:
        with self.faults.during("looking for the chip"):
            found = self._binding.Device.scan()
        if not found:
            raise NoDeviceError(NO_DEVICE)
        return chip_facts(self._binding, str(found[0]))

    def _open(self, options: ChipOptions) -> Any:  # noqa: ANN401
        if not hasattr(self._binding.VDevice, "create_infer_model"):
            raise BindingMismatchError(
                f"HailoRT {binding_version(self._binding)} is too old: it lacks "
                "create_infer_model; install 4.20 or newer: sudo apt full-upgrade"
            )
        with self.faults.during("opening the chip"):
            params = self._binding.VDevice.create_params()
            params.scheduling_algorithm = self._binding.HailoSchedulingAlgorithm.ROUND_ROBIN
            if options.share:
                params.group_id = GROUP
                if self._needs_service():
                    params.multi_process_service = True
            return self._binding.VDevice(params)

    def _needs_service(self) -> bool:
        if self.facts.arch == UNKNOWN:
            return major(binding_version(self._binding)) == _LEGACY_HAILORT
        return self.facts.arch in _LEGACY


def chip_facts(binding: Any, device: str) -> ChipFacts:  # noqa: ANN401
    """Ask a chip what it is; one that does not say is still tried, which tells why."""
    try:
        opened = binding.Device(device)
    except Exception as error:  # busy, or not for this user
        _LOG.debug("%s does not say what it is: %s", device, error)
        return ChipFacts(device, UNKNOWN)
    try:
        identity = opened.control.identify()
        arch = getattr(identity.device_architecture, "name", str(identity.device_architecture))
        temperature = None
        with contextlib.suppress(Exception):  # not every board has a sensor
            temperature = float(opened.control.get_chip_temperature().ts0_temperature)
        firmware = str(getattr(identity, "firmware_version", ""))
        return ChipFacts(device, arch.lower(), firmware, temperature)
    except Exception as error:  # held by another process, or driver and firmware do not fit
        _LOG.debug("%s does not say what it is: %s", device, error)
        return ChipFacts(device, UNKNOWN)
    finally:
        with contextlib.suppress(Exception):
            opened.release()
