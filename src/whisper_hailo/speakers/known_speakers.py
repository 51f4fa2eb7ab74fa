"""Speakers who are known by a sample of their voice."""

from __future__ import annotations

from typing import Final

import numpy as np

from whisper_hailo.core.types import FloatArray

_LEAST_SIMILARITY: Final = 0.5
"""Cosine of a speaker and a sample: all of 2,614 of one person had more, from another conversation
with other noise, and one in 5,000 of two people."""


def match_known_speakers(prints: FloatArray, samples: FloatArray) -> list[int | None]:
    """Return the sample of each speaker; `None` where none of them is the same person.

    The most similar pairs first; each sample belongs to one speaker at most.

    Args:
        prints: `(n_speakers, size)` of length 1.
        samples: `(n_samples, size)` of length 1; zeros where a sample holds no speech.
    """
    matches: list[int | None] = [None] * len(prints)
    similarities = prints @ samples.T
    while similarities.size and similarities.max() >= _LEAST_SIMILARITY:
        speaker, sample = np.unravel_index(similarities.argmax(), similarities.shape)
        matches[int(speaker)] = int(sample)
        similarities[speaker] = -np.inf
        similarities[:, sample] = -np.inf
    return matches
