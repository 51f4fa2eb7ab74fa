"""Which cases take turns, and under which names their results go into tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from whisper_hailo_lab.runs.records import Case, Row

Settings = dict[str, Any]

MICRO: Final = "micro"
FULL: Final[dict[tuple[str, int], int]] = {
    ("tiny", 1): 25, (MICRO, 1): 16, ("tiny", 2): 9, ("base", 1): 9, (MICRO, 2): 8, ("base", 2): 5,
}  # fmt: skip
"""Size and threads to rounds, or clips."""
WHEN_ASKED: Final[dict[tuple[str, int], int]] = {("small", 1): 5}
"""As `FULL`; they take longer than all of it, so only who names them gets them."""

GROUPS: Final = tuple(f"{size}-{threads}" for size, threads in FULL)
MORE_GROUPS: Final = tuple(f"{size}-{threads}" for size, threads in WHEN_ASKED)


def sizes_of(groups: tuple[str, ...], quick: bool) -> dict[tuple[str, int], int]:
    """Size and threads to rounds: those of every run, and what is asked for beyond them."""
    named = zip(MORE_GROUPS, WHEN_ASKED.items(), strict=True)
    return (QUICK if quick else FULL) | dict(which for key, which in named if key in groups)


QUICK: Final[dict[tuple[str, int], int]] = {("tiny", 1): 3, (MICRO, 1): 3}

SHORT_CTX: Final = 512
"""whisper.cpp's encoder positions for 10 s of audio: 500, rounded up to what its kernels like."""

FEW_TOKENS: Final = 8
"""Of a second process of a case: the difference to 28 tokens is what 20 decoder steps take."""

INT8_INT8: Final = "ours, INT8 encoder + 8-bit decoder"
INT8_INT4: Final = "ours, INT8 encoder + 4-bit decoder"
FLOAT_INT8: Final = "ours, float encoder + 8-bit decoder"
FLOAT_INT4: Final = "ours, float encoder + 4-bit decoder"
FLOAT: Final = "ours, float32"
STUDY: Final = "the study's recipe"
CTRANSLATE2: Final = "CTranslate2 INT8, 10 s"
FASTER_WHISPER: Final = "faster-whisper INT8, 30 s"
CPP_F16: Final = "whisper.cpp f16, 10 s"
CPP_Q8: Final = "whisper.cpp q8_0, 10 s"
UNPADDED: Final = "unpadded"

OURS: Final[dict[str, Settings]] = {
    INT8_INT4: {"encoder_quantize": "int8", "quantize": "int4"},
    INT8_INT8: {"encoder_quantize": "int8", "quantize": "int8"},
    FLOAT_INT4: {"quantize": "int4"},
    FLOAT_INT8: {"quantize": "int8"},
    FLOAT: {},
}

RIVALS: Final[dict[str, tuple[str, Settings]]] = {
    STUDY: ("study", {}),
    CTRANSLATE2: ("ctranslate2", {"stored": "int8"}),
    FASTER_WHISPER: ("faster-whisper", {"stored": "int8"}),
    CPP_F16: ("whisper-cpp", {"audio_ctx": SHORT_CTX}),
    CPP_Q8: ("whisper-cpp", {"stored": "q8_0", "audio_ctx": SHORT_CTX}),
    "whisper.cpp f16, 30 s": ("whisper-cpp", {}),
    "whisper.cpp q8_0, 30 s": ("whisper-cpp", {"stored": "q8_0"}),
    "Transformers, 30 s": ("transformers", {}),
}

ONNX_ASR: Final = "onnx-asr, 30 s"
"""It takes no bound for its tokens, so it hears real speech only."""

STEPPED: Final = (INT8_INT4, INT8_INT8, CTRANSLATE2)
"""Cases of which a decoder step alone is told."""


@dataclass(frozen=True, slots=True)
class CaseGroup:
    """Cases that take turns.

    Attributes:
        key: such as `tiny-1`; part of the case's names.
        size: `tiny`, `base`, `small` or `micro`.
        cases: in order.
        rounds: how often each runs, or how many clips it hears.
    """

    key: str
    size: str
    cases: tuple[Case, ...]
    rounds: int


def label_of(case: str) -> str:
    """What a case is called in tables: its name without the group."""
    return case.partition(": ")[2]


def group(size: str, model: str, threads: int, rounds: int) -> CaseGroup:
    """All systems on one model with so many threads.

    Args:
        size: `micro` hears speech; the others have random weights and are forced to 28 tokens.
        model: the checkpoint.
        threads: for every system.
        rounds: see `CaseGroup`.
    """
    row: Row = "matched" if size == "micro" else "forced"
    key = f"{size}-{threads}"
    wanted = {label: ("ours", given) for label, given in OURS.items()} | RIVALS
    if size == "micro":
        wanted |= {ONNX_ASR: ("onnx-asr", {})}
    if size == "tiny" and threads == 1:
        wanted |= _few_tokens(wanted)
        for label in (INT8_INT4, INT8_INT8):
            wanted[f"{label}, {UNPADDED}"] = ("ours", OURS[label] | {"pad_to": 0})
    cases = tuple(
        Case(f"{key}: {label}", system, row, model, "en", threads, given, key)
        for label, (system, given) in wanted.items()
    )
    return CaseGroup(key, size, cases, rounds)


def few(label: str) -> str:
    """Name of a case's process of few tokens."""
    return f"{label}, {FEW_TOKENS} tokens"


def _few_tokens(wanted: dict[str, tuple[str, Settings]]) -> dict[str, tuple[str, Settings]]:
    fewer = {"new_tokens": FEW_TOKENS}
    return {few(label): (wanted[label][0], wanted[label][1] | fewer) for label in STEPPED}


def accuracy_cases(model: str) -> tuple[Case, ...]:
    """Every configuration once, on real speech."""
    wanted = {label: ("ours", given) for label, given in OURS.items()} | RIVALS
    wanted |= {ONNX_ASR: ("onnx-asr", {})}
    return tuple(
        Case(label, system, "matched", model, "en", 1, given, "accuracy")
        for label, (system, given) in wanted.items()
    )
