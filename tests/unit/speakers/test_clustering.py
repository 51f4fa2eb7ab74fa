"""Prints of made-up people, who differ from time to time as voices do."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from whisper_hailo.core.types import FloatArray
from whisper_hailo.speakers.clustering import cluster_prints, start_clusters
from whisper_hailo.speakers.embeddings import normalize
from whisper_hailo.speakers.options import SpeakerCount

_SIZE = 192
_NOISE = 1.2
"""Relative to the voice: two prints of one person have a cosine of about 0.4."""


def _people(n_prints: tuple[int, ...], seed: int = 0) -> FloatArray:
    """Return prints of people, one after the other."""
    rng = np.random.default_rng(seed)
    voices = normalize(rng.normal(size=(len(n_prints), _SIZE)))
    prints = []
    for voice, count in zip(voices, n_prints, strict=True):
        noise = normalize(rng.normal(size=(count, _SIZE)))
        prints.append(normalize(voice + _NOISE * noise))
    return np.concatenate(prints).astype(np.float32)


def _cluster(
    prints: FloatArray,
    count: SpeakerCount | None = None,
    seconds: float = 2.0,
    voices: NDArray[np.int64] | None = None,
) -> FloatArray:
    n_prints = len(prints)
    windows = np.arange(n_prints) if voices is None else np.zeros(n_prints, np.int64)
    return cluster_prints(
        prints,
        np.full(n_prints, seconds),
        windows,
        np.zeros(n_prints, np.int64) if voices is None else voices,
        count or SpeakerCount(),
    )


@pytest.mark.parametrize("n_prints", [(9,), (12, 3), (20, 5, 8), (4, 4, 4, 4, 4, 4)])
def test_cluster_prints_finds_number_of_people(n_prints: tuple[int, ...]) -> None:
    assert len(_cluster(_people(n_prints))) == len(n_prints)


def test_cluster_prints_puts_most_speech_first() -> None:
    prints = _people((3, 12))
    first, second = _cluster(prints)
    assert (prints[3:] @ first).mean() > (prints[3:] @ second).mean()


def test_cluster_prints_of_blocks_finds_same_people() -> None:
    centroids = _cluster(_people((700, 400, 30)))
    assert len(centroids) == 3


def test_cluster_prints_drops_what_is_too_short() -> None:
    prints = _people((10, 1))
    assert len(_cluster(prints, seconds=0.7)) == 1
    assert len(_cluster(prints, seconds=0.9)) == 2


def test_cluster_prints_of_much_speech_drops_more() -> None:
    """A second is a person's turn in half a minute, and a cough in several minutes."""
    for n_pieces, n_people in ((20, 2), (90, 1)):
        assert len(_cluster(_people((n_pieces, 1)), seconds=1.2)) == n_people


def test_cluster_prints_fewest_splits_one_person() -> None:
    assert len(_cluster(_people((12,)), SpeakerCount(2, 2))) == 2


def test_cluster_prints_most_joins_people() -> None:
    assert len(_cluster(_people((9, 9, 9, 9)), SpeakerCount(2, 3))) == 3


def test_cluster_prints_fewest_admits_a_short_speaker() -> None:
    prints = _people((12, 1))
    seconds = np.full(13, 2.0)
    seconds[-1] = 0.7
    centroids = cluster_prints(
        prints, seconds, np.arange(13), np.zeros(13, np.int64), SpeakerCount(2, 2)
    )
    assert (prints[-1] @ centroids.T).argmax() == 1


def test_cluster_prints_without_prints_is_empty() -> None:
    assert _cluster(np.empty((0, _SIZE), np.float32)).shape == (0, _SIZE)


def test_voices_of_one_window_keep_similar_people_apart() -> None:
    rng = np.random.default_rng(3)
    voice = rng.normal(size=_SIZE)
    other = normalize(voice) + 0.8 * normalize(rng.normal(size=_SIZE))
    noise = normalize(rng.normal(size=(8, _SIZE)))
    bases = np.concatenate(
        [np.tile(normalize(voice), (4, 1)), np.tile(normalize(other), (4, 1))]
    )
    prints = normalize(bases + _NOISE * noise).astype(np.float32)
    assert len(_cluster(prints)) == 1
    assert len(_cluster(prints, voices=np.repeat([0, 1], 4))) == 2


def test_start_clusters_links_voices_of_one_window() -> None:
    clusters = start_clusters(
        np.eye(3, 4, dtype=np.float32),
        np.array([2.0, 1.0, 3.0]),
        np.array([0, 0, 1]),
        np.array([0, 1, 0]),
    )
    assert clusters.apart.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert not clusters.together.any()
    assert clusters.seconds.tolist() == [2, 1, 2]
