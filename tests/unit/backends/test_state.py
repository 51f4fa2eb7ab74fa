"""The cache, the audio's keys that words are aligned by, and rows as beams trade places."""

import numpy as np
import pytest

from tests.fakes.model_sizes import ATOL, FULL, features_of, ids_of
from whisper_hailo.backends.onnx import CachedDecoder, alignment_weights
from whisper_hailo.backends.state import CrossKV, cross_bias
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.types import FloatArray

LOGS = np.log([2.0, 3.0, 1.0, 1.0])
"""Scores of three positions and of a zero row."""


def test_cross_bias_masks_and_weighs_padding() -> None:
    paddings = (Padding(None), Padding(10), Padding(4))
    bias = cross_bias(paddings, np.array([4, 2, 4]), 4)
    assert bias.shape == (3, 1, 1, 5)
    assert bias.dtype == np.float32
    inf = np.inf
    np.testing.assert_allclose(bias[0, 0, 0], [0, 0, 0, 0, -inf])
    np.testing.assert_allclose(bias[1, 0, 0], [0, 0, -inf, -inf, np.log(8)])
    np.testing.assert_allclose(bias[2, 0, 0], [0, 0, 0, 0, -inf])


def test_cache_keeps_places_that_another_state_uses(decoder: CachedDecoder) -> None:
    """A draft's branch is cut off while the text that was verified goes on behind it."""
    look = np.array([0])
    _, prompt = decoder.step(
        ids_of([11, 5, 7, 9]),
        decoder.start(features_of(1, 30, 64), (FULL,)),
        np.array([3]),
    )
    _, longer = decoder.step(ids_of([20]), prompt, look)
    expected = decoder.step(ids_of([21]), longer, look)[0].logits.copy()
    back = decoder.rewind(prompt, 2)
    decoder.step(ids_of([30, 31, 32]), back, look)
    got = decoder.step(ids_of([21]), longer, look)[0].logits
    np.testing.assert_allclose(got, expected, atol=ATOL)


@pytest.mark.parametrize(
    "cuts",
    [(1, 3, 2), (1, 1, 2, 1, 1, 3, 1), (2, 1, 2, 1)],
    ids=["masks-of-one-size", "drafts-between", "drafts-first"],
)
def test_decoder_text_in_pieces_equals_the_whole(
    decoder: CachedDecoder, cuts: tuple[int, ...]
) -> None:
    """Three tokens behind one and two behind four have masks of twelve numbers each."""
    n_tokens = sum(cuts)
    tokens = np.random.default_rng(0).integers(0, 200, (1, n_tokens))
    state = decoder.start(features_of(1, 30, 64), (FULL,))
    whole, _ = decoder.step(tokens, state, np.arange(n_tokens))
    done = 0
    for n in cuts:
        out, state = decoder.step(tokens[:, done : done + n], state, np.arange(n))
        np.testing.assert_allclose(
            out.logits, whole.logits[:, done : done + n], atol=ATOL
        )
        done += n


def _cross() -> CrossKV:
    """Two layers of two heads of two numbers; what is asked for is in the second head of the last.

    All other keys, and all values, are seven.
    """
    names = [f"cross_{part}_{layer}" for layer in range(2) for part in ("key", "value")]
    arrays = {name: np.full((1, 2, 4, 2), 7, np.float32) for name in names}
    arrays["cross_key_1"][0, 1] = np.stack([LOGS, np.zeros(4)], axis=1)
    return CrossKV({**arrays}, shares=False)


def _weights(query: list[float]) -> FloatArray:
    """Weights of one token; four zero rows behind the audio weigh as one with ln 4."""
    queries = np.array([[[[5, 5], query]]], np.float32)
    bias = np.zeros((1, 1, 1, 4), np.float32)
    bias[..., -1] = np.log(4)
    return alignment_weights([queries], _cross(), bias, {1: [1]})


def test_alignment_weights_use_own_keys_and_silence() -> None:
    found = _weights([1, 9])
    assert found.shape == (1, 1, 1, 4)
    np.testing.assert_allclose(found[0, 0, 0], [0.2, 0.3, 0.1, 0.4], rtol=1e-6)


def test_alignment_weights_of_large_scores_are_finite() -> None:
    np.testing.assert_allclose(_weights([1e4, 0])[0, 0, 0], [0, 1, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    "rows", [[0, 0, 2], [1, 1, 3], [2, 3], [3, 1, 2], [1, 3, 3], [0], []]
)
def test_cross_kv_rows_are_the_given_ones(rows: list[int]) -> None:
    array = np.arange(8).reshape(4, 2)
    found = CrossKV({"cross_key_0": array}, shares=False).rows(np.array(rows, np.int64))
    assert found.arrays["cross_key_0"].tolist() == [array[row].tolist() for row in rows]
