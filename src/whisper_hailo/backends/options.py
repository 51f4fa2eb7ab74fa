"""Which encoder and decoder to run: what a user may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.backends.hailo.options import ChipOptions
from whisper_hailo.core.flags import ENGINE, expect_choices, flag, group

AUTO: Final = "auto"
ENCODER_BACKENDS: Final = (AUTO, "onnx", "hailo", "emulator")
DECODER_BACKENDS: Final = (
    *(AUTO, "cached", "optimum", "fixed", "hailo"),
    *("ctranslate2", "speech2text", "emulator"),
)
HOST_CONTRACTS: Final = (AUTO, "8", "10h")
"""Who adds the position rows to a HEF decoder's embeddings: on 8 and 8L the host, on 10H the chip.
"""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The encoder and decoder of a run; what is left out is the model directory's own.

    Attributes:
        encoder: an ONNX graph, a HEF, or a directory that holds an `encoder_model.onnx`.
        decoder: an ONNX graph, a HEF, or a directory of Optimum's or CTranslate2's layout.
        encoder_backend: one of `ENCODER_BACKENDS`.
        decoder_backend: one of `DECODER_BACKENDS`.
        decoder_assets: directory with the arrays that the host of a HEF decoder needs.
        tokenizer: a `tokenizer.json` to use instead of the model's.
        hailo: how a Hailo chip is used.
        host_contract: one of `HOST_CONTRACTS`; `auto` goes by what the HEF says of itself.

    Raises:
        OptionError: no such backend or contract.
    """

    encoder: Path | None = flag(
        None, "ONNX graph, HEF, or Optimum directory.", ENGINE, shown="the model's"
    )
    decoder: Path | None = flag(
        None,
        "ONNX graph, HEF, Optimum or CTranslate2 directory.",
        ENGINE,
        shown="the model's",
    )
    encoder_backend: str = flag(AUTO, "What runs it", ENGINE, choices=ENCODER_BACKENDS)
    decoder_backend: str = flag(AUTO, "What runs it", ENGINE, choices=DECODER_BACKENDS)
    decoder_assets: Path | None = flag(
        None, "Arrays for the host of a HEF decoder.", ENGINE, metavar="DIR"
    )
    tokenizer: Path | None = flag(
        None, "A tokenizer.json in place of the model's.", ENGINE, metavar="FILE"
    )
    hailo: ChipOptions = group(ChipOptions)
    host_contract: str = flag(
        AUTO,
        "Who adds a HEF decoder's position rows; 8: the host, 10h: the chip",
        ENGINE,
        choices=HOST_CONTRACTS,
    )

    def __post_init__(self) -> None:
        """Refuse names that stand for nothing."""
        expect_choices(self)
