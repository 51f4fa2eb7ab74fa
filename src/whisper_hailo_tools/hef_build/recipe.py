"""What the vendor's model scripts say, as one table: per size, chip and part.

Source: the twelve scripts of hailocs/hailo-whisper (commit 347d8a05), `conversion/optimization`.
Sizes that the vendor never compiled take the row of base, the widest there is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ARCHES = ("hailo8", "hailo8l", "hailo10h")
SIZES = ("tiny", "tiny.en", "base", "base.en")
LEARNING_RATE = "0.00001"

ENCODER_WINDOWS = {"tiny": 4000, "base": 2048}
DECODER_WINDOWS = 1024
"""Windows that a calibration set should hold: as many as fine-tuning goes through (3340 of 4000
for tiny encoders, 2048 for base, 1024 for decoders); statistics take the first of them."""


@dataclass(frozen=True)
class Recipe:
    """The numbers and switches of one model script.

    Attributes:
        compression_level: `None` leaves the compiler's default.
        calib_batch: windows per batch of the statistics.
        calib_count: windows that statistics are taken from.
        tune_count: windows per epoch of the fine-tuning.
        tune_batch: windows per batch of the fine-tuning, `None` leaves the default.
        matmul_mending: zero-point compensation and equalisation of attention's own products.
        norm_decomposition: layer norms in pieces of one precision.
        small_first_add: the first residual add stays at 8 bits.
        first_wide: 1-based number of the first linear product that may be at 16 bits (decoders).
        extra_wide: further such numbers (decoders).
        max_utilization: how full a context may get, `None` leaves the default.
        max_effort: the compiler searches as long as it can.
    """

    compression_level: int | None
    calib_batch: int
    calib_count: int
    tune_count: int
    tune_epochs: int
    tune_batch: int | None
    matmul_mending: bool
    norm_decomposition: bool
    small_first_add: bool
    wide_outputs: bool
    first_wide: int
    extra_wide: tuple[int, ...]
    max_utilization: str | None
    max_effort: bool


_TINY_ENCODER = Recipe(
    compression_level=None,  # the one family of scripts that leaves it out
    calib_batch=8,
    calib_count=1024,
    tune_count=3340,
    tune_epochs=6,
    tune_batch=8,
    matmul_mending=True,
    norm_decomposition=False,
    small_first_add=True,
    wide_outputs=False,
    first_wide=1,
    extra_wide=(),
    max_utilization=None,
    max_effort=False,
)
_BASE_ENCODER = replace(
    _TINY_ENCODER,
    compression_level=0,
    calib_count=512,
    tune_count=2048,
    tune_epochs=4,
    tune_batch=4,
)
_TINY_DECODER = Recipe(
    compression_level=0,
    calib_batch=4,
    calib_count=128,
    tune_count=1024,
    tune_epochs=4,
    tune_batch=None,
    matmul_mending=False,
    norm_decomposition=False,
    small_first_add=False,
    wide_outputs=True,
    first_wide=12,
    extra_wide=(25, 31),
    max_utilization="0.8",
    max_effort=False,
)
_BASE_DECODER = replace(_TINY_DECODER, calib_count=256, wide_outputs=False, extra_wide=())

_ROWS = {
    ("encoder", "tiny"): _TINY_ENCODER,
    ("encoder", "tiny.en"): replace(
        _TINY_ENCODER, compression_level=0, tune_batch=4, max_effort=True
    ),
    ("encoder", "base"): _BASE_ENCODER,
    ("encoder", "base.en"): _BASE_ENCODER,
    ("decoder", "tiny"): _TINY_DECODER,
    # English tiny decoders want their norms in pieces on every chip.
    ("decoder", "tiny.en"): replace(_TINY_DECODER, norm_decomposition=True, max_utilization="0.7"),
    ("decoder", "base"): _BASE_DECODER,
    ("decoder", "base.en"): _BASE_DECODER,
}


def size_of(d_model: int, *, multilingual: bool) -> str:
    """Return row of a model: tiny up to width 384, base beyond it."""
    return ("tiny" if d_model <= 384 else "base") + ("" if multilingual else ".en")


def default_windows(part: str, size: str) -> int:
    """Return windows that a calibration set should hold."""
    return ENCODER_WINDOWS[size.removesuffix(".en")] if part == "encoder" else DECODER_WINDOWS


def recipe_of(part: str, size: str, arch: str) -> Recipe:
    """Return the recipe of one part of one size on one chip."""
    recipe = _ROWS[part, size]
    if arch != "hailo10h":
        return recipe
    if size in ("tiny", "base"):  # both parts; never for base.en
        recipe = replace(recipe, norm_decomposition=True)
    if part == "decoder" and size == "tiny":
        recipe = replace(recipe, max_utilization="0.7")
    return recipe
