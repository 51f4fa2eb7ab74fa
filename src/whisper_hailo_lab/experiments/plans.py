"""Which cases `make bench` and the device run book measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from whisper_hailo.convert.options import AUTO_QUANTIZE
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.runs.case import Case, Row
from whisper_hailo_lab.systems.table import SYSTEMS, entry

OURS: Final[dict[str, dict[str, Any]]] = {
    "10 s, FP32": {},
    "10 s, INT8 decoder": {"quantize": "int8"},
    "10 s, INT4 decoder": {"quantize": "int4"},
    "30 s, INT8 decoder": {"window_s": 30.0, "quantize": "int8"},
}
"""Ours without a chip."""

AS_IT_COMES: Final[dict[str, Any]] = {"quantize": AUTO_QUANTIZE, "encoder_quantize": AUTO_QUANTIZE}
"""Ours for those who say nothing."""

STUDY: Final[dict[str, dict[str, Any]]] = {
    "fixed decoder": {"decoder_backend": "fixed", "hailo_window_s": 10, "hailo_length": 32},
    "10 s encoder + INT8": {"quantize": "int8"},
    "30 s FP32 encoder + FP32": {"window_s": 30.0},
    "30 s FP32 encoder + INT8": {"window_s": 30.0, "quantize": "int8"},
    "30 s INT8 encoder + FP32": {"window_s": 30.0, "encoder_quantize": "int8"},
    "30 s INT8 encoder + INT8": {
        "window_s": 30.0, "encoder_quantize": "int8", "quantize": "int8",
    },
}  # fmt: skip
"""The study's configurations that need no chip."""

ACFT: Final = "futo-org/acft-whisper-tiny.en"
"""Fine-tuned by others to hear short windows without padding."""

RIVALS: Final = tuple(name for name, known in SYSTEMS.items() if name != "ours" and known.whole)


@dataclass(frozen=True, slots=True)
class Device:
    """What the run book knows of the chip's files.

    Attributes:
        encoder: HEF of the encoder.
        decoder: HEF of the decoder.
        assets: arrays of that decoder's host.
    """

    encoder: str
    decoder: str = ""
    assets: str = ""

    def values(self) -> dict[str, dict[str, Any]]:
        """The study's configurations on the chip."""
        encoder = {"encoder": self.encoder, "encoder_backend": "hailo"}
        found: dict[str, dict[str, Any]] = {
            "HEF encoder + INT8": encoder | {"quantize": "int8"},
            "HEF encoder + INT4": encoder | {"quantize": "int4"},
            "HEF encoder + INT8, unpadded": encoder | {"quantize": "int8", "pad_to": 0},
        }
        if self.decoder:
            chip = {"decoder": self.decoder, "decoder_backend": "hailo"}
            assets = {"decoder_assets": self.assets} if self.assets else {}
            found["HEF encoder + HEF decoder"] = encoder | chip | assets
        return found


def machine_plan(model: str, threads: int, language: str = "en") -> tuple[Case, ...]:
    """Everything that runs without a chip: ours, and the rivals in both rows."""
    cases = ours(OURS, "matched", model, threads, language)
    cases.append(
        Case("whisper-hailo, default", "ours", "default", model, language, threads, AS_IT_COMES)
    )
    for name in RIVALS:
        rows: tuple[Row, ...] = ("matched", "default")
        cases += [rival(name, row, model, threads, language) for row in rows]
    return tuple(cases)


def study_plan(model: str, threads: int, device: Device | None) -> tuple[Case, ...]:
    """The study's matrix under its own rules, then ours and the rivals on whole recordings."""
    values = STUDY | (device.values() if device else {})
    cases = ours(values, "study", model, threads)
    cases += ours(OURS | (device.values() if device else {}), "matched", model, threads)
    short = {"pad_to": 0, "quantize": "int8"}
    cases.append(Case("ours, ACFT tiny.en unpadded", "ours", "matched", ACFT, "en", threads, short))
    for name in RIVALS:
        takes_budget = name != "onnx-asr"
        rows: tuple[Row, ...] = ("study", "matched") if takes_budget else ("matched",)
        cases += [rival(name, row, model, threads) for row in rows]
    return tuple(cases)


def ours(
    values: dict[str, dict[str, Any]], row: Row, model: str, threads: int, language: str = "en"
) -> list[Case]:
    """Ours with each of some settings."""
    return [
        Case(f"ours {label}, {row}", "ours", row, model, language, threads, settings)
        for label, settings in values.items()
    ]


def rival(name: str, row: Row, model: str, threads: int, language: str = "en") -> Case:
    """A rival on the same checkpoint; Moonshine has weights of its own."""
    label = entry(name).label
    loads = "tiny-streaming" if name == "moonshine" else model
    return Case(f"{label}, {row}", name, row, loads, language, threads)


def only(
    cases: tuple[Case, ...], systems: Sequence[str], rows: Sequence[str] = ()
) -> tuple[Case, ...]:
    """The cases of some systems and rows; none named is all.

    Raises:
        OptionError: no such system, or no such row of them.
    """
    for name in systems:
        entry(name)
    kept = tuple(
        case
        for case in cases
        if (not systems or case.system in systems) and (not rows or case.row in rows)
    )
    if not kept:
        raise OptionError(f"the plan has no case of {', '.join([*systems, *rows])}")
    return kept
