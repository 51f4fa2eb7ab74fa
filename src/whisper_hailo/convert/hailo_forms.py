"""Graphs for the Hailo Dataflow Compiler, as in `docs/reference/hailo-graphs.md`, and their files.

Every shape is a number, every operator one that the chip has. The encoder is node for node the
accepted form; the decoder has no cache, and computes every position at every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.backends.hailo.known_windows import (
    default_window,
    describe_lengths,
    describe_windows,
)
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import (
    Weight,
    ready_weight,
    stacked_weight,
    transposed_weight,
)
from whisper_hailo.convert.graphs.layers import (
    NORM_EPSILON,
    gelu,
    layer_norm,
    linear,
    mlp,
    stored_linear,
)
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    INT64,
    OPSET,
    Graph,
    HashedFile,
    WhisperBuilder,
    write_graph,
)
from whisper_hailo.convert.options import HailoOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions, FileRecord, HailoForm
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND

N_CHUNKS: Final = 4
"""Number of products for the vocabulary: one of 51865 columns is too large for the chip."""

ENCODER_INPUT = "x.1"
ENCODER_OUTPUT = "525"
ENCODER_END_NODE = "/layer_norm/LayerNormalization"
"""The names of the graph that the compiler is known to accept, so that the vendor's own scripts
run on ours unchanged."""

DECODER_OPSET = 13
"""The accepted decoder's, which has no LayerNormalization."""

TOKENS = "decoder_input_ids"
FEATURES = "encoder_hidden_states"
LOGITS = "logits"
START_NODE = "/Reshape"
END_NODES = ("/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3")
"""The accepted decoder's names."""

EMBEDDING = "decoder.embed_tokens.weight"
POSITIONS = "decoder.embed_positions.weight"


@dataclass(frozen=True, slots=True)
class FixedSizes:
    """The sizes that every tensor of a Hailo-form graph follows from."""

    window_s: int
    length: int

    @property
    def n_frames(self) -> int:
        """Log-mel frames of the window."""
        return self.window_s * FRAMES_PER_SECOND

    @property
    def n_positions(self) -> int:
        """Encoder positions of the window."""
        return self.n_frames // FRAMES_PER_POSITION


FOLDER = "hailo"

Job: TypeAlias = Callable[[], dict[str, FileRecord]]
"""Writes files of a model directory; path in it to size and hash of each."""


def fixed_sizes(options: HailoOptions, dims: Dimensions) -> FixedSizes:
    """Check the user's sizes and fill in the others.

    Raises:
        OptionError: the model has no Hailo form, or not of these sizes.
    """
    if dims.max_window_s < 1 or dims.n_vocab < N_CHUNKS:
        raise OptionError(
            f"--hailo: a model with {dims.n_audio_ctx} encoder positions and {dims.n_vocab} tokens "
            f"has no Hailo form, expected a window of 1 s or more and {N_CHUNKS} tokens or more"
        )
    default = default_window(dims.d_model, options.arch)
    longest_s = int(dims.max_window_s)
    window_s = options.window_s
    if window_s is None:
        window_s = min(default.window_s, longest_s)
    if not 1 <= window_s <= longest_s or window_s != int(window_s):
        raise OptionError(
            f"--window is {window_s:g}, expected a whole number of seconds from 1 to {longest_s} "
            f"({dims.n_audio_ctx} encoder positions); the known windows are {describe_windows()}"
        )
    length = options.decoder_length
    if length is None:
        length = min(default.length, dims.n_text_ctx)
    if not 1 <= length <= dims.n_text_ctx:
        raise OptionError(
            f"--decoder-length is {length}, expected 1 to {dims.n_text_ctx}, this model's text "
            f"context; the known lengths are {describe_lengths()}"
        )
    return FixedSizes(int(window_s), length)


def hailo_forms(
    checkpoint: Checkpoint, directory: Path, variant: str, sizes: FixedSizes
) -> tuple[tuple[HailoForm, ...], list[Job]]:
    """Describe both graphs below `hailo/`; return with it the jobs that write them.

    `variant` names the model in file names, such as `tiny`. One job writes the host's arrays. They
    may run in any order; the largest is first.
    """
    encoder = encoder_form(checkpoint.config.dims, sizes)
    decoder = decoder_form(checkpoint.config.dims, sizes, variant)
    (directory / FOLDER).mkdir()

    def write_encoder() -> dict[str, FileRecord]:
        return _write_form(hailo_encoder_graph(checkpoint, sizes), directory, encoder)

    def write_decoder() -> dict[str, FileRecord]:
        return _write_form(hailo_decoder_graph(checkpoint, sizes), directory, decoder)

    def write_arrays() -> dict[str, FileRecord]:
        arrays = {
            decoder.assets["token_embedding"]: checkpoint.weight(EMBEDDING),
            decoder.assets["position_rows"]: checkpoint.rows(
                POSITIONS, 0, sizes.length
            ),
        }
        return {
            name: _write_array(array, directory / name)
            for name, array in arrays.items()
        }

    return (encoder, decoder), [write_decoder, write_arrays, write_encoder]


def _write_form(
    graph: Graph, directory: Path, form: HailoForm
) -> dict[str, FileRecord]:
    records = write_graph(graph, directory / form.file)
    return {f"{FOLDER}/{name}": record for name, record in records.items()}


def _write_array(array: Weight, path: Path) -> FileRecord:
    """Write an array as `.npy`, some rows at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = BytesIO()
    layout = {"descr": "<f4", "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(header, layout)
    with HashedFile(path) as file:
        file.write(header.getvalue())
        for rows in array.pieces():
            file.write(rows.astype("<f4").tobytes())
    return file.record()


def encoder_form(dims: Dimensions, sizes: FixedSizes) -> HailoForm:
    """Return what the Hailo-form encoder of these sizes is."""
    return HailoForm(
        part="encoder",
        file=f"{FOLDER}/encoder-{sizes.window_s}s.onnx",
        window_s=sizes.window_s,
        length=None,
        opset=OPSET,
        inputs={ENCODER_INPUT: (1, dims.n_mels, 1, sizes.n_frames)},
        outputs={ENCODER_OUTPUT: (1, sizes.n_positions, dims.d_model)},
        start_nodes=(ENCODER_INPUT,),
        end_nodes=(ENCODER_END_NODE,),
        chip_inputs=((1, 1, sizes.n_frames, dims.n_mels),),
    )


def decoder_form(dims: Dimensions, sizes: FixedSizes, variant: str) -> HailoForm:
    """Return what the Hailo-form decoder of these sizes is."""
    features = (1, sizes.n_positions, dims.d_model)
    folder = f"decoder_assets/{variant}/decoder_tokenization"
    return HailoForm(
        part="decoder",
        file=f"{FOLDER}/decoder-{sizes.window_s}s-{sizes.length}.onnx",
        window_s=sizes.window_s,
        length=sizes.length,
        opset=DECODER_OPSET,
        inputs={TOKENS: (1, sizes.length), FEATURES: features},
        outputs={LOGITS: (1, sizes.length, dims.n_vocab)},
        start_nodes=(FEATURES, START_NODE),
        end_nodes=END_NODES,
        chip_inputs=((1, *features), (1, sizes.length, 1, dims.d_model)),
        assets={
            "token_embedding": f"{folder}/token_embedding_weight_{variant}.npy",
            "position_rows": f"{folder}/onnx_add_input_{variant}.npy",
        },
    )


def hailo_encoder_graph(checkpoint: Checkpoint, sizes: FixedSizes) -> Graph:
    """Author the Hailo-form encoder, opset 17.

    Input `x.1 (1, n_mels, 1, n_frames)`, output `525 (1, n_positions, d_model)`, both float32.
    For L layers it has exactly: Conv 2, LayerNormalization 2L+1, MatMul 6L, Add 3+8L, Mul 4+3L,
    Reshape 1+4L, Transpose 1+4L, Split L, Softmax L, Div 2+L, Erf 2+L.
    """
    b = WhisperBuilder("whisper_hailo_encoder", checkpoint)
    dims = b.dims
    n = sizes.n_positions
    x = b.input(ENCODER_INPUT, FLOAT, (1, dims.n_mels, 1, sizes.n_frames))
    for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
        convolved = _write_convolution(b, x, name, stride)
        x = gelu(b, convolved, f"{name}.gelu")
    flat = b.op("Reshape", (x, b.constant([1, dims.d_model, n])), "encoder.conv.flat")
    transposed = b.op("Transpose", (flat,), "encoder.conv.turned", perm=[0, 2, 1])
    table = "encoder.embed_positions.weight"
    positions = b.weight(table, checkpoint.rows(table, 0, n))
    x = b.op("Add", (transposed, positions), "encoder.embedded")
    for i in range(dims.n_encoder_layers):
        name = f"encoder.layers.{i}"
        x = _self_attention(b, x, f"{name}.self_attn", n, dims.n_encoder_heads)
        x = _feed_forward(b, x, name)
    layer_norm(b, x, ENCODER_OUTPUT, "encoder.layer_norm", node_name=ENCODER_END_NODE)
    b.output(ENCODER_OUTPUT, FLOAT, (1, n, dims.d_model))
    return b.build()


def _write_convolution(
    b: WhisperBuilder,
    x: str,
    name: str,
    stride: int,
) -> str:
    """Write `(1, n_in, 1, n)` -> `(1, d_model, 1, n / stride)`."""
    stored = b.checkpoint.weight(f"{name}.weight")
    n_out, n_in, width = stored.shape
    shape = (n_out, n_in, 1, width)
    kernel = stored.map(lambda array: array.reshape(shape), shape)
    inputs = (x, b.weight(f"{name}.weight", kernel), b.stored(f"{name}.bias"))
    return b.op(
        "Conv",
        inputs,
        name,
        kernel_shape=[1, width],
        pads=[0, 1, 0, 1],
        strides=[1, stride],
    )


def hailo_decoder_graph(checkpoint: Checkpoint, sizes: FixedSizes) -> Graph:
    """Author the Hailo-form decoder, opset 13.

    Inputs `decoder_input_ids (1, length)` int64 and `encoder_hidden_states (1, n_positions,
    d_model)` float32, output `logits (1, length, n_vocab)` float32. The compiler starts at
    `encoder_hidden_states` and `/Reshape` and ends at the four products of `END_NODES`, each of
    which the chip can hold; token lookup and concatenation are the host's.
    """
    b = WhisperBuilder("whisper_hailo_decoder", checkpoint, DECODER_OPSET)
    dims = b.dims
    length = sizes.length
    tokens = b.input(TOKENS, INT64, (1, length))
    features = b.input(FEATURES, FLOAT, (1, sizes.n_positions, dims.d_model))
    x = _write_embedding(b, tokens, length)
    is_later = np.triu(np.ones((1, 1, length, length), bool), 1)
    causal_mask = np.where(is_later, np.float32(-np.inf), np.float32(0))
    mask = b.weight("decoder.causal_mask", ready_weight(causal_mask))
    for i in range(dims.n_decoder_layers):
        name = f"decoder.layers.{i}"
        x = _self_attention(
            b,
            x,
            f"{name}.self_attn",
            length,
            dims.n_decoder_heads,
            mask=mask,
        )
        lengths = (length, sizes.n_positions)
        x = _cross_attention(b, x, features, f"{name}.encoder_attn", lengths)
        x = _feed_forward(b, x, name)
    hidden = _write_norm(b, x, "decoder.hidden", "decoder.layer_norm")
    chunks = []
    for node_name, (start, stop) in zip(
        END_NODES, vocabulary_chunks(dims.n_vocab), strict=True
    ):
        rows = checkpoint.rows(checkpoint.projection_name, start, stop)
        matrix = b.weight(f"{LOGITS}.{start}.weight", transposed_weight(rows))
        chunks.append(
            b.op("MatMul", (hidden, matrix), f"{LOGITS}.{start}", name=node_name)
        )
    b.op("Concat", chunks, LOGITS, name="/Concat", axis=2)
    b.output(LOGITS, FLOAT, (1, length, dims.n_vocab))
    return b.build()


def _write_embedding(b: WhisperBuilder, tokens: str, length: int) -> str:
    """Write token and position embedding, `(1, length, d_model)`, by way of the chip's layout.

    The detour over `(1, d_model, length, 1)` changes no value. That tensor, NHWC `(1, length, 1,
    d_model)`, is the chip's input: the compiler starts at the Reshape behind it.
    """
    rows = b.op("Gather", (b.stored(EMBEDDING), tokens), "tokens")
    positions = b.weight(POSITIONS, b.checkpoint.rows(POSITIONS, 0, length))
    embedded = b.op("Add", (rows, positions), "embedded")
    image = b.op("Unsqueeze", (embedded, b.constant([1])), "embedded.image")
    channels_first = b.op("Transpose", (image,), "embedded.nchw", perm=[0, 3, 2, 1])
    shape = b.constant([1, b.dims.d_model, length])
    flat = b.op("Reshape", (channels_first, shape), "embedded.flat", name=START_NODE)
    return b.op("Transpose", (flat,), "embedded.turned", perm=[0, 2, 1])


def vocabulary_chunks(n_vocab: int) -> tuple[tuple[int, int], ...]:
    """Return first and last row (exclusive) of each quarter; the last takes the rest."""
    size = n_vocab // N_CHUNKS
    starts = [index * size for index in range(N_CHUNKS)]
    return tuple(pairwise([*starts, n_vocab]))


def _write_product(
    b: WhisperBuilder,
    x: str,
    name: str,
    *,
    bias: bool = True,
) -> str:
    """Write the product called `name` of `x (1, n, n_in)`."""
    return linear(b, x, name, stored_linear(b, name, bias=bias))


def _self_attention(
    b: WhisperBuilder, x: str, name: str, n: int, n_heads: int, *, mask: str = ""
) -> str:
    """Write `x + out(attention(norm(x)))` over the n positions of `x`.

    Query, key and value are one product and a Split; their biases follow it. The compiler's
    accepted encoder has this very form: the fused product stays at 8 bits in the vendor's scripts
    when all others go to 16, so it has to be one layer.
    """
    normed = _write_norm(b, x, f"{name}.normed", f"{name}_layer_norm")
    parts = [b.checkpoint.weight(f"{name}.{part}_proj.weight") for part in "qkv"]
    matrix = b.weight(f"{name}.qkv.weight", transposed_weight(stacked_weight(parts)))
    product = b.op("MatMul", (normed, matrix), f"{name}.qkv")
    names = [f"{name}.{part}_product" for part in "qkv"]
    widths = b.constant([b.dims.d_model] * 3)
    query_product, key, value_product = b.ops("Split", (product, widths), names, axis=2)
    query_bias = b.stored(f"{name}.q_proj.bias")
    query = b.op("Add", (query_product, query_bias), f"{name}.q_proj")
    value_bias = b.stored(f"{name}.v_proj.bias")
    value = b.op("Add", (value_product, value_bias), f"{name}.v_proj")
    attended = _write_attention(
        b,
        name,
        (query, key, value),
        (n, n),
        n_heads,
        mask=mask,
    )
    change = _write_product(b, attended, f"{name}.out_proj")
    return b.op("Add", (x, change), f"{name}.residual")


def _cross_attention(
    b: WhisperBuilder, x: str, features: str, name: str, lengths: tuple[int, int]
) -> str:
    """Write `x + out(attention(norm(x), features))`; keys have no bias.

    `lengths` are the positions of `x` and of the features.
    """
    normed = _write_norm(b, x, f"{name}.normed", f"{name}_layer_norm")
    query = _write_product(b, normed, f"{name}.q_proj")
    key = _write_product(b, features, f"{name}.k_proj", bias=False)
    value = _write_product(b, features, f"{name}.v_proj")
    attended = _write_attention(
        b, name, (query, key, value), lengths, b.dims.n_decoder_heads
    )
    change = _write_product(b, attended, f"{name}.out_proj")
    return b.op("Add", (x, change), f"{name}.residual")


def _feed_forward(b: WhisperBuilder, x: str, name: str) -> str:
    """Write `x + fc2(gelu(fc1(norm(x))))` of the layer called `name`."""
    normed = _write_norm(b, x, f"{name}.mlp_normed", f"{name}.final_layer_norm")
    products = (stored_linear(b, f"{name}.fc1"), stored_linear(b, f"{name}.fc2"))
    change = mlp(b, normed, name, products)
    return b.op("Add", (x, change), f"{name}.out")


def _write_attention(
    b: WhisperBuilder,
    name: str,
    query_key_value: tuple[str, str, str],
    lengths: tuple[int, int],
    n_heads: int,
    *,
    mask: str = "",
) -> str:
    """Write eager softmax attention, `(1, n_queries, d_model)`.

    The query `(1, n_queries, d_model)` comes without its scale, key and value are `(1, n_keys,
    d_model)`, `mask` is additive `(1, 1, n_queries, n_keys)`; `name` is the stem of the values'
    names.
    """
    query, key, value = query_key_value
    n_queries, n_keys = lengths
    size = b.dims.d_model // n_heads
    scope = b.scope(name)

    def split(
        x: str,
        n: int,
        output: str,
        perm: list[int],
    ) -> str:
        shape = b.constant([1, n, n_heads, size])
        heads = scope.op("Reshape", (x, shape), f"{output}.apart")
        return scope.op("Transpose", (heads,), output, perm=perm)

    scaled = scope.op("Mul", (query, b.constant(float(size**-0.5))), "q_scaled")
    query_heads = split(scaled, n_queries, "q_heads", [0, 2, 1, 3])
    key_heads = split(key, n_keys, "k_heads", [0, 2, 3, 1])
    value_heads = split(value, n_keys, "v_heads", [0, 2, 1, 3])
    scores = scope.op("MatMul", (query_heads, key_heads), "scores")
    if mask:
        scores = scope.op("Add", (scores, mask), "masked")
    weights = scope.op("Softmax", (scores,), "weights", axis=3)
    attended = scope.op("MatMul", (weights, value_heads), "mixed")
    transposed = scope.op("Transpose", (attended,), "turned", perm=[0, 2, 1, 3])
    merged_shape = b.constant([1, n_queries, b.dims.d_model])
    return scope.op("Reshape", (transposed, merged_shape), "merged")


def _write_norm(
    b: WhisperBuilder,
    x: str,
    name: str,
    stem: str,
) -> str:
    """Write LayerNorm over the last of three axes, node by node where the opset needs it."""
    if b.opset >= OPSET:
        return layer_norm(b, x, name, stem)
    scope = b.scope(name)
    mean = scope.op("ReduceMean", (x,), "mean", axes=[2], keepdims=1)
    centred = scope.op("Sub", (x, mean), "centred")
    squares = scope.op("Pow", (centred, b.constant(2.0)), "squares")
    variance = scope.op("ReduceMean", (squares,), "variance", axes=[2], keepdims=1)
    safe = scope.op("Add", (variance, b.constant(NORM_EPSILON)), "safe")
    deviation = scope.op("Sqrt", (safe,), "deviation")
    unit = scope.op("Div", (centred, deviation), "unit")
    scaled = scope.op("Mul", (unit, b.stored(f"{stem}.weight")), "scaled")
    return b.op("Add", (scaled, b.stored(f"{stem}.bias")), name)
