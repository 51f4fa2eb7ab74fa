"""Ours in the harness."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.experiments.bench import machine_plan
from whisper_hailo_lab.runs.records import Row
from whisper_hailo_lab.systems.ours import Ours
from whisper_hailo_lab.systems.protocol import Loading


def watch(_: str, work: Any) -> Any:
    return work()


def settings(row: Row) -> dict[str, Any]:
    """What the first case of ours in a row hears with."""
    cases = machine_plan("micro", threads=1)
    case = next(case for case in cases if (case.system, case.row) == ("ours", row))
    ours = Ours(Loading(case, "micro"))
    try:
        return ours.open(watch)
    finally:
        ours.close()


def test_the_default_row_is_what_somebody_gets_who_types_nothing() -> None:
    plain = Transcriber.from_model("micro", threads=1)
    options = replace(plain.default_options, language="en")
    wanted = plain.settings(options)
    found = settings("default")
    assert found == {name: getattr(wanted, name) for name in wanted.__slots__}
    assert (found["encoder"], found["quantization"]) == ("onnx-int8", "int8")


def test_the_matched_row_has_one_temperature_as_its_rivals_have() -> None:
    assert settings("default")["search"] != settings("matched")["search"]
