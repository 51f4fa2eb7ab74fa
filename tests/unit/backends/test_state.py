import numpy as np

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
