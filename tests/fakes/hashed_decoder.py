"""A decoder whose every token depends on all before it, and drafts for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import strategies as st

from tests.fakes.model_sizes import TOY, TOY_TOKENS, toy_spec
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import Decoded, Drafted
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft

PREFIX = (11, 12, 14, 19)


EOT = TOY_TOKENS.eot


@dataclass
class HashedDecoder:
    """Logits are a fixed function of all tokens before: any slip of the cache shows."""

    seed: int = 0
    eot_bias: float = 0.0
    broken: bool = False
    passes: list[int] = field(default_factory=list)
    spec = toy_spec()

    def batch_size(self, state: tuple[int, ...]) -> int:
        return 1

    def step(
        self,
        tokens: np.ndarray,
        state: tuple[int, ...],
        positions: np.ndarray,
        **asked: object,
    ) -> tuple[StepOutput, tuple[int, ...]]:
        self.passes.append(tokens.shape[1])
        assert positions.max() < tokens.shape[1], "what is looked at is fed"
        history = (*state, *tokens[0].tolist())
        assert len(history) <= TOY.n_text_ctx
        rows = [self.logits(history[: len(state) + int(p) + 1]) for p in positions]
        logits = np.stack(rows)[np.newaxis]
        logsumexp = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        if self.broken:
            logsumexp[:] = np.nan
        alignment = np.zeros((1, 2, tokens.shape[1], 12), np.float32)
        for column in range(tokens.shape[1]):
            at = self.looks_at(history[: len(state) + column + 1])
            alignment[0, :, column, at] = 0.4, 1.0
            alignment[0, 0, column, (at + 5) % 12] = 0.6  # one head alone is misled
        return StepOutput(
            logits, logsumexp, alignment if asked.get("alignment") else None
        ), history

    @staticmethod
    def looks_at(history: tuple[int, ...]) -> int:
        """Encoder position that the decoder looks at when it chooses what follows."""
        return crc32(np.array(history[-2:], np.int64).tobytes()) % 12

    def rewind(self, state: tuple[int, ...], n_tokens: int) -> tuple[int, ...]:
        assert len(PREFIX) <= n_tokens <= len(state)
        return state[:n_tokens]

    def logits(self, history: tuple[int, ...]) -> np.ndarray:
        # Like speech, mostly decided by the last few tokens, so that drafts can hold again.
        seed = crc32(
            np.array([self.seed, *history[-2:], len(history) % 3], np.int64).tobytes()
        )
        logits = (
            np.random.default_rng(seed).normal(0, 3, TOY.n_vocab).astype(np.float32)
        )
        logits[EOT] += self.eot_bias
        return logits


def run(
    decoder: Any,
    options: DecodingOptions,
    draft: Sequence[int] = (),
    n_fixed: int = 0,
    horizon: int | None = None,
) -> Decoded:
    """Decode with a draft."""
    task = DecodingTask(PREFIX, draft=Draft(tuple(draft), n_fixed, horizon))
    (decoded,) = DecodingLoop(decoder, TOY_TOKENS, options).run((), [task])
    return decoded


def saved(decoded: Decoded) -> Drafted:
    """What became of the draft."""
    assert decoded.drafted is not None
    return decoded.drafted


def from_scratch(decoder: Any, options: DecodingOptions) -> Decoded:
    (decoded,) = DecodingLoop(decoder, TOY_TOKENS, options).run(
        (), [DecodingTask(PREFIX)]
    )
    return decoded


def edited(tokens: tuple[int, ...], edits: list[tuple[str, int, int]]) -> list[int]:
    """A draft that has something to do with the truth."""
    draft = list(tokens)
    for kind, where, token in edits:
        at = where % (len(draft) + 1)
        if kind == "insert":
            draft.insert(at, token)
        elif kind == "cut":
            del draft[at:]
        elif kind == "drop":
            del draft[at : at + 1]
        else:
            draft[at : at + 1] = [token]
    return draft


edits = st.lists(
    st.tuples(
        st.sampled_from(["insert", "cut", "drop", "change"]),
        st.integers(0, 40),
        st.integers(-1, 31),
    ),
    max_size=6,
)


all_options = st.builds(
    DecodingOptions,
    anti_repetition=st.builds(
        AntiRepetition,
        repetition_penalty=st.sampled_from([1.0, 1.1, 2.0]),
        eot_boost=st.sampled_from([0.0, 0.5, 4.0]),
    ),
    max_new_tokens=st.sampled_from([None, 1, 2, 5, 40]),
)
