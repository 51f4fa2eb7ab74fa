"""Default batch size."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions

MEMINFO: Final = Path("/proc/meminfo")
_LINE: Final = "MemAvailable:"


def available_bytes() -> int | None:
    """What the system could give without swapping; `None` where it does not say."""
    try:
        lines = MEMINFO.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    found = next((line.split() for line in lines if line.startswith(_LINE)), [])
    return int(found[1]) * 1024 if len(found) > 1 and found[1].isdigit() else None


MAX_BATCH: Final = 256
USUAL_BATCH: Final = 4
"""Takes most of what there is to gain: a step reads the weights once for all of its windows."""

_SHARE: Final = 0.25
"""Of the free memory; the model itself and other programs need some, too."""
_ENCODER_COPIES: Final = 16
"""Arrays of the size of the audio features that the encoder and its queue hold at once."""
_FLOAT_BYTES: Final = 4


def checked_batch(batch_size: int) -> int:
    """A number of windows that was asked for.

    Raises:
        OptionError: none, or too many.
    """
    if not 1 <= batch_size <= MAX_BATCH:
        raise OptionError(f"--batch-size is {batch_size}, expected 1 to {MAX_BATCH}")
    return batch_size


def fitting_batch(dims: Dimensions) -> int:
    """Return how many windows are worth it and fit a quarter of the free memory; at least one."""
    free = available_bytes()
    if free is None:
        return 1
    return max(1, min(USUAL_BATCH, int(_SHARE * free / window_bytes(dims))))


def window_bytes(dims: Dimensions) -> int:
    """Memory of one window on its way, at most: keys and values in float32, and the encoder's."""
    positions = dims.n_audio_ctx + 1 + dims.n_text_ctx
    cached = 2 * dims.n_decoder_layers * positions * dims.d_model
    encoded = _ENCODER_COPIES * dims.n_audio_ctx * dims.d_model
    return _FLOAT_BYTES * (cached + encoded)
