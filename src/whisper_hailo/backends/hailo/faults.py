"""HailoRT's failures as ours: which of them it is, in one line, and what mends it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from whisper_hailo.backends.hailo.binding import binding_version, one_line
from whisper_hailo.backends.hailo.bounded import given_up
from whisper_hailo.backends.hef.read import HefFile, read_hef
from whisper_hailo.core.errors import (
    BindingMismatchError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    HefError,
    NoDeviceError,
    WhisperHailoError,
    WrongChipError,
)

NODES: Final = ("hailo[0-9]*", "h1x-*")
"""Device nodes: the driver of the 8 and 8L names them hailo0, ..., that of the 10H h1x-0, ..."""

NO_DEVICE: Final = (
    "no Hailo chip is there; check the HAT's cable and power, `lspci | grep Hailo` and "
    "whisper-hailo doctor, or use --encoder-backend onnx"
)
BUSY: Final = (
    "another program holds the Hailo chip; end it (see: sudo lsof /dev/hailo* /dev/h1x-*), or run "
    "both with --share"
)
_NAMES: Final = {
    "HailoRTTimeout": "HAILO_TIMEOUT",
    "HailoRTStreamAborted": "HAILO_STREAM_ABORT",
    "HailoRTStreamAbortedByUser": "HAILO_STREAM_ABORT",
    "HailoRTInvalidHEFException": "HAILO_INVALID_HEF",
    "HailoRTHEFNotCompatibleWithDevice": "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE",
    "HailoRTDriverOperationFailedException": "HAILO_DRIVER_OPERATION_FAILED",
    "HailoRTPCIeDriverException": "HAILO_DRIVER_OPERATION_FAILED",
    "HailoCommunicationClosedException": "HAILO_COMMUNICATION_CLOSED",
    "HailoRTInvalidOperationException": "HAILO_INVALID_OPERATION",
    "HailoRTInvalidArgumentException": "HAILO_INVALID_ARGUMENT",
    "HailoRTNotFoundException": "HAILO_NOT_FOUND",
    "HailoRTFirmwareControlFailedException": "HAILO_FW_CONTROL_FAILURE",
    "InvalidProtocolVersionException": "HAILO_UNSUPPORTED_CONTROL_PROTOCOL_VERSION",
}
"""Exception class to status; all others carry `error: NUMBER (NAME)` in their text."""

_NUMBERS: Final = {
    4: "HAILO_TIMEOUT",
    26: "HAILO_INVALID_HEF",
    36: "HAILO_DRIVER_OPERATION_FAILED",
    62: "HAILO_COMMUNICATION_CLOSED",
    63: "HAILO_STREAM_ABORT",
    73: "HAILO_DEVICE_IN_USE",
    74: "HAILO_OUT_OF_PHYSICAL_DEVICES",
    76: "HAILO_INVALID_DRIVER_VERSION",
    77: "HAILO_RPC_FAILED",
    78: "HAILO_INVALID_SERVICE_VERSION",
    79: "HAILO_NOT_SUPPORTED",
    93: "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE",
}
_LOST: Final = {
    "HAILO_COMMUNICATION_CLOSED",
    "HAILO_DRIVER_OPERATION_FAILED",
    "HAILO_STREAM_ABORT",
    "HAILO_INTERRUPTED_BY_SIGNAL",
    "HAILO_SHUTDOWN_EVENT_SIGNALED",
    "HAILO_STREAM_NOT_ACTIVATED",
    "HAILO_NETWORK_GROUP_NOT_ACTIVATED",
}
_VERSIONS: Final = {
    "HAILO_INVALID_DRIVER_VERSION",
    "HAILO_UNSUPPORTED_FW_VERSION",
    "HAILO_UNSUPPORTED_CONTROL_PROTOCOL_VERSION",
    "HAILO_INVALID_SERVICE_VERSION",
}
_BROKEN_HEF: Final = {"HAILO_INVALID_HEF", "HAILO_HEF_FILE_CORRUPTED", "HAILO_HEF_NOT_SUPPORTED"}


def status_of(error: BaseException) -> str:
    """Name of the HailoRT status behind an exception of the binding; empty if it has none."""
    for kind in type(error).__mro__:
        if kind.__name__ in _NAMES:
            return _NAMES[kind.__name__]
    match = re.search(r"(?:error:? )?\b(\d+)\s*\((HAILO_\w+)\)", str(error))
    if match is not None:
        return match.group(2)
    match = re.search(r"error:? (\d+)", str(error))
    return _NUMBERS.get(int(match.group(1)), "") if match else ""


class Faults:
    """Tells failures of one binding apart.

    Args:
        binding: the vendor's package.
    """

    def __init__(self, binding: Any) -> None:  # noqa: ANN401
        self._binding = binding

    @contextmanager
    def during(
        self, what: str, hef: HefFile | None = None, *, running: bool = False
    ) -> Iterator[None]:
        """Turn the binding's exceptions inside a `with` block into ours.

        Args:
            what: what is being done, such as `opening the chip`.
            hef: the network that is being loaded or run.
            running: the network ran before, so that what fails is a loss.

        Raises:
            DeviceError, HefError: whatever happened.
        """
        try:
            yield
        except WhisperHailoError:
            raise
        except Exception as error:
            raise self.translated(error, what, hef, running=running) from error

    def translated(
        self, error: BaseException, what: str, hef: HefFile | None = None, *, running: bool = False
    ) -> WhisperHailoError:
        """The error of ours for one of the binding's."""
        status = status_of(error)
        if status in {"HAILO_OUT_OF_PHYSICAL_DEVICES", "HAILO_DEVICE_IN_USE"}:
            return self._none_or_busy()
        if hef is not None and status == "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE":
            return wrong_chip(hef, None)
        if hef is not None and status in _BROKEN_HEF:
            return _broken_hef(hef, status, self._version())
        if status in _LOST and (running or status == "HAILO_STREAM_ABORT"):
            gave_up = "gave up" if status == "HAILO_STREAM_ABORT" else "went away"
            return DeviceLostError(
                f"the Hailo chip {gave_up} while {what} ({status}); check its power and cooling, "
                "and `dmesg | grep -i hailo`"
            )
        return self._other(error, status, what)

    def _other(self, error: BaseException, status: str, what: str) -> DeviceError:
        if status == "HAILO_TIMEOUT":
            return DeviceTimeoutError(f"the Hailo chip did not answer in time while {what}")
        if status in _VERSIONS:
            return BindingMismatchError(
                f"HailoRT {self._version()} does not fit the driver, firmware or service on this "
                f"machine ({status}); install all of one release and reboot: see doctor"
            )
        if status == "HAILO_RPC_FAILED":
            return _no_service()
        if status == "HAILO_DRIVER_OPERATION_FAILED" and (locked := unreadable_nodes()):
            return DeviceError(
                f"{', '.join(locked)} may not be opened by this user; the driver's package has a "
                "udev rule for that: reinstall it and reboot, or see docs/hailo.md"
            )
        return DeviceError(
            f"HailoRT {self._version()} failed while {what} ({one_line(error)}); "
            "see hailort.log in this folder, and whisper-hailo doctor"
        )

    def _none_or_busy(self) -> DeviceError:
        """HailoRT has one status for both; only a chip that is there can be busy."""
        try:
            found = self._binding.Device.scan()
        except Exception:
            found = []
        if not found:
            return NoDeviceError(NO_DEVICE)
        if hanging := given_up():
            return DeviceBusyError(
                f"the Hailo chip is still held by this program, where {hanging[0]} was given up "
                "and hangs in the driver; end the program, reload the driver or reboot"
            )
        return DeviceBusyError(BUSY)

    def _version(self) -> str:
        return binding_version(self._binding)


def wrong_chip(hef: HefFile, chip: str | None) -> WrongChipError:
    """The error of a network for another chip."""
    here = f"this chip is a {chip}" if chip else "this chip is another one"
    return WrongChipError(
        f"{hef.path} is compiled for {hef.arch}, {here}; an 8L file runs on an 8, not the reverse: "
        f"whisper-hailo fetch-hef --arch {chip or 'CHIP'}, or compile --arch {chip or 'CHIP'}"
    )


def unreadable_nodes() -> list[str]:
    """Device nodes that this user may not open."""
    nodes = [path for pattern in NODES for path in sorted(Path("/dev").glob(pattern))]
    return [str(path) for path in nodes if not os.access(path, os.R_OK | os.W_OK)]


def _broken_hef(hef: HefFile, status: str, version: str) -> WhisperHailoError:
    """Before 4.23 HailoRT says the same of a broken file and of one for another chip."""
    try:
        read_hef(hef.path)
    except HefError as error:
        return error
    return HefError(
        f"HailoRT {version} refuses {hef.path} ({status}), a whole file for {hef.arch} by compiler "
        f"{hef.compiler_version}: it is for another chip or for a newer HailoRT; see doctor"
    )


def _no_service() -> DeviceError:
    return DeviceError(
        "HailoRT's service does not answer, and a shared Hailo-8 or 8L needs it: sudo systemctl "
        "enable --now hailort.service, or run without --share"
    )
