"""Which encoder and decoder to run: what a user may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.backends.hailo.options import ChipOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import ENGINE, flag, option_group, require_choices, require_valid

AUTO: Final = "auto"
ENCODER_BACKENDS: Final = (AUTO, "onnx", "hailo", "emulator")
DECODER_BACKENDS: Final = (AUTO, "cached", "optimum", "fixed", "hailo", "emulator")
MOST_DRAFTED: Final = 16
HOST_CONTRACTS: Final = (AUTO, "8", "10h")
"""Who adds the position rows to a HEF decoder's embeddings: on 8 and 8L the host, on 10H the chip.
"""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The encoder and decoder of a run; what is left out is the model directory's own.

    Attributes:
        encoder: an ONNX graph, a HEF, or a directory that holds an `encoder_model.onnx`.
        decoder: an ONNX graph, a HEF, or a directory of Optimum's layout.
        encoder_backend: one of `ENCODER_BACKENDS`.
        decoder_backend: one of `DECODER_BACKENDS`.
        decoder_assets: directory with the arrays that the host of a HEF decoder needs.
        tokenizer: a `tokenizer.json` to use instead of the model's.
        hailo: how a Hailo chip is used.
        draft_model: a smaller model of the same vocabulary, named as the model is, that decodes a
            few tokens ahead: the text stays the model's, and comes sooner where that pays.
        draft_tokens: decode always so many ahead; `None`: as many as pay.
        host_contract: one of `HOST_CONTRACTS`; `auto` goes by what the HEF says of itself.

    Raises:
        OptionError: no such backend or contract, or drafts without a draft model.
    """

    encoder: Path | None = flag(
        None, "ONNX graph, HEF, or Optimum directory.", ENGINE, shown="the model's"
    )
    decoder: Path | None = flag(
        None, "ONNX graph, HEF, or Optimum directory.", ENGINE, shown="the model's"
    )
    encoder_backend: str = flag(AUTO, "Encoder backend", ENGINE, choices=ENCODER_BACKENDS)
    decoder_backend: str = flag(AUTO, "Decoder backend", ENGINE, choices=DECODER_BACKENDS)
    decoder_assets: Path | None = flag(
        None, "Arrays for the host of a HEF decoder.", ENGINE, metavar="DIR"
    )
    draft_model: str | None = flag(
        None, "A smaller model decodes ahead; same text, sooner.", ENGINE, metavar="NAME"
    )
    draft_tokens: int | None = flag(
        None,
        "Fixed number of draft tokens.",
        ENGINE,
        metavar="N",
        shown="what pays",
        settings_only=True,
    )
    tokenizer: Path | None = flag(
        None, "A tokenizer.json in place of the model's.", ENGINE, metavar="FILE"
    )
    hailo: ChipOptions = option_group(ChipOptions)
    host_contract: str = flag(
        AUTO,
        "Who adds a HEF decoder's position rows; 8: the host, 10h: the chip",
        ENGINE,
        choices=HOST_CONTRACTS,
        settings_only=True,
    )

    def __post_init__(self) -> None:
        """Refuse names that stand for nothing, and drafts of no length or without a model."""
        require_choices(self)
        wanted = self.draft_tokens
        fits = wanted is None or 1 <= wanted <= MOST_DRAFTED
        require_valid(self, "draft_tokens", fits, f"1 to {MOST_DRAFTED}")
        if wanted is not None and self.draft_model is None:
            raise OptionError(f"draft-tokens is {wanted}, but there is no --draft-model; give one")
