"""Losses on constructed outputs."""

import math

import pytest

torch = pytest.importorskip("torch", reason="training needs torch")

from lab.training.losses import GUIDED_HEADS, ctc_loss, looking_loss, resting_loss  # noqa: E402


def test_looking_loss_of_attention_to_the_word_is_zero() -> None:
    attention = [torch.zeros(1, 2, 2, 50) for _ in range(2)]
    for layer, head in GUIDED_HEADS:
        attention[layer][0, head, 0, 20] = 1.0  # at 0.41 s
    spans = torch.tensor([[[0.3, 0.5], [0.0, -1.0]]])
    assert float(looking_loss(attention, spans)) == pytest.approx(0.0)
    for layer, head in GUIDED_HEADS:
        attention[layer][0, head, 0] = 0.0
        attention[layer][0, head, 0, [20, 45]] = 0.5
    assert float(looking_loss(attention, spans)) == pytest.approx(math.log(2))


def test_ctc_loss_is_per_target() -> None:
    log_probs = torch.full((1, 3, 4), -20.0)
    for position, row in enumerate((0, 3, 1)):  # the last class is blank
        log_probs[0, position, row] = 0.0
    assert float(ctc_loss(log_probs, [[0, 1]])) == pytest.approx(0.0, abs=1e-4)
    assert float(ctc_loss(log_probs, [[1, 0]])) > 5.0


def test_resting_loss_of_attention_to_zero_rows_is_zero() -> None:
    attention = [torch.zeros(1, 2, 3, 50) for _ in range(2)]
    is_audible = torch.ones(1, 50, dtype=torch.bool)
    is_audible[0, 30:] = False
    ends = torch.tensor([[False, False, True]])
    for weights in attention:
        weights[0, :, :2, 10] = 1.0
        weights[0, :, 2, 40] = (
            0.5  # the other half is on rows that are not in the features
        )
    assert float(resting_loss(attention, is_audible, ends)) == pytest.approx(0.0)
    attention[0][0, 0, 2, 10] = 0.5
    assert float(resting_loss(attention, is_audible, ends)) == pytest.approx(
        math.log(2) / 4
    )
