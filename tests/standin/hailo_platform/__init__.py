"""A strict stand-in for Hailo's binding: its contracts, and numbers by ONNX Runtime.

It follows the public sources of HailoRT 4.23 and 5.x, refuses what they forbid, and notes what
would be undefined there. It proves nothing about speed or quantisation. `STANDIN_MACHINE` names a
folder with `machine.json` (see `_machine.py`); without one the machine has a Hailo-8L.
"""

from __future__ import annotations

from hailo_platform._machine import MACHINE

MACHINE.refuse_import()

from hailo_platform._bindings import FormatType  # noqa: E402
from hailo_platform._device import Device  # noqa: E402
from hailo_platform._vdevice import HEF, HailoSchedulingAlgorithm, VDevice  # noqa: E402
from hailo_platform.pyhailort.pyhailort import (  # noqa: E402
    HailoCommunicationClosedException,
    HailoRTException,
    HailoRTStreamAbortedByUser,
)

__all__ = [
    "HEF",
    "Device",
    "FormatType",
    "HailoCommunicationClosedException",
    "HailoRTException",
    "HailoRTStreamAbortedByUser",
    "HailoSchedulingAlgorithm",
    "VDevice",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        return MACHINE.version
    raise AttributeError(name)
