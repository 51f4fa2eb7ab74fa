"""The training-time model: padding, excluded ids, log-mel."""

import math
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import load_file  # noqa: E402

from lab.training.checkpoint import load_checkpoint, start_from, trimmed  # noqa: E402
from lab.training.export import shut_out, whole_state  # noqa: E402
from lab.training.kept_tokens import KeptTokens  # noqa: E402
from lab.training.mel import log_mel  # noqa: E402
from lab.training.model import BIAS_CHANNEL, BIAS_VALUE, Attention, Dimensions, Whisper  # noqa: E402

MICRO = Path(__file__).parents[4] / "src/whisper_hailo/assets/micro"
SMALL = Dimensions(n_encoder_layers=1, n_decoder_layers=1)


def test_attention_zero_rows_equal_n_padding() -> None:
    torch.manual_seed(0)
    attention = Attention(SMALL)
    x = torch.randn(2, 3, 128)
    source = torch.randn(2, 10, 128)
    padded = torch.cat([source, torch.zeros(2, 40, 128)], dim=1)
    torch.testing.assert_close(attention(x, source, n_padding=40), attention(x, padded))


def test_attention_to_itself_equals_self_attention() -> None:
    torch.manual_seed(1)
    attention = Attention(SMALL)
    x = torch.randn(2, 7, 128)
    torch.testing.assert_close(attention(x), attention(x, x.clone()))


def test_shut_out_holds_for_the_worst_input() -> None:
    torch.manual_seed(2)
    rows = torch.randn(50, 128)
    gain = torch.rand(128)
    bias = torch.randn(128)
    gain[BIAS_CHANNEL] = 0.0
    bias[BIAS_CHANNEL] = BIAS_VALUE
    worst = -(rows.mean(0) * gain)
    normed = worst / worst.norm() * math.sqrt(128)
    logits = rows @ (normed * gain + bias)
    assert float(logits.max()) > BIAS_VALUE * shut_out(rows, gain, bias) + 15.9


def test_whole_state_untrained_ids_never_lead() -> None:
    torch.manual_seed(3)
    kept = (5, 9, 50257, 51864)
    state = whole_state(Whisper(SMALL, len(kept)), kept, SMALL)
    table = state["model.decoder.embed_tokens.weight"].float()
    gain, bias = (
        state[f"model.decoder.layer_norm.{name}"].float() for name in ("weight", "bias")
    )
    hidden = torch.nn.functional.layer_norm(torch.randn(200, 128), (128,), gain, bias)
    assert set((hidden @ table.T).argmax(-1).tolist()) <= set(kept)
    assert table.shape == (51865, 128)


def test_start_from_new_layers_change_nothing() -> None:
    torch.manual_seed(6)
    kept = KeptTokens((5, 440, 50257, 50258, 50259, 50364))
    before, _ = load_checkpoint(MICRO)
    n_layers = len(before.encoder.layers)
    before.encoder.positions = Whisper(
        SMALL, 1
    ).encoder.positions  # the file's are in half precision
    model = Whisper(Dimensions(n_encoder_layers=n_layers + 2), len(kept.ids))
    start_from(model, kept, MICRO)
    mel = torch.randn(1, 80, 200)
    with torch.no_grad():
        features, middle = model.encoder.with_middle(mel)
        expected, known_middle = before.encoder.with_middle(mel)
    torch.testing.assert_close(middle, known_middle, atol=1e-5, rtol=0)
    torch.testing.assert_close(features, expected, atol=1e-5, rtol=0)
    output = model.encoder.layers[n_layers // 2].fc2
    assert not output.weight.any()
    model.encoder(mel).square().sum().backward()
    assert output.weight.grad.abs().max() > 0  # the layer learns from the first step


def test_start_from_keeps_known_rows() -> None:
    torch.manual_seed(4)
    kept = KeptTokens((5, 440, 50257, 50258, 50259, 50364))
    model = Whisper(Dimensions(), len(kept.ids))
    fresh = start_from(model, kept, MICRO)
    table = load_file(MICRO / "model.safetensors")[
        "model.decoder.embed_tokens.weight"
    ].float()
    expected = table[list(kept.ids), :-1].abs().amax(dim=1) > 0
    rows = model.decoder.embed_tokens.weight.detach()
    torch.testing.assert_close(rows[expected], table[list(kept.ids)][expected])
    assert fresh == int((~expected).sum())
    # An unknown row is not excluded any more: its bias is an ordinary one.
    assert float(rows[:, BIAS_CHANNEL].min()) > float(table[:, BIAS_CHANNEL].min())


def test_log_mel_equals_the_run_time_one() -> None:
    features = pytest.importorskip("whisper_hailo.audio.log_mel")
    audio = np.random.default_rng(6).standard_normal(48_000).astype(np.float32) * 0.1
    audio[20_000:] = 0.0
    features_of_training = log_mel(torch.from_numpy(audio)[None])[0].numpy()
    np.testing.assert_allclose(
        features_of_training, features.log_mel(audio, n_mels=80), atol=1e-4
    )


def test_token_log_probs_use_the_decoder_s_rows() -> None:
    torch.manual_seed(5)
    model = Whisper(SMALL, 40)
    features = torch.randn(2, 12, 128)
    log_probs = model.token_log_probs(features)
    assert log_probs.shape == (2, 4, 41)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 4))
    with torch.no_grad():
        model.decoder.embed_tokens.weight[7] += 5 * model.ctc_tokens(features)[
            0, :3
        ].mean(0)
    assert int(model.token_log_probs(features)[0, 0].argmax()) == 7


def test_trimmed_model_keeps_the_probabilities() -> None:
    model, kept = load_checkpoint(MICRO)
    tokens = torch.tensor([[50258, 50259, 50359, 50363]])
    features = torch.randn(1, 20, 128)
    whole = model.decoder(tokens, features, 0)[0].softmax(-1)
    model, fewer = trimmed(model, kept)
    assert 1000 < len(fewer.ids) < 10_000
    rows = torch.tensor([fewer.rows(tokens[0].tolist())])
    torch.testing.assert_close(
        model.decoder(rows, features, 0)[0].softmax(-1), whole[:, list(fewer.ids)]
    )
