"""Whole recordings that the chip's own program recognises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.backends.hailo.conftest import QUICK, Hefs
from whisper_hailo.backends.hailo.speech2text import Speech2Text
from whisper_hailo.core.errors import DeviceBusyError, DeviceTimeoutError, OptionError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.decoding.options import Cures, DecodingOptions


def test_speech2text(machine: Any, hefs_10h: Hefs, spec: ModelSpec) -> None:
    machine.set(chip="hailo10h", version="5.1.1")
    audio = np.ones(16_000, np.float32)
    with Speech2Text(hefs_10h.decoder, spec, QUICK) as engine:
        options = DecodingOptions(language="de", task="translate")
        assert engine.recognize_audio(audio, options) == "translate de 1.00 s"
        machine.set(chip="hailo10h", version="5.1.1", faults={"run": {"0": "timeout"}})
        with pytest.raises(DeviceTimeoutError):
            engine.recognize_audio(audio, options)
    with pytest.raises(OptionError, match="does not detect languages"):
        engine.check(DecodingOptions(language="auto"))
    with pytest.raises(OptionError, match="loop of its own"):
        engine.check(DecodingOptions(language="en", cures=Cures(repetition_penalty=1.1)))


def test_speech2text_that_cannot_be_loaded(machine: Any, hefs_10h: Hefs, spec: ModelSpec) -> None:
    fault = {"load": {"0": "HAILO_OUT_OF_PHYSICAL_DEVICES"}}
    machine.set(chip="hailo10h", version="5.1.1", faults=fault)
    with (
        pytest.raises(DeviceBusyError, match="another program holds"),
        Speech2Text(hefs_10h.decoder, spec, QUICK),
    ):
        pass
