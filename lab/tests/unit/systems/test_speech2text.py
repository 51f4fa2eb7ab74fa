"""The vendor's own pipeline on the stand-in's chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.backends.conftest import hailo_directory, model_directory, toy  # noqa: F401
from tests.unit.backends.hailo.conftest import QUICK, Hefs, hefs, hefs_10h, machine  # noqa: F401
from whisper_hailo.core.errors import (
    BindingMismatchError,
    DeviceBusyError,
    DeviceTimeoutError,
    WrongChipError,
)
from whisper_hailo_lab.runs.records import Case
from whisper_hailo_lab.systems import speech2text
from whisper_hailo_lab.systems.protocol import Loading
from whisper_hailo_lab.systems.speech2text import Speech2Text


def watch(_: str, work: Any) -> Any:
    return work()


def system(path: Any) -> Speech2Text:
    return Speech2Text(Loading(Case("speech2text", "a", "default"), str(path)), QUICK)


def test_transcribe_joins_windows(
    machine: Any,  # noqa: F811
    hefs_10h: Hefs,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine.set(chip="hailo10h", version="5.1.1")
    monkeypatch.setattr(speech2text, "WINDOW_S", 2)
    made = system(hefs_10h.decoder)
    assert made.open(watch) == {"engine": "speech2text-hailo10h"}
    said = made.transcribe(np.ones(40_000, np.float32), "de")
    assert said.text == "transcribe de 2.00 s transcribe de 0.50 s"
    assert said.stages_ms["decode"] > 0
    made.close()
    made.close()


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"faults": {"load": {"0": "HAILO_OUT_OF_PHYSICAL_DEVICES"}}}, DeviceBusyError),
        ({"version": "4.23.0"}, BindingMismatchError),
    ],
)
def test_open_without_the_engine_is_refused(
    machine: Any,  # noqa: F811
    hefs_10h: Hefs,  # noqa: F811
    facts: dict[str, Any],
    error: type[Exception],
) -> None:
    machine.set(**({"chip": "hailo10h", "version": "5.1.1"} | facts))
    with pytest.raises(error):
        system(hefs_10h.decoder).open(watch)


def test_open_with_a_file_for_another_chip_is_refused(machine: Any, hefs: Hefs) -> None:  # noqa: F811
    machine.set(chip="hailo10h", version="5.1.1")
    with pytest.raises(WrongChipError):
        system(hefs.decoder).open(watch)
    assert machine.counts["load"] == 0


def test_transcribe_that_takes_too_long_is_told(machine: Any, hefs_10h: Hefs) -> None:  # noqa: F811
    machine.set(chip="hailo10h", version="5.1.1", faults={"run": {"0": "timeout"}})
    made = system(hefs_10h.decoder)
    made.open(watch)
    with pytest.raises(DeviceTimeoutError):
        made.transcribe(np.ones(16_000, np.float32), "de")
    made.close()
