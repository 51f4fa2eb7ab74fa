"""The encoder as the Hailo compiler takes it: one fixed window, node for node the accepted form."""

from __future__ import annotations

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import FLOAT, Graph, WhisperBuilder
from whisper_hailo.convert.graphs.layers import gelu, layer_norm
from whisper_hailo.convert.hailo.pieces import FixedSizes, feed_forward, self_attention

INPUT, OUTPUT = "x.1", "525"
END_NODE = "/layer_norm/LayerNormalization"
"""The names of the graph that the compiler is known to accept, so that the vendor's own scripts
run on ours unchanged."""


def hailo_encoder_graph(checkpoint: Checkpoint, sizes: FixedSizes) -> Graph:
    """Author the Hailo-form encoder, opset 17.

    Input `x.1 (1, n_mels, 1, n_frames)`, output `525 (1, n_positions, d_model)`, both float32.
    For L layers it has exactly: Conv 2, LayerNormalization 2L+1, MatMul 6L, Add 3+8L, Mul 4+3L,
    Reshape 1+4L, Transpose 1+4L, Split L, Softmax L, Div 2+L, Erf 2+L.
    """
    b = WhisperBuilder("whisper_hailo_encoder", checkpoint)
    n, dims = sizes.n_positions, b.dims
    x = b.input(INPUT, FLOAT, (1, dims.n_mels, 1, sizes.n_frames))
    for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
        x = gelu(b, _convolution(b, x, name, stride), f"{name}.gelu")
    flat = b.op("Reshape", (x, b.constant([1, dims.d_model, n])), "encoder.conv.flat")
    turned = b.op("Transpose", (flat,), "encoder.conv.turned", perm=[0, 2, 1])
    stem = "encoder.embed_positions.weight"
    x = b.op("Add", (turned, b.weight(stem, checkpoint.rows(stem, 0, n))), "encoder.embedded")
    for i in range(dims.n_encoder_layers):
        name = f"encoder.layers.{i}"
        x = self_attention(b, x, f"{name}.self_attn", n, dims.n_encoder_heads)
        x = feed_forward(b, x, name)
    layer_norm(b, x, OUTPUT, "encoder.layer_norm", node_name=END_NODE)
    b.output(OUTPUT, FLOAT, (1, n, dims.d_model))
    return b.build()


def _convolution(b: WhisperBuilder, x: str, name: str, stride: int) -> str:
    """Write `(1, n_in, 1, n)` -> `(1, d_model, 1, n / stride)`."""
    stored = b.checkpoint.weight(f"{name}.weight")
    n_out, n_in, width = stored.shape
    shape = (n_out, n_in, 1, width)
    weight = b.weight(f"{name}.weight", stored.map(lambda kernel: kernel.reshape(shape), shape))
    return b.op(
        "Conv",
        (x, weight, b.stored(f"{name}.bias")),
        name,
        kernel_shape=[1, width],
        pads=[0, 1, 0, 1],
        strides=[1, stride],
    )
