"""Which settings `make lab NAME=accuracy` measures, and on which recordings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo_lab.accuracy.emulated import EXACT
from whisper_hailo_lab.accuracy.setups import AccuracySetup, make_setups
from whisper_hailo_tools.options import SCRIPT

MULTILINGUAL: Final = "base"
ENGLISH_MODEL: Final = "tiny.en"
CLIPS_OF_A_SET: Final = 6
"""Recordings of each set and language that are measured: all of them would take days."""
SENTENCE: Final = "This is a recording of a person who reads a text."
NAMES: Final = (
    "kitchen light, bedroom lamp, garage door, living room blinds, thermostat, coffee machine, "
    "dishwasher, washing machine, front door lock, porch light, ceiling fan, garden sprinkler, "
    "office desk lamp, television, soundbar, robot vacuum, air purifier, doorbell, attic heater, "
    "basement dehumidifier"
)
"""Hotwords that a voice assistant sends with each command."""

STUDY_SETS: Final = ("librispeech", "ljspeech", "vctk")
"""Read English, which the study's LibriSpeech is."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """Settings that stand in one table.

    Attributes:
        name: name of the table.
        setups: rows of the table.
        recordings: groups, sets or languages; see `select_recordings`.
        captions: recordings are captioned, not transcribed.
        clips_of_a_set: recordings of each set and language.
    """

    name: str
    setups: tuple[AccuracySetup, ...]
    recordings: tuple[str, ...]
    captions: bool = False
    clips_of_a_set: int = CLIPS_OF_A_SET


def make_plan(emulated: dict[tuple[str, str], Path]) -> tuple[PlanPart, ...]:
    """Return all parts.

    Args:
        emulated: model directory with emulated forms, by the model's name and the encoder's plan;
            of `EXACT` the encoder's graph without rounding.
    """
    return (
        PlanPart("peers", _peer_setups(), ("all", "joined")),
        PlanPart("windows", _window_setups(ENGLISH_MODEL), ("english",)),
        PlanPart("windows", _window_setups(MULTILINGUAL), ("english",)),
        PlanPart("prompts", _prompt_setups(), ("english",)),
        PlanPart("captions", _caption_setups(), ("english",), captions=True),
        PlanPart("captions", _whole_recordings(), ("english",)),
        PlanPart(
            "study", study_setups(emulated.get((ENGLISH_MODEL, SCRIPT))), STUDY_SETS
        ),
        *(
            PlanPart(
                "emulated",
                _emulated_setups(model, bits, path),
                STUDY_SETS,
                clips_of_a_set=10,
            )
            for (model, bits), path in emulated.items()
        ),
    )


def _peer_setups() -> tuple[AccuracySetup, ...]:
    """Return our defaults, with and without timestamps, and with the language given."""
    models = [MULTILINGUAL, ENGLISH_MODEL]
    return (
        *make_setups(models, ["int8"], ["default"], ["on", "off"], ["detected"]),
        *make_setups([MULTILINGUAL], ["int8"], ["default"], ["on"], ["given"]),
    )


def _window_setups(model: str) -> tuple[AccuracySetup, ...]:
    windows = ["default", "5", "10", "29", "30"]
    return tuple(
        make_setups([model], ["none", "int8"], windows, ["off", "on"], ["detected"])
    )


def _prompt_setups() -> tuple[AccuracySetup, ...]:
    """Return no prompt, a prompt, and names that are not said."""
    prompts: dict[str, dict[str, str]] = {
        "": {},
        "sentence": {"initial_prompt": SENTENCE},
        "names": {"hotwords": NAMES},
    }
    return tuple(
        AccuracySetup(
            model, "int8", None, timestamps=True, options=options, label=label
        )
        for model in (MULTILINGUAL, ENGLISH_MODEL)
        for label, options in prompts.items()
    )


def _caption_setups() -> tuple[AccuracySetup, ...]:
    return (
        AccuracySetup(MULTILINGUAL, label="captions"),
        AccuracySetup(ENGLISH_MODEL, label="captions"),
    )


def _whole_recordings() -> tuple[AccuracySetup, ...]:
    """Return what captions are compared with."""
    models = [MULTILINGUAL, ENGLISH_MODEL]
    return tuple(make_setups(models, ["int8"], ["default"], ["on"], ["detected"]))


def _emulated_setups(model: str, bits: str, path: Path) -> tuple[AccuracySetup, ...]:
    engine = {"encoder_backend": "emulator"}
    if bits == EXACT:
        engine = {"encoder_backend": "onnx", "encoder": str(path)}
        path = path.parent.parent
    return tuple(
        AccuracySetup(
            str(path), "int8", None, times, engine=engine, label=f"{model}-{bits}"
        )
        for times in (False, True)
    )


def study_setups(emulated: Path | None) -> tuple[AccuracySetup, ...]:
    """Return the study's configurations with the small English model.

    Args:
        emulated: its model directory with emulated forms, in the place of a chip.
    """
    chip = {"encoder_backend": "emulator"}
    setups = []
    if emulated is not None:
        both = {**chip, "decoder_backend": "emulator"}
        path = str(emulated)
        setups += [
            AccuracySetup(path, "int8", engine=both, label="HEF encoder + HEF decoder"),
            AccuracySetup(path, "int8", engine=chip, label="HEF encoder + cached INT8"),
        ]
    for label, window_s, encoder, decoder in STUDY_ROWS:
        engine = {"encoder_quantize": encoder}
        setups.append(
            AccuracySetup(ENGLISH_MODEL, decoder, window_s, engine=engine, label=label)
        )
    return tuple(setups)


STUDY_ROWS: Final = (
    ("10 s encoder + cached INT8", 10.0, "none", "int8"),
    ("30 s FP32 encoder + cached INT8", 30.0, "none", "int8"),
    ("30 s INT8 encoder + cached INT8", 30.0, "int8", "int8"),
    ("30 s FP32 encoder + cached FP32", 30.0, "none", "none"),
    ("30 s INT8 encoder + cached FP32", 30.0, "int8", "none"),
)
"""Name in the study, window, and weights of encoder and decoder."""
