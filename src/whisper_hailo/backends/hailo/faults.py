"""HailoRT's failures as ours: which of them it is, in one line, and what mends it."""

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
    "no Hailo chip is there; check the HAT's cable and power, `lspci | grep Hailo` and "
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
"""What became of a chip that may come back; the last two are of HailoRT 5."""

_LOST_RUNNING: Final = {
    "HAILO_COMMUNICATION_CLOSED",
    "HAILO_DRIVER_OPERATION_FAILED",
    "HAILO_INTERRUPTED_BY_SIGNAL",
    "HAILO_SHUTDOWN_EVENT_SIGNALED",
    "HAILO_STREAM_NOT_ACTIVATED",
    "HAILO_NETWORK_GROUP_NOT_ACTIVATED",
}
"""They say so of a chip only while a network runs on it."""

_BROKEN_HEF: Final = {"HAILO_INVALID_HEF", "HAILO_HEF_FILE_CORRUPTED", "HAILO_HEF_NOT_SUPPORTED"}


def status_of(error: BaseException) -> str:
    """Return the status behind an exception of the binding; empty if it has none."""
    for kind in type(error).__mro__:
        if kind.__name__ in _NAMES:
            return _NAMES[kind.__name__]
    if match := re.search(r"\b\d+\s*\((HAILO_\w+)\)", str(error)):
        return match.group(1)
    bare = r"(\d+)" if type(error).__name__ == _BARE else r"error:? (\d+)"
    match = re.search(bare, str(error))
    return STATUS_NAMES.get(int(match.group(1)), "") if match else ""


class Faults:
    """Tells failures of a binding apart; `has_run`: a run went well, so it knows this NumPy."""

    has_run: ClassVar[bool] = False

    def __init__(self, binding: Any) -> None:  # noqa: ANN401
        self.binding = binding
        self._version = binding_version(binding)

    @contextmanager
    def during(
        self, what: str, hef: HefFile | None = None, *, running: bool = False
    ) -> Iterator[None]:
        """Turn the binding's exceptions into ours.

        `hef` is being loaded or run; `running`: it ran before, so that what fails is a loss.
        """
        try:
            yield
        except WhisperHailoError:
            raise
        except Exception as error:
            raise self.translated(error, what, hef, running=running) from error

    def translated(
        self, error: BaseException, what: str, hef: HefFile | None, *, running: bool
    ) -> WhisperHailoError:
        status = status_of(error)
        if status in {"HAILO_OUT_OF_PHYSICAL_DEVICES", "HAILO_DEVICE_IN_USE"}:
            return self.no_device_or_busy()
        if hef is not None and status == "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE":
            return wrong_chip(hef, None)
        if hef is not None and status in _BROKEN_HEF:
            return _broken_hef(hef, status, self._version)
        if status in _LOST or (running and status in _LOST_RUNNING):
            again = "" if running else "try again, "
            return DeviceLostError(
                f"the Hailo chip {_LOST.get(status, 'went away')} while {what} ({status}); {again}"
                "check its power and cooling, and `dmesg | grep -i hailo`"
            )
        knows = self.has_run or np.__version__.startswith("1.") or knows_numpy_2(self._version)
        if running and status == "HAILO_INVALID_OPERATION" and not knows:
            return BindingMismatchError(
                f"HailoRT {self._version} takes arrays of NumPy {np.__version__} for empty; "
                f"{OLDER_NUMPY}"
            )
        return self._other(error, status, what)

    def _other(self, error: BaseException, status: str, what: str) -> DeviceError:
        if status == "HAILO_TIMEOUT":
            return DeviceTimeoutError(f"the Hailo chip did not answer in time while {what}")
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
        if status == "HAILO_DRIVER_OPERATION_FAILED" and (locked := unreadable_nodes()):
            return DeviceError(
                f"{', '.join(locked)} may not be opened by this user; the driver's package has a "
                "udev rule for that: reinstall it and reboot, or see docs/hailo.md"
            )
        said = one_line(error)
        said = status or (f"status {said}" if said.isdecimal() else said)
        return DeviceError(
            f"HailoRT {self._version} failed while {what} ({said}); "
            "see hailort.log in this folder, and whisper-hailo doctor"
        )

    def no_device_or_busy(self) -> DeviceError:
        """HailoRT has one status for both; only a chip that is there can be busy."""
        with bounded(ANSWER_S, "looking for chips"):
            try:
                found = self.binding.Device.scan()
            except Exception:
                found = []
        if not found:
            return NoDeviceError(NO_DEVICE)
        named = ", ".join(f"{name}, process {pid}" for pid, name in chip_users().items())
        return DeviceBusyError(
            f"another program holds the Hailo chip{f' ({named})' if named else ''}; end it (see: "
            "sudo lsof /dev/hailo* /dev/h1x-*), or run both with --share"
        )


def wrong_chip(hef: HefFile, chip: str | None) -> WrongChipError:
    """Return the error of a network for another chip."""
    here = f"this chip is a {chip}" if chip else "this chip is another one"
    return WrongChipError(
        f"{display_path(hef.path)} is compiled for {hef.arch}, {here}; an 8L file runs on an 8, "
        f"not the reverse: whisper-hailo fetch-hef --arch {chip or 'CHIP'}, or compile --arch "
        f"{chip or 'CHIP'}"
    )


def unreadable_nodes() -> list[str]:
    """Return device nodes that this user may not open."""
    return [str(path) for path in device_nodes() if not os.access(path, os.R_OK | os.W_OK)]


def _broken_hef(hef: HefFile, status: str, version: str) -> WhisperHailoError:
    """Before 4.21 HailoRT says the same of a broken file and of one for another chip."""
    try:
        read_hef(hef.path)
    except HefError as error:
        return error
    return HefError(
        f"HailoRT {version} refuses {display_path(hef.path)} ({status}), a whole file for "
        f"{hef.arch} by compiler {hef.compiler_version}: it is for another chip or for a newer "
        "HailoRT; see doctor"
    )
