import numpy as np
import pytest

from tests.unit.backends.random_steps import ATOL, FULL, features_of, ids_of
from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.backends.state import cross_bias
from whisper_hailo.core.protocols import Padding


def test_cross_bias_masks_and_weighs_padding() -> None:
    paddings = (Padding(None), Padding(10), Padding(4))
    bias = cross_bias(paddings, np.array([4, 2, 4]), 4)
    assert bias.shape == (3, 1, 1, 5)
    assert bias.dtype == np.float32
    inf = np.inf
    np.testing.assert_allclose(bias[0, 0, 0], [0, 0, 0, 0, -inf])
    np.testing.assert_allclose(bias[1, 0, 0], [0, 0, -inf, -inf, np.log(8)])
    np.testing.assert_allclose(bias[2, 0, 0], [0, 0, 0, 0, -inf])


def test_places_still_in_use_by_other_text_are_kept(decoder: CachedDecoder) -> None:
    """A draft's branch is cut off while the text that was verified goes on behind it."""
    look = np.array([0])
    _, prompt = decoder.step(
        ids_of([11, 5, 7, 9]), decoder.start(features_of(1, 30, 64), (FULL,)), np.array([3])
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
@pytest.mark.parametrize("batch", [1, 2])
def test_text_in_pieces_of_any_length_is_the_whole(
    decoder: CachedDecoder, cuts: tuple[int, ...], batch: int
) -> None:
    """Three tokens behind one and two behind four have masks of twelve numbers each."""
    n_tokens = sum(cuts)
    tokens = np.random.default_rng(0).integers(0, 200, (batch, n_tokens))
    state = decoder.start(features_of(batch, 30, 64), (FULL,) * batch)
    whole, _ = decoder.step(tokens, state, np.arange(n_tokens))
    done = 0
    for n in cuts:
        out, state = decoder.step(tokens[:, done : done + n], state, np.arange(n))
        np.testing.assert_allclose(out.logits, whole.logits[:, done : done + n], atol=ATOL)
        done += n
