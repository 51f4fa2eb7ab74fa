"""Stands for the vendor's C extension, below the vendor's own Python layer.

Names, types of arguments, what keeps Python's lock, who calls callbacks, what is copied, and
failures as nothing but `HailoRTStatusException("NUMBER")` follow the public pybind11 sources of
HailoRT 4.20 to 5.2. Networks are the graphs that tests/standin puts into its HEFs.
"""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hef_file import read_mapping
from layer_facts import (
    FACTS,
    LATER,
    Enum,
    FormatOrder,
    FormatType,
    HailoRTStatusException,
    at,
    enum,
    status,
    typed,
)
from layer_facts import HailoRTException as _HailoRTException
from layer_runs import AsyncInferJob, ConfiguredInferModel, InferModel

__all__ = [
    "AsyncInferJob",
    "ConfiguredInferModel",
    "FormatOrder",
    "FormatType",
    "HailoRTStatusException",
]
__version__ = FACTS["version"]
if LATER:
    HailoRTException = _HailoRTException

SchedulingAlgorithm = enum("SchedulingAlgorithm", NONE=0, ROUND_ROBIN=1)
DeviceArchitecture = enum("DeviceArchitecture", HAILO8=1, HAILO8L=2, HAILO10H=6)


class _Nothing(Enum):
    def __call__(self, *_: object) -> int:
        return 0


class _Unused(type):
    """What the layer names, or calls, while it is imported, and we never do."""

    def __getattr__(cls, name: str) -> Enum:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing.of(name, 0)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Unused(name, (), {})


def get_status_message(code: int) -> str:
    return str(FACTS["statuses"].get(str(int(code)), ""))


class VDeviceParams:
    _KINDS = (
        ("scheduling_algorithm", SchedulingAlgorithm.ROUND_ROBIN),
        ("group_id", "UNIQUE"),
        ("multi_process_service", False),
        ("device_count", 1),
        ("device_ids", []),
    )

    def __init__(self) -> None:
        for name, value in self._KINDS:
            self.__dict__[name] = value

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = typed(value, type(dict(self._KINDS)[name]))

    @staticmethod
    def default() -> VDeviceParams:
        return VDeviceParams()


class Device:
    @staticmethod
    def scan() -> list[str]:
        at("scan")
        return [f"000{i}:01:00.0" for i in range(FACTS["devices"])]

    @staticmethod
    def create(device_id: str) -> Device:
        at("device")
        typed(device_id, str)
        return Device()

    def is_valid(self) -> bool:
        return True

    def identify(self) -> Any:
        numbers = [int(number) for number in __version__.split(".")]
        version = dict(zip(("major", "minor", "revision"), numbers, strict=True))
        words = dict.fromkeys(
            ("board_name", "serial_number", "part_number", "product_name"), ""
        )
        others = ("protocol_version", "logger_version", "is_release")
        return SimpleNamespace(
            fw_version=SimpleNamespace(**version),
            device_architecture=getattr(DeviceArchitecture, FACTS["chip"].upper()),
            extended_context_switch_buffer=True,
            **words,
            **dict.fromkeys(others, 2),
        )

    def get_chip_temperature(self) -> Any:
        return SimpleNamespace(
            ts0_temperature=48.5, ts1_temperature=49.0, sample_count=1
        )

    def release(self) -> None:
        pass


class VDevice:
    @staticmethod
    def create(params: VDeviceParams, device_ids: list[str]) -> VDevice:
        at("vdevice")
        typed(params, VDeviceParams), typed(device_ids, list)
        if params.multi_process_service and (LATER or not FACTS["service"]):
            raise status("HAILO_RPC_FAILED")
        return VDevice()

    def release(self) -> None:
        at("release")

    def create_infer_model_from_file(self, path: str, name: str) -> InferModel:
        at("load")
        content = read_mapping(Path(typed(path, str)).read_bytes())
        with zipfile.ZipFile(BytesIO(content)) as archive:
            facts = json.loads(archive.read("facts.json"))
            names = list(facts["networks"])
            if typed(name, str) == "" and len(names) > 1:
                raise status("HAILO_INVALID_ARGUMENT")
            if name not in {"", *names}:
                raise status("HAILO_NOT_FOUND")
            index = names.index(name or names[0])
            graph = archive.read(f"{index}.onnx")
        return InferModel(facts["arch"], facts["networks"][names[index]], graph)
