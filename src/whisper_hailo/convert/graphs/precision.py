"""How many bits each product of a decoder keeps."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.checkpoint.config import Config
from whisper_hailo.convert.graphs.products import Arithmetic


@dataclass(frozen=True, slots=True)
class Precision:
    """Arithmetic of the products of a decoder.

    Four bits are for what a step spends its time on. They cost a tenth of the words where
    everything has them, most of it for nothing: `docs/measurements/four-bits.md` has the figures.

    Attributes:
        embedding: the token table where single rows of it are looked up.
        vocabulary: the same table where all of it is read, to project to the vocabulary.
        self_attention: query, key and value of the text, which every later step hears again.
        others: all other products of the layers.
    """

    embedding: Arithmetic
    vocabulary: Arithmetic
    self_attention: Arithmetic
    others: Arithmetic

    @classmethod
    def of(cls, arithmetic: Arithmetic, config: Config) -> Precision:
        """What a conversion to some arithmetic takes.

        In 4 bits, rows that are looked up stay at 8, since a step reads one of 50,000. So do the
        layers where the token table is the larger part of what a step reads (tiny, base): that
        costs a step some per cent. In deeper decoders only the queries, keys and values do.

        Args:
            arithmetic: what was asked for.
            config: sizes of the checkpoint.
        """
        if arithmetic is not Arithmetic.BLOCKS_4:
            return cls(arithmetic, arithmetic, arithmetic, arithmetic)
        kept = Arithmetic.BLOCKS_8
        others = kept if _table_outweighs_layers(config) else arithmetic
        return cls(kept, arithmetic, kept, others)


def _table_outweighs_layers(config: Config) -> bool:
    """Whether the token table has more weights than the decoder's layers together."""
    dims, width = config.dims, config.dims.d_model
    # Self-attention has four matrices, cross-attention two that a step reads, the MLP two.
    layer = 6 * width * width + 2 * width * config.decoder_ffn
    return dims.n_vocab * width > dims.n_decoder_layers * layer
