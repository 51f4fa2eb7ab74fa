"""A reference, runs and graphs of made-up numbers, for what is compared with what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_tools.validate.reference import DecoderTokens, ReferenceModel
from whisper_hailo_tools.validate.validate import Windows

N_TOKENS = 5
N_VOCAB = 4
SHOWN = DecoderTokens(
    np.array([[7, 8, 3, 9, 0], [7, 8, 9, 0, 0]]), n_prefix=2, lengths=(4, 3)
)
"""Two rows: two forced tokens, text, the end; the rest are zeros."""

WINDOWS = Windows(
    audio=(),
    mel=np.arange(2 * 6, dtype=np.float32).reshape(2, 2, 3),
    used=(("a.wav", 0), ("b.wav", 0)),
    sha256={"a.wav": "1", "b.wav": "2"},
)
FEATURES = np.arange(1, 2 * 6 + 1, dtype=np.float32).reshape(2, 3, 2)


def best(*tokens: Sequence[int]) -> FloatArray:
    """Logits `(batch, n_tokens, n_vocab)` whose best tokens are these."""
    logits: FloatArray = np.eye(N_VOCAB, dtype=np.float32)[np.array(tokens)]
    return logits


def made_up_reference(logits: FloatArray) -> ReferenceModel:
    """Says these logits, with a hundredth added for each position that features are padded to."""

    def recognize(tokens: IntArray, features: FloatArray, pad_to: int) -> AnyArray:
        assert tokens is SHOWN.tokens
        assert features.shape == FEATURES.shape
        return logits + pad_to / 100

    def encoder_stages(mel: FloatArray) -> Iterator[tuple[str, AnyArray]]:
        yield "embedded", mel[0] + 1
        yield "features", mel[0] * 2

    def decoder_stages(
        tokens: IntArray, features: FloatArray, pad_to: int
    ) -> Iterator[tuple[str, AnyArray]]:
        yield "embedded", tokens[0] + np.float32(pad_to)
        yield "logits", features[0]

    source: Any = SimpleNamespace(
        name="made up",
        encode=lambda _: FEATURES,
        logits=recognize,
        encoder_stages=encoder_stages,
        decoder_stages=decoder_stages,
    )
    return ReferenceModel(source, WINDOWS.mel, SHOWN)


@dataclass
class MadeUpGraph:
    """Gives values by name."""

    held: dict[str, AnyArray]

    def values(self, names: Sequence[str]) -> Iterator[dict[str, AnyArray]]:
        for name in names:
            if name in self.held:
                yield {name: self.held[name]}


@dataclass
class MadeUpRun:
    """A run of any kind, whose graph notes what it is fed."""

    graph: str = "a graph"
    pad_to: int = 0
    says: Any = None
    held: dict[str, AnyArray] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    fed: list[tuple[AnyArray, ...]] = field(default_factory=list)

    def encode(self, mel: FloatArray) -> FloatArray:
        assert mel is WINDOWS.mel
        return self.says  # type: ignore[no-any-return]

    def logits(self, tokens: IntArray, features: FloatArray) -> FloatArray:
        assert tokens is SHOWN.tokens
        return self.says(features) if callable(self.says) else self.says  # type: ignore[no-any-return]

    def inner(self, *fed: AnyArray) -> MadeUpGraph:
        self.fed.append(fed)
        return MadeUpGraph(self.held)
