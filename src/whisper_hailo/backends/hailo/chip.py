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
    """What a chip, such as the device `0000:01:00.0`, says of itself."""

    device: str
    arch: str
    firmware: str = ""
    temperature_c: float | None = None


class Chip:
    """An open device and its networks, which are released before the device."""

    def __init__(self, options: ChipOptions) -> None:
        self._binding = load_binding()
        self.faults = Faults(self._binding)
        self._lock = threading.RLock()
        self.networks: dict[tuple[str, str, ChipOptions], ConfiguredNetwork] = {}
        with bounded(options.open_timeout_s, "opening the chip"):
            with self.faults.during("looking for the chip"):
                devices = self._binding.Device.scan()
            if not devices:
                raise NoDeviceError(NO_DEVICE)
            self.facts = chip_facts(self._binding, str(devices[0]))
            # Earlier releases have another interface for inference; without this check the first
            # network would fail with an AttributeError.
            if not hasattr(self._binding.VDevice, "create_infer_model"):
                raise BindingMismatchError(
                    f"HailoRT {binding_version(self._binding)} is too old: it lacks "
                    "create_infer_model; install 4.20 or newer: sudo apt full-upgrade"
                )
            with self.faults.during("opening the chip"):
                self.vdevice: Any = self._binding.VDevice(self._vdevice_params(options))

    def _vdevice_params(self, options: ChipOptions) -> Any:  # noqa: ANN401
        params = self._binding.VDevice.create_params()
        params.scheduling_algorithm = self._binding.HailoSchedulingAlgorithm.ROUND_ROBIN
        if options.share:
            params.group_id = _GROUP
            # HailoRT 4 shares a chip through its service; HailoRT 5 refuses the flag.
            if major(binding_version(self._binding)) == 4:
                params.multi_process_service = True
        return params

    def network(
        self, hef: HefFile, group: str, options: ChipOptions
    ) -> ConfiguredNetwork:
        """Return a network of this chip, configured when it is first asked for."""
        key = (str(hef.path.resolve()), group, options)
        with self._lock:
            if key in self.networks:
                return self.networks[key]
            self.check(hef)
            with bounded(options.open_timeout_s, f"loading {hef.path}"):
                network = ConfiguredNetwork(
                    self.vdevice, self.faults, (hef, group), options
                )
            self.networks[key] = network
            return network

    def configured_models(self) -> list[Any]:
        """Return the binding's configured models, for questions about its calls."""
        with self._lock:
            return [network.configured for network in self.networks.values()]

    def check(self, hef: HefFile) -> None:
        """Refuse a HEF for another chip.

        Raises:
            WrongChipError: the chip does not take it.
        """
        takes = RUNS_ON.get(self.facts.arch)
        if takes is None:  # a chip that does not say what it is: HailoRT knows
            return
        if hef.arch not in takes:
            raise wrong_chip(hef, self.facts.arch)

    def temperature_c(self) -> float | None:
        """Return the chip's temperature, `None` if it has no sensor or does not answer."""
        with (
            bounded(ANSWER_S, "reading the chip's temperature"),
            contextlib.suppress(Exception),
        ):
            return chip_facts(self._binding, self.facts.device).temperature_c
        return None

    def close(self) -> None:
        """Release the networks, then the device."""
        with self._lock:
            vdevice = self.vdevice
            if vdevice is None:
                return
            self.vdevice = None
            action = "releasing the chip"
            try:
                with bounded(ANSWER_S, action), self.faults.during(action):
                    for network in self.networks.values():
                        # The device is released all the same.
                        with contextlib.suppress(Exception):
                            network.close()
                    vdevice.release()
            except DeviceError as error:  # it is lost already, and nothing waits for it
                _LOG.warning("%s", error)


def chip_facts(binding: Any, device: str) -> ChipFacts:  # noqa: ANN401
    """Ask a chip what it is.

    One that does not say is `unknown`, and still opened later: that error says why.
    """
    handle = None
    try:
        handle = binding.Device(device)
        identity = handle.control.identify()
        architecture = identity.device_architecture
        temperature_c = None
        with contextlib.suppress(Exception):  # not every board has a sensor
            temperature_c = float(handle.control.get_chip_temperature().ts0_temperature)
        return ChipFacts(
            device=device,
            arch=getattr(architecture, "name", str(architecture)).lower(),
            firmware=str(getattr(identity, "firmware_version", "")),
            temperature_c=temperature_c,
        )
    except (
        Exception
    ) as error:  # held by another process or user, or firmware does not fit
        _LOG.debug("%s does not report its type: %s", device, error)
        return ChipFacts(device, UNKNOWN)
    finally:
        if handle is not None:
            with contextlib.suppress(Exception):
                handle.release()


@dataclass(slots=True)
class HeldChip:
    """The chip of this process while it has users.

    Attributes:
        users: number of open leases.
        chip: `None` before it is first used, and when it is lost. Open without a user after a
            trial, for the lease that follows.
        lock: held while the others change.
    """

    users: int = 0
    chip: Chip | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)


HELD_CHIPS: Final[dict[bool, HeldChip]] = {False: HeldChip(), True: HeldChip()}
"""By whether the chip is shared with other processes."""


class Lease(Closing):
    """The right to run a network on this process's chip.

    Without the name of a network (`group`) it opens the chip alone.
    """

    def __init__(self, hef: HefFile, group: str, options: ChipOptions) -> None:
        self._options = options
        self._hef = hef
        self._group = group
        self.held = HELD_CHIPS[options.share]
        self._open = False

    @property
    def chip(self) -> Chip:
        """The open chip, which is opened again if it was lost."""
        if not self._open:
            raise DeviceError(
                "the Hailo chip is not open; call open() or use a with block"
            )
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
            with self.held.lock:  # no other stream may give up the chip between the two
                chip = self.chip
                if self._group:
                    self._network(chip)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Give the chip back; the last user closes it."""
        self._leave(keep_chip=False)

    def close_until_next(self) -> None:
        """Give the chip back open, to a lease that follows in this process.

        If none does, the chip is closed at the end of the process.
        """
        self._leave(keep_chip=True)

    def _leave(self, *, keep_chip: bool) -> None:
        if not self._open:
            return
        self._open = False
        with self.held.lock:
            self.held.users -= 1
            if self.held.users == 0 and not keep_chip:
                _give_up(self.held)

    def another(self) -> Lease:
        """Return a second lease on the same network, not yet open."""
        return Lease(self._hef, self._group, self._options)

    def run(
        self, inputs: dict[str, FloatArray], outputs: tuple[str, ...]
    ) -> dict[str, FloatArray]:
        """Run the network once and return some of its outputs by name."""
        return self.run_async(inputs, outputs).result()

    def run_async(
        self, inputs: dict[str, FloatArray], outputs: tuple[str, ...]
    ) -> LeasedRun:
        """Hand one run to the chip; its `result` raises the errors."""
        return LeasedRun(self, inputs, outputs)

    def begin(
        self, inputs: dict[str, FloatArray], outputs: tuple[str, ...]
    ) -> tuple[AsyncRun, Chip]:
        """Hand one run to the chip; return it with the chip that it is on."""
        with self.held.lock:
            chip = self.chip
            network = self._network(chip)
        with self.guarded(chip):
            return network.run_async(inputs, outputs), chip

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

    def _network(self, chip: Chip) -> ConfiguredNetwork:
        with self.held.lock:
            try:
                return chip.network(self._hef, self._group, self._options)
            except (DeviceLostError, DeviceTimeoutError):
                _give_up(self.held)
                raise


RECOVERY_S = 10.0
"""Longest wait for a chip that was reset."""

_LOOK_AGAIN_S: Final = 0.2

_RECOVERABLE: Final = (DeviceLostError, DeviceBusyError, NoDeviceError)
"""What a chip that was reset may report until it is back: any of them is waited for."""


class LeasedRun:
    """A run on the chip that a lease is for.

    A chip that goes away is waited for and opened again once, and the run repeated. One that does
    not answer in time is not asked again: that would only double the wait.
    """

    def __init__(
        self, lease: Lease, inputs: dict[str, FloatArray], outputs: tuple[str, ...]
    ) -> None:
        self._lease = lease
        self._inputs = inputs
        self._outputs = outputs
        self._begun: tuple[AsyncRun, Chip] | WhisperHailoError
        try:
            self._begun = lease.begin(inputs, outputs)
        except (
            WhisperHailoError
        ) as error:  # for `result`: earlier runs of the caller come first
            self._begun = error
        self.took_ms = 0.0

    def result(self) -> dict[str, FloatArray]:
        """Wait for the outputs; see `AsyncRun.result`. To be called once."""
        try:
            return self._finish(self._begun)
        except _RECOVERABLE as error:
            _LOG.warning("%s; opening it again", error)
            return self._finish(self._begin_again())

    def _begin_again(self) -> tuple[AsyncRun, Chip]:
        until_s = time.monotonic() + RECOVERY_S
        while True:
            try:
                return self._lease.begin(self._inputs, self._outputs)
            except _RECOVERABLE:
                if time.monotonic() >= until_s:
                    raise
            time.sleep(_LOOK_AGAIN_S)

    def _finish(
        self, begun: tuple[AsyncRun, Chip] | WhisperHailoError
    ) -> dict[str, FloatArray]:
        if isinstance(begun, WhisperHailoError):
            raise begun
        run, chip = begun
        with self._lease.guarded(chip):
            results = run.result()
        self.took_ms += run.took_ms
        return results


def _give_up(holder: HeldChip) -> None:
    """Close the chip; called with the lock held."""
    chip = holder.chip
    holder.chip = None  # first: a chip that fails to close is not used again
    if chip is not None:
        chip.close()


@atexit.register
def close_all() -> None:
    """Close what was left open: networks before the device, while Python still works."""
    for holder in HELD_CHIPS.values():
        with holder.lock, contextlib.suppress(Exception):
            _give_up(holder)
