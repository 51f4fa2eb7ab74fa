"""How a checkpoint is converted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_choices
from whisper_hailo.core.process import has_float16_kernels
from whisper_hailo.core.spec import ARCHES

QUANTIZATIONS: Final = ("none", "int8", "int4")
AUTO_QUANTIZE: Final = "auto"
"""The best that is known: see `ConvertOptions`."""

_CHOICES: Final = (AUTO_QUANTIZE, *QUANTIZATIONS)
WINDOW: Final = "Model and window"
_FORMS: Final = "Hailo forms"


@dataclass(frozen=True, slots=True)
class HailoOptions:
    """Fixed sizes of the graphs for the Hailo compiler; `None` takes those known for the model."""

    window_s: float | None = flag(
        None,
        "Window of the graphs, 1 to 30 whole seconds.",
        _FORMS,
        name="--window",
        metavar="S",
        shown="the size's",
    )
    decoder_length: int | None = flag(
        None, "Text positions of the decoder.", _FORMS, shown="the size's"
    )
    arch: str | None = flag(
        None, "Chip whose known window and length they get", _FORMS, choices=ARCHES
    )

    def __post_init__(self) -> None:
        require_choices(self)


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """How a checkpoint is converted.

    Attributes:
        quantize: decoder weights: `none` (float32, exact), `int8` or `int4` (weight-only blocks);
            `auto` is `int8`, whose errors no measurement here could tell from those of `none`.
        encoder_quantize: the same for the encoder's matrix products; convolutions, additions, norms
            and softmax always stay float. `auto` is `none` beside a decoder of `none`, else `int8`:
            with outliers separated, real `base` made 2,465 word errors in 494 recordings of people,
            and 2,491 in float32 (docs/accuracy.md).
        half: compute in float16 what a quantised encoder does not compute in 8 bits, where that is
            safe; `None` does so if this machine's processor computes in float16.
        tokenizer: a tokenizer file to use instead of the checkpoint's own.
        hailo: also write the graphs that the Hailo compiler takes; `None` writes none.
    """

    quantize: str = flag(AUTO_QUANTIZE, "Weights", choices=_CHOICES)
    encoder_quantize: str = flag(
        AUTO_QUANTIZE, "Encoder weights", WINDOW, choices=_CHOICES
    )
    tokenizer: Path | None = flag(
        None, "tokenizer.json to use instead.", metavar="FILE"
    )
    hailo: HailoOptions | None = flag(
        None, "Also write the graphs that the Hailo compiler takes."
    )
    half: bool | None = flag(
        None,
        "Float16 in quantised encoders.",
        shown="where this processor computes in it",
    )

    def __post_init__(self) -> None:
        require_choices(self)
        if self.half and self.encoder_form == "none":
            raise OptionError(
                "--half is for 8-bit encoders; leave it out, or give --encoder-quantize int8"
            )

    @property
    def decoder_form(self) -> str:
        """One of `QUANTIZATIONS`, also for `auto`."""
        return "int8" if self.quantize == AUTO_QUANTIZE else self.quantize

    @property
    def encoder_form(self) -> str:
        """One of `QUANTIZATIONS`, also for `auto`."""
        if self.encoder_quantize != AUTO_QUANTIZE:
            return self.encoder_quantize
        return "none" if self.decoder_form == "none" else "int8"

    @property
    def in_half(self) -> bool:
        """Whether the encoder computes in float16, by option or by default."""
        if self.encoder_form == "none":
            return False
        return has_float16_kernels() if self.half is None else self.half

    def resolved(self) -> ConvertOptions:
        """Return the same options with the values of `auto` and `None` on this machine."""
        return replace(
            self,
            quantize=self.decoder_form,
            encoder_quantize=self.encoder_form,
            half=self.in_half,
        )
