"""Facts of a release and a machine, and what goes wrong there.

The variable LAYER_FACTS holds JSON: `version` and `statuses` (number to name) of the release, and
maybe `chip`; `devices`, how many; `service`, whether it runs; `pybind`, 2.10 for HailoRT 4 unless
`new`; `fail`, place to `STATUS` or `STATUS@N`, only at the Nth time from 0; `hang`, places.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections import Counter
from typing import Any

FACTS: dict[str, Any] = {
    "chip": "hailo8l",
    "devices": 1,
    "service": False,
    "pybind": "",
    "fail": {},
    "hang": [],
    **json.loads(os.environ["LAYER_FACTS"]),
}
LATER = FACTS["version"].startswith("5.")
NUMBERS = {name: number for number, name in FACTS["statuses"].items()}
# Keeps Python's lock, as nearly all of the vendor's calls do.
_LOCKED = ctypes.PyDLL(None)
_COUNTS: Counter[str] = Counter()


class HailoRTException(Exception):  # noqa: N818 - the extension's own names
    pass


class HailoRTStatusException(HailoRTException if LATER else Exception):  # type: ignore[misc]
    """Nothing but the number."""


def status(name: str) -> HailoRTStatusException:
    return HailoRTStatusException(NUMBERS.get(name, name))


def hang() -> None:
    """Never return, and keep Python's lock."""
    mutex = ctypes.create_string_buffer(64)
    _LOCKED.pthread_mutex_lock(mutex)
    _LOCKED.pthread_mutex_lock(mutex)


def at(place: str) -> None:
    """Whatever is to go wrong at a place."""
    count = _COUNTS[place]
    _COUNTS[place] += 1
    if place in FACTS["hang"]:
        hang()
    name, _, when = FACTS["fail"].get(place, "").partition("@")
    if name and (not when or int(when) == count):
        raise status(name)


def typed(value: Any, *kinds: type) -> Any:
    """pybind11 converts nothing of its own accord."""
    if not isinstance(value, kinds):
        raise TypeError(f"incompatible function arguments: {value!r}, wants {kinds}")
    return value


class Enum(int):
    """pybind11's: a number with a name."""

    name: str
    value = property(int)

    @classmethod
    def of(cls, name: str, value: int) -> Enum:
        made = cls(value)
        made.name = name
        return made


def enum(kind: str, **members: int) -> Any:
    made = type(kind, (Enum,), {})
    for name, value in members.items():
        setattr(made, name, made.of(name, value))
    return made


FormatType = enum("FormatType", AUTO=0, UINT8=1, UINT16=2, FLOAT32=3)
FormatOrder = enum(
    "FormatOrder", NHWC=1, HAILO_NMS=9, HAILO_NMS_WITH_BYTE_MASK=17, HAILO_NMS_BY_CLASS=19,
    HAILO_NMS_BY_SCORE=20,
)  # fmt: skip
