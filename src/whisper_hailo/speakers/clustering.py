"""Groups of voice prints that are one person's: agglomerative clustering with a threshold.

Two clusters are compared by the cosine of their centroids. A centroid of little speech is a noisy
one, so that two of the same person are less alike the shorter they are; the cosine is divided by
the reliability of both (the correction for attenuation of Spearman, 1904). The result is about 1
for the same person and below 0.4 for two, whatever their length, and one threshold serves for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.types import FloatArray
from whisper_hailo.speakers.embeddings import normalize
from whisper_hailo.speakers.options import SpeakerCount

_THRESHOLD: Final = 0.6
"""Of the corrected cosine: two are one person above it. On the conversations it was set with, two
people had at most 0.42, one person at least 0.71 (docs/measurements/speakers.md)."""

_PIECE_SIMILARITY: Final = 0.4
"""Mean cosine of two pieces of 2 s of one person."""

_PIECE_S: Final = 2.0
_LEAST_PIECES: Final = 0.25
"""The correction is not followed further, where it would divide by almost nothing."""

_OTHER_VOICE_PENALTY: Final = 0.3
"""For clusters that are different voices of the same windows: the segmentation heard two people.
It is not forbidden to join them, since the segmentation also takes one person for two."""

_SAME_VOICE_BONUS: Final = 0.1
"""For clusters that are the same voice of the same windows."""

_LEAST_SHARE: Final = 0.02
_LEAST_SPEECH_S: Final = (0.8, 1.5)
"""A cluster with less than this share of all speech, within these bounds, is a laugh, a cough or
two voices at once, and no person of its own. A longer recording has more of them."""

_BLOCK: Final = 400
"""Prints clustered at once, about a quarter of an hour of speech: the work grows with the cube of
their number, and the memory with its square."""

_SURELY_ONE: Final = 0.8
"""Two clusters are surely one person above it: within a block only those are joined, and the rest
is decided among all blocks."""


@dataclass(slots=True, eq=False)
class Clusters:
    """Clusters of prints, and what the segmentation says about them.

    Attributes:
        sums: `(n, size)` float32 sums of prints of length 1, weighted by their seconds.
        seconds: `(n,)` float64 of clean speech.
        apart: `(n, n)` float32 seconds in which two are different voices of the same windows.
        together: `(n, n)` float32 seconds in which two are the same voice of the same windows.
    """

    sums: FloatArray
    seconds: NDArray[np.float64]
    apart: FloatArray
    together: FloatArray

    def __len__(self) -> int:
        return len(self.seconds)

    def copy(self) -> Clusters:
        return Clusters(
            sums=self.sums.copy(),
            seconds=self.seconds.copy(),
            apart=self.apart.copy(),
            together=self.together.copy(),
        )


@dataclass(frozen=True, slots=True)
class _Merge:
    """Cluster `second` joined `first` at a similarity."""

    first: int
    second: int
    similarity: float


def start_clusters(
    prints: FloatArray,
    seconds: NDArray[np.float64],
    windows: NDArray[np.int64],
    voices: NDArray[np.int64],
) -> Clusters:
    """Return a cluster for each print.

    Args:
        prints: `(n, size)` of length 1.
        seconds: `(n,)` of speech that each was taken from; more than 2 s count as 2 s.
        windows: `(n,)` window of the segmentation that each comes from.
        voices: `(n,)` voice of that window.
    """
    weights = np.minimum(seconds, _PIECE_S)
    shared = np.minimum(weights[:, np.newaxis], weights).astype(np.float32)
    is_same_window = windows[:, np.newaxis] == windows
    is_same_voice = voices[:, np.newaxis] == voices
    together = np.where(is_same_window & is_same_voice, shared, np.float32(0))
    np.fill_diagonal(together, 0.0)
    return Clusters(
        sums=prints * weights[:, np.newaxis].astype(np.float32),
        seconds=weights,
        apart=np.where(is_same_window & ~is_same_voice, shared, np.float32(0)),
        together=together,
    )


def cluster_prints(
    prints: FloatArray,
    seconds: NDArray[np.float64],
    windows: NDArray[np.int64],
    voices: NDArray[np.int64],
    count: SpeakerCount,
) -> FloatArray:
    """Return the centroids `(n_speakers, size)` float32 of length 1, most speech first.

    Arguments are those of `start_clusters`, in order of time, and the number of speakers.
    """
    parts: list[Clusters] = []
    for start in range(0, len(prints), _BLOCK):
        block = slice(start, start + _BLOCK)
        clusters = start_clusters(
            prints[block], seconds[block], windows[block], voices[block]
        )
        if len(prints) > _BLOCK:
            clusters = _join_above(clusters, _SURELY_ONE)
        parts.append(clusters)
    if not parts:
        return np.empty((0, prints.shape[1]), np.float32)
    clusters = _concatenate(parts)
    merges = _merge_all(clusters)
    least_s = _least_speech_s(clusters.seconds)
    n_merges = _choose_merges(clusters, merges, count, least_s)
    clusters = _apply(clusters, merges[:n_merges])
    order = np.argsort(-clusters.seconds, kind="stable")
    is_person = clusters.seconds[order] >= least_s
    is_person[: max(1, count.fewest)] = True
    is_person[count.most :] = False
    return normalize(clusters.sums[order[is_person]])


def _least_speech_s(seconds: NDArray[np.float64]) -> float:
    """Return the speech that makes a cluster a person, by that of all clusters `(n,)`."""
    fewest_s, most_s = _LEAST_SPEECH_S
    return min(most_s, max(fewest_s, _LEAST_SHARE * float(seconds.sum())))


def _choose_merges(
    clusters: Clusters,
    merges: Sequence[_Merge],
    count: SpeakerCount,
    least_s: float,
) -> int:
    """Return how many merges to make so that the number of people is within its bounds.

    A cluster is a person with `least_s` of speech.

    As many as are above the threshold. More while there are too many people. Where there are too
    few, merges are undone as long as it is not sure that they joined one person; if that is not
    enough, until there are enough clusters of any length.
    """
    seconds = clusters.seconds.copy()
    n_people = [int((seconds >= least_s).sum())]
    for merge in merges:
        seconds[merge.first] += seconds[merge.second]
        seconds[merge.second] = 0.0
        n_people.append(int((seconds >= least_s).sum()))
    n_merges = 0
    while n_merges < len(merges) and merges[n_merges].similarity >= _THRESHOLD:
        n_merges += 1
    while n_merges < len(merges) and n_people[n_merges] > count.most:
        n_merges += 1
    n_kept = n_merges
    while n_kept and n_people[n_kept] < count.fewest:
        if merges[n_kept - 1].similarity >= _SURELY_ONE:
            break
        n_kept -= 1
    if n_people[n_kept] >= count.fewest:
        return n_kept
    return max(0, min(n_merges, len(clusters) - count.fewest))


def _merge_all(clusters: Clusters, threshold: float = -np.inf) -> list[_Merge]:
    """Return the merges of the most alike, one after the other, down to a threshold."""
    state = clusters.copy()
    n_clusters = len(clusters)
    is_gone = np.zeros(n_clusters, dtype=bool)
    similarities = np.empty((n_clusters, n_clusters), np.float32)
    for index in range(n_clusters):
        similarities[index] = _similarities(state, index, is_gone)
    merges: list[_Merge] = []
    for _ in range(n_clusters - 1):
        first, second = np.unravel_index(similarities.argmax(), similarities.shape)
        merge = _Merge(int(first), int(second), float(similarities[first, second]))
        if merge.similarity < threshold:
            break
        merges.append(merge)
        _merge_into(state, merge)
        is_gone[second] = True
        row = _similarities(state, merge.first, is_gone)
        similarities[first] = row
        similarities[:, first] = row
        similarities[second] = -np.inf
        similarities[:, second] = -np.inf
    return merges


def _merge_into(state: Clusters, merge: _Merge) -> None:
    """Add the second cluster to the first, in place."""
    state.sums[merge.first] += state.sums[merge.second]
    state.seconds[merge.first] += state.seconds[merge.second]
    for links in (state.apart, state.together):
        links[merge.first] += links[merge.second]
        links[:, merge.first] += links[:, merge.second]


def _similarities(
    clusters: Clusters, index: int, is_gone: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return `(n,)`: how likely each cluster and one of them are the same person."""
    centroids = normalize(clusters.sums)
    reliability = _reliability(clusters.seconds)
    similarities: NDArray[np.float64] = (centroids @ centroids[index]).astype(
        np.float64
    )
    similarities /= reliability * reliability[index]
    shorter = np.minimum(clusters.seconds, clusters.seconds[index])
    similarities -= _OTHER_VOICE_PENALTY * np.minimum(
        1.0, clusters.apart[index] / shorter
    )
    similarities += _SAME_VOICE_BONUS * np.minimum(
        1.0, clusters.together[index] / shorter
    )
    similarities[is_gone] = -np.inf
    similarities[index] = -np.inf
    return similarities


def _reliability(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the expected cosine of a centroid and the true voice, by the seconds it is made of."""
    n_pieces = np.maximum(seconds / _PIECE_S, _LEAST_PIECES)
    cosines: NDArray[np.float64] = np.sqrt(
        n_pieces * _PIECE_SIMILARITY / (1 + (n_pieces - 1) * _PIECE_SIMILARITY)
    )
    return cosines


def _join_above(clusters: Clusters, threshold: float) -> Clusters:
    return _apply(clusters, _merge_all(clusters, threshold))


def _apply(clusters: Clusters, merges: Sequence[_Merge]) -> Clusters:
    """Return the clusters after some merges."""
    state = clusters.copy()
    is_left = np.ones(len(clusters), dtype=bool)
    for merge in merges:
        _merge_into(state, merge)
        is_left[merge.second] = False
    rows = np.flatnonzero(is_left)
    return Clusters(
        sums=state.sums[rows],
        seconds=state.seconds[rows],
        apart=state.apart[np.ix_(rows, rows)],
        together=state.together[np.ix_(rows, rows)],
    )


def _concatenate(parts: Sequence[Clusters]) -> Clusters:
    """Return the clusters of blocks, between which the segmentation says nothing."""
    if len(parts) == 1:
        return parts[0]
    n_clusters = sum(len(part) for part in parts)
    apart = np.zeros((n_clusters, n_clusters), np.float32)
    together = np.zeros((n_clusters, n_clusters), np.float32)
    start = 0
    for part in parts:
        block = slice(start, start + len(part))
        apart[block, block] = part.apart
        together[block, block] = part.together
        start += len(part)
    return Clusters(
        sums=np.concatenate([part.sums for part in parts]),
        seconds=np.concatenate([part.seconds for part in parts]),
        apart=apart,
        together=together,
    )
