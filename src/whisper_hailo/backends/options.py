"""Options of encoder, decoder and chip."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from whisper_hailo.core.flags import (
    CHIP,
    ENGINE,
    flag,
    option_group,
    require_choices,
    require_valid,
)

_LONGEST_S: Final = 3600.0


class ChipPriority(IntEnum):
    """Order of networks that wait for the chip; HailoRT counts from 0 to 31, 16 is normal."""

    BATCH = 12
    NORMAL = 16
    LIVE = 24


@dataclass(frozen=True, slots=True)
class ChipOptions:
    """What a caller asks of the chip; `open_timeout_s` is for opening it and loading a network."""

    share: bool = flag(False, "Share the Hailo chip with other processes.", CHIP)
    priority: ChipPriority = ChipPriority.NORMAL
    timeout_s: float = flag(
        10.0,
        "Time-out of one run on the chip.",
        CHIP,
        name="--device-timeout",
        metavar="S",
        rare=True,
    )
    open_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("timeout_s", "open_timeout_s"):
            fits = 0 < getattr(self, name) <= _LONGEST_S
            require_valid(self, name, fits, f"more than 0 and at most {_LONGEST_S:g} s")


ALONE: Final = ChipOptions()
"""The chip for this process alone."""


AUTO: Final = "auto"
ENCODER_BACKENDS: Final = (AUTO, "onnx", "hailo", "emulator")
DECODER_BACKENDS: Final = (AUTO, "cached", "optimum", "fixed", "hailo", "emulator")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The encoder and decoder of a run, by default the model directory's own."""

    encoder: Path | None = flag(
        None, "ONNX graph, HEF, or Optimum directory.", ENGINE, shown="the model's"
    )
    decoder: Path | None = flag(
        None, "ONNX graph, HEF, or Optimum directory.", ENGINE, shown="the model's"
    )
    encoder_backend: str = flag(
        AUTO, "Encoder backend", ENGINE, choices=ENCODER_BACKENDS
    )
    decoder_backend: str = flag(
        AUTO, "Decoder backend", ENGINE, choices=DECODER_BACKENDS
    )
    decoder_assets: Path | None = flag(
        None, "Arrays for the host of a HEF decoder.", ENGINE, metavar="DIR"
    )
    tokenizer: Path | None = flag(
        None, "A tokenizer.json in place of the model's.", ENGINE, metavar="FILE"
    )
    hailo: ChipOptions = option_group(ChipOptions)

    def __post_init__(self) -> None:
        require_choices(self)
