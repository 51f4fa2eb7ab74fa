"""Comparison of a chip's audio features with the CPU's, and a name for how they differ.

A chip whose contract is misread answers with numbers like any other: features in another order, at
another scale, of another run or another model. The decoder then hears silence or noise. Here such
features are compared with the ones that the CPU computes for the same recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisper_hailo.core.types import FloatArray

MIN_SIMILARITY: Final = 0.8
"""Emulated encoders that keep their words reach 0.96 to 0.99, real base with layer norms at 8 bits,
which loses three of four words, 0.66 (docs/hailo-device.md)."""

RELATED: Final = 0.55
"""Features of the same audio are more alike, however noisy. Another recording reaches 0.38, another
layout 0.19, another model 0.02."""

_LARGEST_GAIN: Final = 1.25
"""The encoder's last layer norm fixes the size of its output, so rounding hardly changes it:
emulated encoders give 0.94 to 1.00. Half the scale is 0.5."""

_EXACT_DB: Final = 100.0
"""As much as float32 can tell from equality. Answers are kept as JSON, which has no infinity."""

TOO_NOISY: Final = "features are the model's, but too noisy for its words"

_CONSTANT: Final = 0.01
"""Share of the CPU's variation below which features do not depend on the audio."""


@dataclass(frozen=True, slots=True)
class FeatureMatch:
    """How well features match those of the CPU.

    Attributes:
        snr_db: signal-to-noise ratio in dB; the CPU's features are the signal.
        similarity: correlation over positions and channels, less each channel's mean, which is
            nearly the same for any audio; from -1 to 1.
        gain: size of the features; the CPU's is 1.
    """

    snr_db: float
    similarity: float
    gain: float

    @property
    def is_close(self) -> bool:
        """True if the features are the CPU's, but for rounding."""
        return self.similarity >= MIN_SIMILARITY and _has_right_size(self.gain)


def _has_right_size(gain: float) -> bool:
    return 1 / _LARGEST_GAIN <= gain <= _LARGEST_GAIN


def match_features(features: FloatArray, reference: FloatArray) -> FeatureMatch:
    """Compare features `(n_positions, d_model)` float32 with the CPU's of the same audio."""
    if not np.isfinite(features).all():
        return FeatureMatch(-np.inf, 0.0, 0.0)
    varying = features - features.mean(axis=0)
    varying_reference = reference - reference.mean(axis=0)
    size = float(np.linalg.norm(varying))
    reference_size = float(np.linalg.norm(varying_reference))
    similarity = 0.0
    if size > 0:
        product = float(np.vdot(varying, varying_reference))
        similarity = product / (size * reference_size)
    return FeatureMatch(
        snr_db=_snr_db(features, reference),
        similarity=similarity,
        gain=size / reference_size,
    )


def _snr_db(features: FloatArray, reference: FloatArray) -> float:
    noise = float(np.sum((features - reference) ** 2, dtype=np.float64))
    signal = float(np.sum(reference**2, dtype=np.float64))
    if noise == 0:
        return _EXACT_DB
    return min(_EXACT_DB, 10 * float(np.log10(signal / noise)))


def explain_features(features: FloatArray, reference: FloatArray) -> str:
    """Return what is wrong with features that are not close to the CPU's; empty if unknown.

    Both are `(n_positions, d_model)` float32. Other orders, shifts and scales are undone, and the
    likeliest is named with the signal-to-noise ratio that it gives.
    """
    if not np.isfinite(features).all():
        return "features are not numbers"
    if not features.any():
        return "features are all zero"
    if match_features(features, reference).gain < _CONSTANT:
        return "features are the same whatever the audio"
    candidates = dict(_undone(features, reference))
    matches = {
        name: match_features(candidate, reference)
        for name, candidate in candidates.items()
    }
    name = max(matches, key=lambda name: matches[name].similarity)
    gain = matches[name].gain
    is_noise = not name and _has_right_size(gain)
    if is_noise and matches[name].similarity >= RELATED:
        return TOO_NOISY
    if matches[name].similarity < MIN_SIMILARITY:
        return ""
    snr_db = _snr_db(candidates[name] / gain, reference)
    names = [name] if name else []
    if not _has_right_size(gain):
        names.append(f"at {gain:.2g} of their scale")
    effect = f"{snr_db:.0f} dB after undoing it"
    return f"features look {' and '.join(names)}: {effect}"


def _undone(
    features: FloatArray, reference: FloatArray
) -> Iterator[tuple[str, FloatArray]]:
    """Yield misreadings, and the features without them; the first is none."""
    n_positions, d_model = features.shape
    transposed = np.ascontiguousarray(features.reshape(d_model, n_positions).T)
    for order, matrix in (("", features), ("transposed", transposed)):
        yield order, matrix
        for axis, unit in enumerate(("position", "channel")):
            lag = _best_lag(matrix, reference, axis)
            plural = "" if abs(lag) == 1 else "s"
            shift = f"shifted by {lag} {unit}{plural}"
            name = f"{order} and {shift}" if order else shift
            yield name, np.roll(matrix, -lag, axis)


def _best_lag(features: FloatArray, reference: FloatArray, axis: int) -> int:
    """Return by how many places along an axis features follow the reference best, in a circle."""
    size = features.shape[axis]
    varying = features - features.mean(axis=0)
    varying_reference = reference - reference.mean(axis=0)
    spectrum = np.fft.rfft(varying, axis=axis)
    spectrum *= np.conj(np.fft.rfft(varying_reference, axis=axis))
    products = np.fft.irfft(spectrum.sum(axis=1 - axis), size)
    lag = int(products.argmax())
    return lag if lag <= size // 2 else lag - size
