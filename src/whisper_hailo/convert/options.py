"""How a checkpoint is converted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.hailo import ARCHES
from whisper_hailo.core.processor import computes_in_half

QUANTIZATIONS: Final = ("none", "int8", "int4")


@dataclass(frozen=True, slots=True)
class HailoOptions:
    """Which fixed sizes the graphs for the Hailo compiler get.

    Attributes:
        window_s: seconds of audio of one encoder run; `None` takes the size's known window.
        decoder_length: text positions of the decoder without cache; `None` takes the size's.
        arch: chip whose known sizes are taken; `None` takes those of Hailo-8 and 8L.

    Raises:
        OptionError: no such chip.
    """

    window_s: float | None = None
    decoder_length: int | None = None
    arch: str | None = None

    def __post_init__(self) -> None:
        if self.arch is not None and self.arch not in ARCHES:
            raise OptionError(f"--arch is {self.arch!r}, expected one of: {', '.join(ARCHES)}")


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """How a checkpoint is converted.

    Attributes:
        quantize: decoder weights: `none` (float32), `int8` or `int4` (weight-only blocks).
        encoder_quantize: the same for the encoder's matrix products, with `int8` for its
            convolutions, too; additions, norms and softmax always stay float.
        half: what quantised graphs do not compute in 8 bits is in float16 where that is safe, for
            processors that compute in it; `None` asks the one of this machine.
        tokenizer: a tokenizer file to use instead of the checkpoint's own.
        hailo: also write the graphs that the Hailo compiler takes; `None` writes none.

    Raises:
        OptionError: no such quantisation, or float16 asked for where nothing is quantised.
    """

    quantize: str = "none"
    encoder_quantize: str = "none"
    tokenizer: Path | None = None
    hailo: HailoOptions | None = None
    half: bool | None = None

    def __post_init__(self) -> None:
        for option, value in (
            ("--quantize", self.quantize),
            ("--encoder-quantize", self.encoder_quantize),
        ):
            if value not in QUANTIZATIONS:
                raise OptionError(
                    f"{option} is {value!r}, expected one of: {', '.join(QUANTIZATIONS)}"
                )
        if self.half and not self.quantizes:
            raise OptionError(
                "--half is for quantised graphs; add --quantize int8, or leave it out"
            )

    @property
    def quantizes(self) -> bool:
        """Whether encoder or decoder have less than float32 weights."""
        return {self.quantize, self.encoder_quantize} != {"none"}

    @property
    def in_half(self) -> bool:
        """Whether graphs compute in float16, asked for or not."""
        wanted = computes_in_half() if self.half is None else self.half
        return wanted and self.quantizes
