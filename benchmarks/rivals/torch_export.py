"""Both halves of a Whisper checkpoint through `torch.onnx.export`, as the usual way does it.

Runs in an environment of its own with torch, transformers, onnx and onnxscript:
`python torch_export.py CHECKPOINT OUT WINDOW_S LENGTH [--dynamo]`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import WhisperForConditionalGeneration


class Encoder(torch.nn.Module):
    """Transformers' encoder on a short window; its own forward insists on 30 s."""

    def __init__(self, model: WhisperForConditionalGeneration) -> None:
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.gelu(self.encoder.conv1(mel))
        x = torch.nn.functional.gelu(self.encoder.conv2(x)).permute(0, 2, 1)
        x = x + self.encoder.embed_positions.weight[: x.shape[1]]
        for layer in self.encoder.layers:
            out = layer(x, None)
            x = out[0] if isinstance(out, tuple) else out
        return self.encoder.layer_norm(x)


class Decoder(torch.nn.Module):
    """Transformers' decoder without a cache."""

    def __init__(self, model: WhisperForConditionalGeneration) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        hidden = self.model.model.decoder(
            input_ids=tokens,
            # Without a mask Transformers looks for packed sequences, which no exporter can trace.
            attention_mask=torch.ones_like(tokens),
            encoder_hidden_states=features,
            use_cache=False,
        ).last_hidden_state
        return self.model.proj_out(hidden)


def main() -> None:
    checkpoint, out = sys.argv[1], Path(sys.argv[2])
    window_s, length = int(sys.argv[3]), int(sys.argv[4])
    dynamo = "--dynamo" in sys.argv
    model = WhisperForConditionalGeneration.from_pretrained(
        checkpoint, attn_implementation="eager"
    ).eval()
    mel = torch.zeros(1, model.config.num_mel_bins, 100 * window_s)
    features = torch.zeros(1, 50 * window_s, model.config.d_model)
    tokens = torch.zeros(1, length, dtype=torch.int64)
    out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        for name, half, inputs in (
            ("encoder", Encoder(model), (mel,)),
            ("decoder", Decoder(model), (tokens, features)),
        ):
            path = str(out / f"{name}.onnx")
            torch.onnx.export(half, inputs, path, opset_version=17, dynamo=dynamo)


if __name__ == "__main__":
    main()
