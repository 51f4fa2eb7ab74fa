"""Errors of HailoRT as errors of ours, which say what failed and what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import numpy as np

from whisper_hailo.backends.hailo.binding import (
    OLDER_NUMPY,
    binding_version,
    knows_numpy_2,
    one_line,
)
from whisper_hailo.backends.hailo.hef_file import HefFile, read_hef
from whisper_hailo.backends.hailo.probe import chip_users, device_nodes
from whisper_hailo.backends.hailo.watchdog import ANSWER_S, bounded
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
    display_path,
)

NO_DEVICE: Final = (
    "no Hailo chip found; check the HAT's cable and power, `lspci | grep Hailo` and "
    "whisper-hailo doctor, or use --encoder-backend onnx"
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
    "InvalidProtocolVersionException": "HAILO_UNSUPPORTED_CONTROL_PROTOCOL_VERSION",
}
"""Exception class to status; others say `error: NUMBER (NAME)`, or nothing but the number."""

_BARE: Final = "HailoRTStatusException"
"""The C extension's own, which `Device.scan` and `Device` let through as it is."""

STATUS_NAMES: Final = {
    4: "HAILO_TIMEOUT",
    6: "HAILO_INVALID_OPERATION",
    26: "HAILO_INVALID_HEF",
    36: "HAILO_DRIVER_OPERATION_FAILED",
    62: "HAILO_COMMUNICATION_CLOSED",
    63: "HAILO_STREAM_ABORT",
    64: "HAILO_DRIVER_NOT_INSTALLED",
    73: "HAILO_DEVICE_IN_USE",
    74: "HAILO_OUT_OF_PHYSICAL_DEVICES",
    76: "HAILO_INVALID_DRIVER_VERSION",
    77: "HAILO_RPC_FAILED",
    78: "HAILO_INVALID_SERVICE_VERSION",
    79: "HAILO_NOT_SUPPORTED",
    91: "HAILO_HEF_FILE_CORRUPTED",
    92: "HAILO_HEF_NOT_SUPPORTED",
    93: "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE",
    96: "HAILO_DEVICE_NOT_CONNECTED",
    97: "HAILO_DEVICE_TEMPORARILY_UNAVAILABLE",
}
"""Statuses of HailoRT by their numbers."""

_LOST: Final = {
    "HAILO_STREAM_ABORT": "gave up",
    "HAILO_DEVICE_TEMPORARILY_UNAVAILABLE": "was not ready",
    "HAILO_DEVICE_NOT_CONNECTED": "went away",
}
"""What became of a chip that may come back; the last two statuses are HailoRT 5's."""

_LOST_RUNNING: Final = {
    "HAILO_COMMUNICATION_CLOSED",
    "HAILO_DRIVER_OPERATION_FAILED",
    "HAILO_INTERRUPTED_BY_SIGNAL",
    "HAILO_SHUTDOWN_EVENT_SIGNALED",
    "HAILO_STREAM_NOT_ACTIVATED",
    "HAILO_NETWORK_GROUP_NOT_ACTIVATED",
}
"""Statuses that mean a lost chip only while a network runs on it."""

_BROKEN_HEF: Final = {
    "HAILO_INVALID_HEF",
    "HAILO_HEF_FILE_CORRUPTED",
    "HAILO_HEF_NOT_SUPPORTED",
}


def status_of(error: BaseException) -> str:
    """Return the status behind an exception of the binding; empty if it has none."""
    for kind in type(error).__mro__:
        if kind.__name__ in _NAMES:
            return _NAMES[kind.__name__]
    text = str(error)
    match = re.search(r"\b\d+\s*\((HAILO_\w+)\)", text)
    if match:
        return match.group(1)
    number = r"(\d+)" if type(error).__name__ == _BARE else r"error:? (\d+)"
    match = re.search(number, text)
    if match is None:
        return ""
    return STATUS_NAMES.get(int(match.group(1)), "")


class Faults:
    """Translates the exceptions of a binding.

    Attributes:
        has_run: a run went well in this process, so the binding can take this NumPy's arrays.
    """

    has_run: ClassVar[bool] = False

    def __init__(self, binding: Any) -> None:  # noqa: ANN401
        self.binding = binding
        self._version = binding_version(binding)

    @contextmanager
    def during(
        self, action: str, hef: HefFile | None = None, *, running: bool = False
    ) -> Iterator[None]:
        """Turn the binding's exceptions into ours.

        `action` is for messages, `hef` is being loaded or run. With `running` it ran before, so
        that a failure is a loss of the chip.
        """
        try:
            yield
        except WhisperHailoError:
            raise
        except Exception as error:
            raise self.translated(error, action, hef, running=running) from error

    def translated(
        self, error: BaseException, action: str, hef: HefFile | None, *, running: bool
    ) -> WhisperHailoError:
        """Return our error for one of the binding; see `during`."""
        status = status_of(error)
        if status in {"HAILO_OUT_OF_PHYSICAL_DEVICES", "HAILO_DEVICE_IN_USE"}:
            return self.no_device_or_busy()
        if hef is not None and status == "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE":
            return wrong_chip(hef, None)
        if hef is not None and status in _BROKEN_HEF:
            return _broken_hef(hef, status, self._version)
        if status in _LOST or (running and status in _LOST_RUNNING):
            event = _LOST.get(status, "went away")
            advice = "" if running else "try again, "  # a run is repeated anyway
            return DeviceLostError(
                f"the Hailo chip {event} while {action} ({status}); {advice}"
                "check its power and cooling, and `dmesg | grep -i hailo`"
            )
        if running and status == "HAILO_INVALID_OPERATION" and not self._takes_arrays():
            return BindingMismatchError(
                f"HailoRT {self._version} treats arrays of NumPy {np.__version__} as empty; "
                f"{OLDER_NUMPY}"
            )
        return self._device_error(error, status, action)

    def _takes_arrays(self) -> bool:
        """Return whether the binding is known to take arrays of this NumPy."""
        if self.has_run or np.__version__.startswith("1."):
            return True
        return knows_numpy_2(self._version)

    def _device_error(
        self, error: BaseException, status: str, action: str
    ) -> DeviceError:
        if status == "HAILO_TIMEOUT":
            return DeviceTimeoutError(
                f"the Hailo chip did not answer in time while {action}"
            )
        if status.endswith("_VERSION"):  # of driver, firmware, protocol or service
            return BindingMismatchError(
                f"HailoRT {self._version} does not fit the driver, firmware or service on this "
                f"machine ({status}); install all of one release and reboot: see doctor"
            )
        if status == "HAILO_RPC_FAILED":
            return DeviceError(
                "HailoRT's service does not answer, and a shared Hailo-8 or 8L needs it: sudo "
                "systemctl enable --now hailort.service, or run without --share"
            )
        if status == "HAILO_DRIVER_OPERATION_FAILED":
            nodes = ", ".join(unreadable_nodes())
            if nodes:
                return DeviceError(
                    f"{nodes} cannot be opened by this user; the driver's package has a "
                    "udev rule for that: reinstall it and reboot, or see docs/hailo.md"
                )
        reason = status or one_line(error)
        if reason.isdecimal():
            reason = f"status {reason}"
        return DeviceError(
            f"HailoRT {self._version} failed while {action} ({reason}); "
            "see hailort.log in this folder, and whisper-hailo doctor"
        )

    def no_device_or_busy(self) -> DeviceError:
        """Return which of the two it is: HailoRT has one status for a missing and a busy chip."""
        with bounded(ANSWER_S, "looking for chips"):
            try:
                devices = self.binding.Device.scan()
            except Exception:  # a list that fails is empty
                devices = []
        if not devices:
            return NoDeviceError(NO_DEVICE)
        users = ", ".join(
            f"{name}, process {pid}" for pid, name in chip_users().items()
        )
        holder = f" ({users})" if users else ""
        return DeviceBusyError(
            f"another program holds the Hailo chip{holder}; end it (see: "
            "sudo lsof /dev/hailo* /dev/h1x-*), or run both with --share"
        )


def wrong_chip(hef: HefFile, chip: str | None) -> WrongChipError:
    """Return the error of a network for another chip; `None` if this one is unknown."""
    this_chip = (
        "this chip is a different one" if chip is None else f"this chip is a {chip}"
    )
    arch = "CHIP" if chip is None else chip
    return WrongChipError(
        f"{display_path(hef.path)} is compiled for {hef.arch}, {this_chip}; an 8L file runs on an "
        f"8, not the reverse: whisper-hailo fetch-hef --arch {arch}, or compile --arch {arch}"
    )


def unreadable_nodes() -> list[str]:
    """Return device nodes that this user may not open."""
    return [
        str(path) for path in device_nodes() if not os.access(path, os.R_OK | os.W_OK)
    ]


def _broken_hef(hef: HefFile, status: str, version: str) -> WhisperHailoError:
    """Return what is wrong with a file: before 4.21 HailoRT has one status for all of it."""
    try:
        read_hef(hef.path)  # with its checksum
    except HefError as error:
        return error
    return HefError(
        f"HailoRT {version} refuses {display_path(hef.path)} ({status}), a complete file for "
        f"{hef.arch} by compiler {hef.compiler_version}; it may be for another chip or a newer "
        "HailoRT; see doctor"
    )
