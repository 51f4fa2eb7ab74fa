"""`Speech2Text` of HailoRT 5.1.1 and later: its calls; the words come from the machine's facts."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
from hailo_platform._machine import MACHINE
from hailo_platform._vdevice import VDevice
from hailo_platform.pyhailort.pyhailort import HailoRTException, bare, failure

if MACHINE.legacy or tuple(int(part) for part in MACHINE.version.split(".")) < (
    5,
    1,
    1,
):
    raise ImportError("cannot import name 'Speech2Text'")


class Speech2TextTask(Enum):
    TRANSCRIBE = 0
    TRANSLATE = 1


class Speech2Text:
    def __init__(self, vdevice: VDevice, model_path: str) -> None:
        vdevice.check()
        if not isinstance(model_path, str):
            raise TypeError("model_path")
        fault = MACHINE.fault("load")
        if fault is not None:
            raise bare(fault)
        self._vdevice = vdevice
        self.alive = True
        vdevice.models.add(self)

    def release(self) -> None:
        self.alive = False

    shutdown = release

    def __enter__(self) -> Speech2Text:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def generate_all_text(
        self,
        audio_data: Any,
        task: Speech2TextTask = Speech2TextTask.TRANSCRIBE,
        language: str = "en",
        timeout_ms: int = 10000,
    ) -> str:
        segments = self.generate_all_segments(audio_data, task, language, timeout_ms)
        return "".join(segment.text for segment in segments)

    def generate_all_segments(
        self,
        audio_data: Any,
        task: Speech2TextTask = Speech2TextTask.TRANSCRIBE,
        language: str = "en",
        timeout_ms: int = 10000,
    ) -> list[Any]:
        """One segment, whose text says what was asked: there is no model behind it."""
        if not self.alive:
            MACHINE.violated("a released Speech2Text is used")
            raise failure("HAILO_INVALID_OPERATION")
        self._vdevice.check()
        fault = MACHINE.fault("run")
        if fault == "timeout":
            raise failure("HAILO_TIMEOUT")
        if fault in {"lost", "abort"}:
            self._vdevice.lost = fault == "lost"
            raise failure(
                "HAILO_COMMUNICATION_CLOSED"
                if fault == "lost"
                else "HAILO_STREAM_ABORT"
            )
        if audio_data.dtype != np.float32 or audio_data.ndim != 1:
            raise HailoRTException("audio_data must be 1-D float32")
        if audio_data.min() < -1 or audio_data.max() >= 1:
            raise failure("HAILO_INVALID_ARGUMENT")
        seconds = len(audio_data) / 16000
        text = f" {task.name.lower()} {language} {seconds:.2f} s"
        return [SimpleNamespace(start_sec=0.0, end_sec=seconds, text=text)]
