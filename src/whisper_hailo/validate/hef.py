"""The last rung: compiled networks on the chip of this machine, or why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from whisper_hailo.backends.hailo.choose import matching_hef, usable_chip
from whisper_hailo.backends.hailo.decoder import HefRunner
from whisper_hailo.backends.hailo.encoder import HefEncoder
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.validate.runs import NamedDecoder, NamedEncoder


def find_hef(directory: Path, spec: ModelSpec, part: str) -> Path | str:
    """The HEF of one part that this machine's chip takes, or why there is nothing to run."""
    arch, what = usable_chip()
    if arch is None:
        return f"{what}; validate on the device"
    path = matching_hef(directory, spec, arch, part)
    if path is None:
        return f"no HEF of this model for {what}; whisper-hailo compile makes one"
    return path


def hef_encoder(path: Path, spec: ModelSpec, n_frames: int) -> NamedEncoder | str:
    """An encoder on the chip, or why its window is not the one that is compared.

    Raises:
        HefError, ModelError: broken, or of another model.
    """
    encoder = HefEncoder(path, spec)
    if encoder.n_frames != n_frames:
        return f"{path.name} takes {encoder.n_frames} frames, the windows here have {n_frames}"

    def encode(mel: FloatArray) -> FloatArray:
        with encoder:
            return np.concatenate([encoder.encode(window[np.newaxis]) for window in mel])

    return NamedEncoder(path.name, encode)


def hef_decoder(
    path: Path, spec: ModelSpec, assets: Path, sizes: tuple[int, int]
) -> NamedDecoder | str:
    """A decoder on the chip, or why its sizes are not those that are compared.

    Args:
        path: the HEF.
        spec: the model.
        assets: folder with the arrays of its host.
        sizes: encoder positions and tokens of what is compared.

    Raises:
        HefError, ModelError: broken, or of another model.
    """
    runner = HefRunner(path, spec, assets)
    if (runner.n_positions, runner.length) != sizes:
        return (
            f"{path.name} takes {runner.n_positions} positions and {runner.length} tokens, here "
            f"there are {sizes[0]} and {sizes[1]}"
        )

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        with runner:
            return runner.run(tokens, features)

    return NamedDecoder(path.name, logits, pad_to=0)
