"""The chip of this process: one device, its networks, and the leases on them."""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Self

from whisper_hailo.backends.hailo.binding import binding_version, load_binding, major
from whisper_hailo.backends.hailo.faults import NO_DEVICE, Faults, wrong_chip
from whisper_hailo.backends.hailo.hef_contract import RUNS_ON
from whisper_hailo.backends.hailo.hef_file import HefFile
from whisper_hailo.backends.hailo.network import AsyncRun, ConfiguredNetwork
from whisper_hailo.backends.hailo.watchdog import ANSWER_S, bounded
from whisper_hailo.backends.options import ChipOptions
from whisper_hailo.core.errors import (
    BindingMismatchError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    NoDeviceError,
    WhisperHailoError,
)
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray

_LOG = logging.getLogger(__name__)

UNKNOWN = "unknown"
_GROUP = "SHARED"
"""Processes that name the same group share a chip; the vendor's examples use this name."""


@dataclass(frozen=True, slots=True)
class ChipFacts:
    """What a chip, such as `0000:01:00.0`, says of itself, as far as it does."""

    device: str
    arch: str
    firmware: str = ""
    temperature_c: float | None = None


class Chip:
    """An open device and the networks on it, which leave before the device does."""

    def __init__(self, options: ChipOptions) -> None:
        self._binding = load_binding()
        self.faults = Faults(self._binding)
        self._lock = threading.RLock()
        self.networks: dict[tuple[str, str, ChipOptions], ConfiguredNetwork] = {}
        with bounded(options.open_timeout_s, "opening the chip"):
            with self.faults.during("looking for the chip"):
                found = self._binding.Device.scan()
            if not found:
                raise NoDeviceError(NO_DEVICE)
            self.facts = chip_facts(self._binding, str(found[0]))
            if not hasattr(self._binding.VDevice, "create_infer_model"):
                raise BindingMismatchError(
                    f"HailoRT {binding_version(self._binding)} is too old: it lacks "
                    "create_infer_model; install 4.20 or newer: sudo apt full-upgrade"
                )
            with self.faults.during("opening the chip"):
                params = self._binding.VDevice.create_params()
                params.scheduling_algorithm = self._binding.HailoSchedulingAlgorithm.ROUND_ROBIN
                if options.share:
                    params.group_id = _GROUP
                    # Chips of HailoRT 4 are shared through its service; later the flag is an error.
                    if major(binding_version(self._binding)) == 4:
                        params.multi_process_service = True
                self.vdevice: Any = self._binding.VDevice(params)

    def network(self, hef: HefFile, group: str, options: ChipOptions) -> ConfiguredNetwork:
        """Return a network of this chip, configured when it is first asked for."""
        key = (str(hef.path.resolve()), group, options)
        with self._lock:
            if key not in self.networks:
                self.check(hef)
                with bounded(options.open_timeout_s, f"loading {hef.path}"):
                    self.networks[key] = ConfiguredNetwork(
                        self.vdevice, self.faults, (hef, group), options
                    )
            return self.networks[key]

    def check(self, hef: HefFile) -> None:
        """Refuse a HEF for another chip."""
        if hef.arch not in RUNS_ON.get(self.facts.arch, {hef.arch}):
            raise wrong_chip(hef, self.facts.arch)

    def temperature_c(self) -> float | None:
        with bounded(ANSWER_S, "reading the chip's temperature"), contextlib.suppress(Exception):
            return chip_facts(self._binding, self.facts.device).temperature_c
        return None

    def close(self) -> None:
        with self._lock:
            vdevice, self.vdevice = self.vdevice, None
            if vdevice is None:
                return
            what = "releasing the chip"
            try:
                with bounded(ANSWER_S, what), self.faults.during(what):
                    for network in self.networks.values():
                        with contextlib.suppress(Exception):  # the device is released all the same
                            network.close()
                    vdevice.release()
            except DeviceError as error:  # one that is lost already
                _LOG.warning("%s", error)


def chip_facts(binding: Any, device: str) -> ChipFacts:  # noqa: ANN401
    """Ask a chip what it is; one that does not say is still tried, which tells why."""
    opened = None
    try:
        opened = binding.Device(device)
        identity = opened.control.identify()
        arch = getattr(identity.device_architecture, "name", str(identity.device_architecture))
        temperature = None
        with contextlib.suppress(Exception):  # not every board has a sensor
            temperature = float(opened.control.get_chip_temperature().ts0_temperature)
        firmware = str(getattr(identity, "firmware_version", ""))
        return ChipFacts(device, arch.lower(), firmware, temperature)
    except Exception as error:  # held by another process or user, or firmware does not fit
        _LOG.debug("%s does not say what it is: %s", device, error)
        return ChipFacts(device, UNKNOWN)
    finally:
        if opened is not None:
            with contextlib.suppress(Exception):
                opened.release()


@dataclass(slots=True)
class HeldChip:
    """The chip of this process, while anyone uses it; `None` when it is lost."""

    users: int = 0
    chip: Chip | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)


HELD_CHIPS: Final[dict[bool, HeldChip]] = {False: HeldChip(), True: HeldChip()}
"""By whether the chip is shared with other processes."""


class Lease(Closing):
    """The right to run a network on this process's chip; without its name, to use the chip."""

    def __init__(self, hef: HefFile, group: str, options: ChipOptions) -> None:
        self._options = options
        self._hef = hef
        self._group = group
        self.held = HELD_CHIPS[options.share]
        self._open = False

    @property
    def chip(self) -> Chip:
        """Return the open chip, reopened if it was lost."""
        if not self._open:
            raise DeviceError("the Hailo chip is not open; call open() or use a with block")
        with self.held.lock:
            if self.held.chip is None:
                self.held.chip = Chip(self._options)
            return self.held.chip

    def open(self) -> Self:
        if self._open:
            return self
        with self.held.lock:
            self.held.users += 1
        self._open = True
        try:
            _ = self._network() if self._group else self.chip
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Give it back; the last user closes the chip."""
        if not self._open:
            return
        self._open = False
        with self.held.lock:
            self.held.users -= 1
            if self.held.users == 0:
                _give_up(self.held)

    def run(self, inputs: dict[str, FloatArray], wanted: tuple[str, ...]) -> dict[str, FloatArray]:
        return self.run_async(inputs, wanted).result()

    def run_async(self, inputs: dict[str, FloatArray], wanted: tuple[str, ...]) -> LeasedRun:
        """Hand one run to the chip; its `result` raises what goes wrong."""
        return LeasedRun(self, inputs, wanted)

    def begin(
        self, inputs: dict[str, FloatArray], wanted: tuple[str, ...]
    ) -> tuple[AsyncRun, Chip]:
        network, chip = self._network()
        with self.guarded(chip):
            return network.run_async(inputs, wanted), chip

    @contextlib.contextmanager
    def guarded(self, chip: Chip) -> Iterator[None]:
        """Give up a chip in an unknown state, once for all streams whose runs fail on it."""
        try:
            yield
        except BaseException:
            with self.held.lock:
                if self.held.chip is chip:
                    _give_up(self.held)
            raise

    def _network(self) -> tuple[ConfiguredNetwork, Chip]:
        with self.held.lock:
            chip = self.chip
            try:
                network = chip.network(self._hef, self._group, self._options)
            except (DeviceLostError, DeviceTimeoutError):
                _give_up(self.held)
                raise
            return network, chip


RECOVERY_S = 10.0
"""A chip that was reset may take so long until it is there again."""

_LOOK_AGAIN_S: Final = 0.2


class LeasedRun:
    """A run on the chip that a lease is for.

    A chip that goes away is waited for and opened again once, and the run repeated. One that does
    not answer in time is not asked again: that would only double the wait.
    """

    def __init__(
        self, lease: Lease, inputs: dict[str, FloatArray], wanted: tuple[str, ...]
    ) -> None:
        self._lease = lease
        self._arguments = inputs, wanted
        self._begun: tuple[AsyncRun, Chip] | WhisperHailoError
        try:
            self._begun = lease.begin(inputs, wanted)
        except WhisperHailoError as error:  # who hands runs over has others to see to first
            self._begun = error
        self.took_ms = 0.0

    def result(self) -> dict[str, FloatArray]:
        """Wait for the outputs; see `AsyncRun.result`. To be called once."""
        try:
            return self._finish(self._begun)
        except (DeviceLostError, DeviceBusyError, NoDeviceError) as lost:
            _LOG.warning("%s; opening it again", lost)
            return self._finish(self._begin_again())

    def _begin_again(self) -> tuple[AsyncRun, Chip]:
        until = time.monotonic() + RECOVERY_S
        while True:
            try:
                return self._lease.begin(*self._arguments)
            except (DeviceLostError, DeviceBusyError, NoDeviceError):
                if time.monotonic() >= until:
                    raise
            time.sleep(_LOOK_AGAIN_S)

    def _finish(self, begun: tuple[AsyncRun, Chip] | WhisperHailoError) -> dict[str, FloatArray]:
        if isinstance(begun, WhisperHailoError):
            raise begun
        run, chip = begun
        with self._lease.guarded(chip):
            results = run.result()
        self.took_ms += run.took_ms
        return results


def _give_up(held: HeldChip) -> None:
    """Close the chip; called with the lock held."""
    chip, held.chip = held.chip, None
    if chip is not None:
        chip.close()


@atexit.register
def close_all() -> None:
    """Close what was left open: networks before the device, while Python still works."""
    for held in HELD_CHIPS.values():
        with held.lock, contextlib.suppress(Exception):
            _give_up(held)
