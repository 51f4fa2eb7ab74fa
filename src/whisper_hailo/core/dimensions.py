"""Sizes of a model, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND

GROUPED_WIDTH = 8
"""The runtime's "grouped" attention takes heads that are so many numbers wide, or a multiple."""

_LARGEST = {
    "n_mels": 1024,
    "n_audio_ctx": 65_536,
    "d_model": 16_384,
    "n_encoder_layers": 256,
    "n_encoder_heads": 256,
    "n_decoder_layers": 256,
    "n_decoder_heads": 256,
    "n_text_ctx": 65_536,
    "n_vocab": 1 << 20,
}
"""Far beyond large-v3, near enough to fail at once on a config that is nonsense."""


class AudioForm(Enum):
    """How a decoder holds the keys and values of the audio, which every step reads.

    Attributes:
        FLOAT: in float32.
        CODES: in 8 bits, with a scale for each channel of each window.
        HALF: in float16.
    """

    FLOAT = "float32"
    CODES = "8 bits"
    HALF = "float16"


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes of a Whisper model, in the vocabulary of the original paper's code.

    Attributes:
        n_audio_ctx: encoder positions of the full 30 s context (1500).
        n_text_ctx: decoder positions (448).
        d_model: width of both halves.
    """

    n_mels: int
    n_audio_ctx: int
    d_model: int
    n_encoder_layers: int
    n_encoder_heads: int
    n_decoder_layers: int
    n_decoder_heads: int
    n_text_ctx: int
    n_vocab: int

    def __post_init__(self) -> None:
        """Refuse sizes that no Whisper has, before anything is built or waited for."""
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
                raise ModelError(
                    f"{name} is {value!r}, expected a whole number from 1 to {largest}"
                )
        for heads in (self.n_encoder_heads, self.n_decoder_heads):
            if self.d_model % heads:
                raise ModelError(f"d_model {self.d_model} cannot be split into {heads} heads")

    @property
    def head_size(self) -> int:
        """Width of one decoder attention head."""
        return self.d_model // self.n_decoder_heads

    @property
    def encoder_head_size(self) -> int:
        """Width of one encoder attention head."""
        return self.d_model // self.n_encoder_heads

    @property
    def cache_head_size(self) -> int:
        """Width of a head in the decoder's cache, which "grouped" attention reads.

        Every published Whisper's heads are 64 wide.
        """
        return -(-self.head_size // GROUPED_WIDTH) * GROUPED_WIDTH

    def audio_form(self, *, quantized: bool, half: bool) -> AudioForm:
        """How a decoder holds the keys and values of the audio.

        "Grouped" attention reads what is not float32.

        Args:
            quantized: whether its weights are.
            half: whether it computes in float16 what is not.
        """
        if not quantized or self.head_size % GROUPED_WIDTH:
            return AudioForm.FLOAT
        return AudioForm.HALF if half else AudioForm.CODES

    @property
    def max_frames(self) -> int:
        """Log-mel frames of the full context (3000)."""
        return self.n_audio_ctx * FRAMES_PER_POSITION

    @property
    def max_window_s(self) -> float:
        """Seconds of the full context (30)."""
        return self.max_frames / FRAMES_PER_SECOND
