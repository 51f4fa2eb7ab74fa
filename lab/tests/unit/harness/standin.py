"""A system without a model, run by the harness like any other program: `python standin.py`."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.harness.worker import answer_orders
from whisper_hailo_lab.systems.protocol import ComponentWatch, Loading, SystemResult


class StandIn:
    packages = ("numpy", "no-such-package")

    def __init__(self, loading: Loading) -> None:
        self.settings = loading.case.settings
        self.held: list[Any] = []

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        if self.settings.get("missing"):
            raise ModelError("weights are not there; fetch them")
        watch("encoder", lambda: self.held.append(np.ones(4 << 20)))  # 32 MiB
        sys.stdout.write("an engine that talks on standard output\n")
        os.write(1, b"and one that does so in C\n")
        return {"beam": 1}

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        watch("decoder", lambda: self.held.append(np.ones(1 << 20)))  # 8 MiB

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        if self.settings.get("dies"):
            sys.stderr.write("out of luck\n")
            sys.stderr.flush()
            os._exit(9)
        if self.settings.get("fails"):
            raise ZeroDivisionError("by zero")
        return SystemResult(
            f"{language} {audio.size} samples", {"encode": 1.0}, 3, runaway=False
        )

    def close(self) -> None:
        self.held.clear()


if __name__ == "__main__":
    answer_orders(StandIn)
