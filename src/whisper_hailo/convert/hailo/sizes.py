"""The fixed sizes of a Hailo-form graph: chosen by the user, or known to work for the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from whisper_hailo.convert.options import HailoOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND

N_CHUNKS: Final = 4
"""Products that the vocabulary is cut into: one of 51865 columns is too large for the chip."""

TINY_D_MODEL: Final = 384
SMALL_WINDOW_S, SMALL_LENGTH = 10, 32
"""What the vendor compiled for tiny; narrower models get it too."""

BASE_D_MODEL: Final = 512
BASE_10H_WINDOW_S, BASE_10H_LENGTH = 10, 64
"""What the vendor compiled for base on a Hailo-10H."""

LARGE_WINDOW_S, LARGE_LENGTH = 5, 24
"""What the vendor compiled for base, whose compilation fails at 10 s on Hailo-8. Nobody has
published a larger size; it gets the shortest window known, as the likeliest to fit."""


@dataclass(frozen=True, slots=True)
class FixedSizes:
    """The sizes that every tensor of a Hailo-form graph follows from.

    Attributes:
        window_s: seconds of audio of one encoder run.
        length: text positions of the decoder without cache.
    """

    window_s: int
    length: int

    @property
    def n_frames(self) -> int:
        """Log-mel frames of the window."""
        return self.window_s * FRAMES_PER_SECOND

    @property
    def n_positions(self) -> int:
        """Encoder positions of the window."""
        return self.n_frames // FRAMES_PER_POSITION


def fixed_sizes(options: HailoOptions, dims: Dimensions) -> FixedSizes:
    """Check what the user chose and fill in the rest.

    Raises:
        OptionError: a window or a length that this model cannot have.
    """
    if dims.max_window_s < 1 or dims.n_vocab < N_CHUNKS:
        raise OptionError(
            f"--hailo: a model with {dims.n_audio_ctx} encoder positions and {dims.n_vocab} tokens "
            f"has no Hailo form, expected a window of 1 s or more and {N_CHUNKS} tokens or more"
        )
    known_window_s, known_length = _known(dims.d_model, options.arch)
    return FixedSizes(
        window_s=_window(options.window_s, known_window_s, dims),
        length=_length(options.decoder_length, known_length, dims),
    )


def _known(d_model: int, arch: str | None) -> tuple[int, int]:
    """Window and length that are known, or likeliest, to compile."""
    if d_model <= TINY_D_MODEL:
        return SMALL_WINDOW_S, SMALL_LENGTH
    if arch == "hailo10h" and d_model <= BASE_D_MODEL:
        return BASE_10H_WINDOW_S, BASE_10H_LENGTH
    return LARGE_WINDOW_S, LARGE_LENGTH


def _window(wanted: float | None, known: int, dims: Dimensions) -> int:
    longest = int(dims.max_window_s)
    if wanted is None:
        return min(known, longest)
    if not 1 <= wanted <= longest or wanted != int(wanted):
        raise OptionError(
            f"--window is {wanted:g}, expected a whole number of seconds from 1 to {longest} "
            f"({dims.n_audio_ctx} encoder positions); the known windows are 10 for tiny, 5 for base"
        )
    return int(wanted)


def _length(wanted: int | None, known: int, dims: Dimensions) -> int:
    if wanted is None:
        return min(known, dims.n_text_ctx)
    if not 1 <= wanted <= dims.n_text_ctx:
        raise OptionError(
            f"--decoder-length is {wanted}, expected 1 to {dims.n_text_ctx}, this model's text "
            "context; the known lengths are 32 for tiny, 24 for base, 64 on Hailo-10H"
        )
    return wanted
