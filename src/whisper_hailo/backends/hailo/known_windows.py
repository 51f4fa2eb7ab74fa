"""The sizes that Whisper is known to compile with for a Hailo chip: the only table of them.

Conversions take their defaults from it, the catalogue of published HEFs its windows, and the check
of graphs what it expects to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TINY: Final = 384
BASE: Final = 512
"""Widths (`d_model`) of the models that the vendor publishes pairs of."""

_NAMES: Final = {TINY: "tiny", BASE: "base"}


@dataclass(frozen=True, slots=True)
class KnownWindow:
    """Sizes of an encoder and a decoder that the vendor compiled for one chip.

    Attributes:
        d_model: width of the model.
        window_s: of the encoder.
        length: text positions of the decoder.
    """

    arch: str
    d_model: int
    window_s: int
    length: int


_SIZES: Final = (
    KnownWindow("hailo8", TINY, window_s=10, length=32),
    KnownWindow("hailo8l", TINY, window_s=10, length=32),
    KnownWindow("hailo10h", TINY, window_s=10, length=32),
    KnownWindow("hailo8", BASE, window_s=5, length=24),
    KnownWindow("hailo8l", BASE, window_s=5, length=24),
    KnownWindow("hailo10h", BASE, window_s=10, length=64),
)
KNOWN_WINDOWS: Final = {(sizes.arch, sizes.d_model): sizes for sizes in _SIZES}
"""By chip and width."""

_FAILING_S: Final = {("hailo8", BASE): 10, ("hailo8l", BASE): 10}
"""Chip and width to the window in seconds from which compilation fails."""


def is_failing(arch: str, d_model: int, window_s: int) -> bool:
    """Return whether this window is known not to compile."""
    failing_s = _FAILING_S.get((arch, d_model))
    return failing_s is not None and window_s >= failing_s


def default_window(d_model: int, arch: str | None) -> KnownWindow:
    """Return the sizes to try first for a width, on one chip, or (`None`) on any.

    They are those of the next width that is known. A wider model than all gets the shortest window,
    as the likeliest to fit.
    """
    candidates = [
        sizes
        for sizes in _SIZES
        if d_model <= sizes.d_model and arch in (None, sizes.arch)
    ]
    if not candidates:
        return min(_SIZES, key=lambda sizes: sizes.window_s)
    # Without a chip the shortest of that width, since it fits all chips.
    return min(candidates, key=lambda sizes: (sizes.d_model, sizes.window_s))


def describe_windows() -> str:
    """Return the known windows in seconds, for messages."""
    return _describe({key: window.window_s for key, window in KNOWN_WINDOWS.items()})


def describe_lengths() -> str:
    """Return the known decoder lengths, for messages."""
    return _describe({key: window.length for key, window in KNOWN_WINDOWS.items()})


def _describe(sizes: dict[tuple[str, int], int]) -> str:
    """Return the size of each model, and where a Hailo-10H has another one."""
    parts = []
    for d_model, name in _NAMES.items():
        size = sizes["hailo8", d_model]
        size_10h = sizes["hailo10h", d_model]
        also = "" if size_10h == size else f" ({size_10h} on a Hailo-10H)"
        parts.append(f"{size} for {name}{also}")
    return ", ".join(parts)
