"""The training-time model: padding for nothing, ids shut out for good, one log-mel."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training.export import shut_out, whole_state  # noqa: E402
from training.mel import log_mel  # noqa: E402
from training.model import BIAS_CHANNEL, BIAS_VALUE, Attention, Dimensions, Whisper  # noqa: E402

SMALL = Dimensions(n_encoder_layers=1, n_decoder_layers=1)


def test_zero_rows_are_one_key_of_score_log_n() -> None:
    torch.manual_seed(0)
    attention = Attention(SMALL)
    x, source = torch.randn(2, 3, 128), torch.randn(2, 10, 128)
    padded = torch.cat([source, torch.zeros(2, 40, 128)], dim=1)
    torch.testing.assert_close(attention(x, source, n_padding=40), attention(x, padded))


def test_self_attention_is_cross_attention_to_itself() -> None:
    torch.manual_seed(1)
    attention, x = Attention(SMALL), torch.randn(2, 7, 128)
    torch.testing.assert_close(attention(x), attention(x, x.clone()))


def test_the_bound_holds_for_the_worst_input() -> None:
    torch.manual_seed(2)
    rows, gain, bias = torch.randn(50, 128), torch.rand(128), torch.randn(128)
    gain[BIAS_CHANNEL], bias[BIAS_CHANNEL] = 0.0, BIAS_VALUE
    worst = -(rows.mean(0) * gain)
    normed = worst / worst.norm() * math.sqrt(128)
    logits = rows @ (normed * gain + bias)
    assert float(logits.max()) > BIAS_VALUE * shut_out(rows, gain, bias) + 15.9


def test_untrained_ids_never_win() -> None:
    torch.manual_seed(3)
    kept = (5, 9, 50257, 51864)
    state = whole_state(Whisper(SMALL, len(kept)), kept, SMALL)
    table = state["model.decoder.embed_tokens.weight"].float()
    gain, bias = (state[f"model.decoder.layer_norm.{name}"].float() for name in ("weight", "bias"))
    hidden = torch.nn.functional.layer_norm(torch.randn(200, 128), (128,), gain, bias)
    assert set((hidden @ table.T).argmax(-1).tolist()) <= set(kept)
    assert table.shape == (51865, 128)


def test_log_mel_is_the_run_time_one() -> None:
    features = pytest.importorskip("whisper_hailo.features")
    audio = np.random.default_rng(6).standard_normal(48_000).astype(np.float32) * 0.1
    audio[20_000:] = 0.0
    ours = log_mel(torch.from_numpy(audio)[None])[0].numpy()
    np.testing.assert_allclose(ours, features.log_mel(audio, n_mels=80), atol=1e-4)
