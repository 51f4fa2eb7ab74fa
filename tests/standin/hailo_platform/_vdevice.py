"""`VDevice` and `HEF`: opening, sharing, loading, releasing in order."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hailo_platform._graph import Graph, read_networks
from hailo_platform._infer import InferModel
from hailo_platform._machine import MACHINE
from hailo_platform.pyhailort.pyhailort import bare, failure

_TAKES = {
    "hailo8": {"hailo8", "hailo8l"},
    "hailo8l": {"hailo8l"},
    "hailo10h": {"hailo10h", "hailo15h", "hailo15m"},
}


class HailoSchedulingAlgorithm:
    NONE = 0
    ROUND_ROBIN = 1


class HEF:
    """Host-only: needs no device."""

    def __init__(self, source: str) -> None:
        self._arch, self._networks = _read(source)

    def get_network_group_names(self) -> list[str]:
        return list(self._networks)

    def get_sorted_output_names(self, name: str | None = None) -> list[str]:
        facts, _ = self._networks[name or next(iter(self._networks))]
        return list(facts["outputs"])

    def get_input_vstream_infos(self, name: str | None = None) -> list[Any]:
        facts, _ = self._networks[name or next(iter(self._networks))]
        streams = facts["inputs"].items()
        return [
            SimpleNamespace(name=key, shape=tuple(value["shape"]))
            for key, value in streams
        ]


class VDevice:
    def __init__(self, params: Any = None) -> None:
        gc.collect()  # as the binding does
        self._lock_handle: int | None = None
        self._pid = os.getpid()
        self.params = params or VDevice.create_params()
        self.lost = False
        self.released = False
        self.models: weakref.WeakSet[Any] = weakref.WeakSet()
        self._check_params()
        fault = MACHINE.fault("open")
        if fault in {"busy", "none"}:
            if fault == "none":
                MACHINE.lose(1)
            raise failure("HAILO_OUT_OF_PHYSICAL_DEVICES")
        if fault is not None:
            raise failure(fault)
        if MACHINE.away or not MACHINE.facts["devices"]:
            raise failure("HAILO_OUT_OF_PHYSICAL_DEVICES")
        if any(
            not (self._shares() and other._shares()) for other in MACHINE.open_devices
        ):
            raise failure("HAILO_OUT_OF_PHYSICAL_DEVICES")
        self._lock_handle = MACHINE.take(shared=self._shares())
        if self._lock_handle is None:
            raise failure("HAILO_OUT_OF_PHYSICAL_DEVICES")
        MACHINE.open_devices.add(self)

    @staticmethod
    def create_params() -> Any:
        return SimpleNamespace(
            scheduling_algorithm=HailoSchedulingAlgorithm.ROUND_ROBIN,
            group_id="UNIQUE",
            multi_process_service=False,
            device_count=1,
        )

    def create_infer_model(self, source: str, name: str = "") -> InferModel:
        self.check()
        if os.getpid() != self._pid:
            raise failure("HAILO_INVALID_OPERATION")
        fault = MACHINE.fault("load")
        if fault is not None:
            raise _hef_failure(fault)
        arch, networks = _read(source)
        if not name and len(networks) > 1:
            raise failure("HAILO_INVALID_ARGUMENT")
        if name and name not in networks:
            raise failure("HAILO_NOT_FOUND")
        facts, onnx = networks[name or next(iter(networks))]
        fits = arch in _TAKES.get(MACHINE.chip, set())
        return InferModel(self, Graph(facts, onnx), fits=fits)

    def check(self) -> None:
        if self.released:
            MACHINE.violated("a released VDevice is used")
            raise failure("HAILO_INVALID_OPERATION")
        if self.lost:
            raise failure("HAILO_COMMUNICATION_CLOSED")

    def release(self) -> None:
        if self.released:
            return
        self.released = True
        MACHINE.open_devices.discard(self)
        alive = [model for model in self.models if model.alive]
        if alive:
            MACHINE.violated("a VDevice is released before its configured models")
        for model in alive:
            model.shutdown()
        if self._lock_handle is not None:
            MACHINE.give(self._lock_handle)
        fault = MACHINE.fault("release")
        if fault is not None:
            raise bare(fault)

    def __enter__(self) -> VDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_lock_handle", None) is not None and not self.released:
            MACHINE.violated("a VDevice is left to the garbage collector")
            self.release()

    def _check_params(self) -> None:
        if self.params.multi_process_service:
            if not MACHINE.legacy:
                raise failure("HAILO_NOT_SUPPORTED")
            if self.params.scheduling_algorithm == HailoSchedulingAlgorithm.NONE:
                raise failure("HAILO_INVALID_ARGUMENT")
            if not MACHINE.facts["service"]:
                raise failure("HAILO_RPC_FAILED")

    def _shares(self) -> bool:
        if MACHINE.legacy:
            return (
                bool(self.params.multi_process_service)
                and self.params.group_id == "SHARED"
            )
        return bool(self.params.group_id != "UNIQUE")


def _read(source: str) -> tuple[str, Any]:
    if not isinstance(source, str):
        raise ValueError(  # noqa: TRY004 - as the binding does
            "HEF can only be created from a file path (str) or a buffer (bytes)"
        )
    try:
        return read_networks(Path(source).read_bytes())
    except Exception as error:
        raise _hef_failure("broken") from error


def _hef_failure(fault: str) -> Exception:
    if fault == "broken":
        known = MACHINE.knows_incompatible
        return failure("HAILO_HEF_FILE_CORRUPTED" if known else "HAILO_INVALID_HEF")
    return failure(fault)
