"""Both ends of the decoder: token embedding and vocabulary projection, which share one table.

The runtime rearranges the matrix of a product into a layout of its own, and so would hold the
table twice. Both ends therefore have an initializer of their own over the *same bytes* of the data
file: the product's one is rearranged and let go, the embedding's one stays mapped and only the
rows that are looked up are ever read (figures in `docs/decisions/shared-vocabulary-table.md`).
Where the product takes fewer bits than the rows, each has its own.
"""

from __future__ import annotations

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import Weight
from whisper_hailo.convert.graphs.builder import FLOAT, MICROSOFT, GraphBuilder
from whisper_hailo.convert.graphs.precision import Precision
from whisper_hailo.convert.graphs.products import Arithmetic, matmul_n_bits
from whisper_hailo.convert.graphs.quantize import block_size, quantized, rounding_shift

_EMBEDDING = "decoder.embed_tokens.weight"
_PROJECTION = "decoder.projection"

VOCABULARY_BLOCK = 128
"""Values with one scale at most, in 4 bits as in 8: a third quicker than half of that in 4."""

_CORRECTED_BITS = 4
"""Of what is rounded so far the mean is corrected; in 8 bits that changes nothing."""


def embed_tokens(
    b: GraphBuilder, checkpoint: Checkpoint, tokens: str, positions: str, arithmetic: Arithmetic
) -> str:
    """Token embedding plus position embedding, `(batch, n_tokens, d_model)`."""
    table, bits = checkpoint.weight(_EMBEDDING), arithmetic.block_bits
    if bits is None:
        rows = b.op("Gather", (b.weight(_EMBEDDING, table), tokens), "decoder.tokens")
    else:
        rows = _gather_blocks(b, table, tokens, bits)
    stem = "decoder.embed_positions.weight"
    place = b.op("Gather", (b.weight(stem, checkpoint.weight(stem)), positions), "decoder.places")
    return b.op("Add", (rows, place), "decoder.embedded")


def _gather_blocks(b: GraphBuilder, table: Weight, tokens: str, bits: int) -> str:
    codes, scales = quantized(table, bits)
    n_vocab, d_model = table.shape
    b.weight(f"{_EMBEDDING}.blocks", codes)
    flat = b.view(f"{_EMBEDDING}.codes", f"{_EMBEDDING}.blocks", (n_vocab, d_model * bits // 8))
    return b.op(
        "GatherBlockQuantized",
        (flat, tokens, b.weight(f"{_EMBEDDING}.scales", scales)),
        "decoder.tokens",
        domain=MICROSOFT,
        bits=bits,
        block_size=block_size(d_model, bits),
        gather_axis=0,
        quantize_axis=1,
    )


def project_to_vocabulary(
    b: GraphBuilder, checkpoint: Checkpoint, hidden: str, precision: Precision
) -> None:
    """Outputs `logits (batch, K, n_vocab)` and `logsumexp (batch, K)` of `hidden (batch, K, d)`."""
    bits = precision.vocabulary.block_bits
    tied = checkpoint.tied and precision.vocabulary is precision.embedding
    if bits is None:
        _float_logits(b, checkpoint, hidden, tied=tied)
    else:
        _blocked_logits(b, checkpoint, hidden, bits, tied=tied)
    b.output("logits", FLOAT, ("batch", "K", checkpoint.config.dims.n_vocab))
    _log_sum_exp(b)


def _log_sum_exp(b: GraphBuilder) -> None:
    """`logsumexp (batch, K)` of the logits.

    What any logit loses in LogSoftmax: one operator and no power of its own, where ReduceLogSumExp
    runs seventeen times slower.
    """
    first = b.constant(0)
    logprobs = b.op("LogSoftmax", ("logits",), "logprobs", axis=-1)
    before, after = (
        b.op("Gather", (name, first), f"{name}.first", axis=-1) for name in ("logits", logprobs)
    )
    b.op("Sub", (before, after), "logsumexp")
    b.output("logsumexp", FLOAT, ("batch", "K"))


def _float_logits(b: GraphBuilder, checkpoint: Checkpoint, hidden: str, *, tied: bool) -> None:
    """Gemm takes the table as it lies in the file, `(n_vocab, d_model)`."""
    dims = checkpoint.config.dims
    name = f"{_PROJECTION}.weight"
    if tied:
        table = b.view(name, _EMBEDDING, (dims.n_vocab, dims.d_model))
    else:
        table = b.weight(name, checkpoint.projection())
    flat = b.op("Reshape", (hidden, b.constant([-1, dims.d_model])), f"{_PROJECTION}.flat")
    product = b.op("Gemm", (flat, table), f"{_PROJECTION}.product", transB=1)
    leading = b.op("Shape", (hidden,), f"{_PROJECTION}.leading", start=0, end=2)
    shape = b.op("Concat", (leading, b.constant([dims.n_vocab])), f"{_PROJECTION}.shape", axis=0)
    b.op("Reshape", (product, shape), "logits", allowzero=1)  # no position may be asked for


def _blocked_logits(
    b: GraphBuilder, checkpoint: Checkpoint, hidden: str, bits: int, *, tied: bool
) -> None:
    dims = checkpoint.config.dims
    block = block_size(dims.d_model, bits, VOCABULARY_BLOCK)
    if tied:
        blocks = f"{_EMBEDDING}.blocks"
        shape = (dims.n_vocab, dims.d_model // block)
        scales = b.view(f"{_PROJECTION}.scales", f"{_EMBEDDING}.scales", shape)
    else:
        codes, scale_weight = quantized(checkpoint.projection(), bits, VOCABULARY_BLOCK)
        blocks = b.weight(f"{_PROJECTION}.codes", codes)
        scales = b.weight(f"{_PROJECTION}.scales", scale_weight)
    inputs = [hidden, blocks, scales]
    if bits == _CORRECTED_BITS:
        # The norm's bias is what hidden states are on average: what rounding does to it is known.
        mean = checkpoint.weight("decoder.layer_norm.bias")
        shift = rounding_shift(checkpoint.projection(), mean, bits, VOCABULARY_BLOCK)
        inputs += ["", "", b.weight(f"{_PROJECTION}.shift", shift)]
    sizes = {"bits": bits, "n_in": dims.d_model, "n_out": dims.n_vocab, "block": block}
    matmul_n_bits(b, inputs, "logits", **sizes)
