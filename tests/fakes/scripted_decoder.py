"""A decoder that follows a script, and rows of logits for searches advanced by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import strategies as st

from tests.fakes.model_sizes import TOY, TOY_TOKENS, toy_spec
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.decoding.decoded import Decoded, Drafted
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
    Thresholds,
)
from whisper_hailo.decoding.search.fallback import decode_with_fallback
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, run_steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.text.tokenizer import Tokenizer

PREFIX = (11, 12, 14, 19)
EOT = TOY_TOKENS.eot
Odds = Mapping[int, float]
"""Probability of some ids; the rest have next to none."""
END = 5
"""End-of-transcript in searches that a test advances by hand."""


@dataclass(frozen=True)
class State:
    step: int
    rows: tuple[int, ...]


@dataclass
class ScriptedDecoder:
    """Gives row r's k-th token of the script the highest logit (4) at the k-th step."""

    scripts: list[list[int]]
    fed: list[list[list[int]]] = field(default_factory=list)
    base: float = 0.0
    spec = toy_spec()

    def start(self) -> State:
        return State(0, tuple(range(len(self.scripts))))

    def batch_size(self, state: State) -> int:
        return len(state.rows)

    def select(self, state: State, rows: np.ndarray) -> State:
        return State(state.step, tuple(state.rows[int(row)] for row in rows))

    def rewind(self, state: State, n_tokens: int) -> State:
        """Without a draft nothing is forgotten."""
        del n_tokens
        return state

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: object
    ) -> tuple[StepOutput, State]:
        self.fed.append(tokens.tolist())
        assert positions.max() < tokens.shape[1], "what is looked at is fed"
        logits = np.full(
            (len(state.rows), len(positions), TOY.n_vocab), self.base, np.float32
        )
        for row, of in enumerate(state.rows):
            script = self.scripts[of]
            logits[row, -1, script[min(state.step, len(script) - 1)]] = self.base + 4.0
        logsumexp = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits=logits, logsumexp=logsumexp), State(
            state.step + 1, state.rows
        )


def decode(
    decoder: ScriptedDecoder,
    options: DecodingOptions | None = None,
    tokens: SpecialTokens = TOY_TOKENS,
    prefix: tuple[int, ...] = PREFIX,
    temperature: float = 0.0,
) -> tuple[Decoded, ...]:
    loop = DecodingLoop(decoder, tokens, options or DecodingOptions())  # type: ignore[arg-type]
    tasks = [DecodingTask(prefix)] * len(decoder.scripts)
    return loop.run(decoder.start(), tasks, temperature)


def logprobs(odds: Odds, n_vocab: int = 6) -> np.ndarray:
    row = np.full(n_vocab, -30.0, np.float32)
    for token, share in odds.items():
        row[token] = np.log(share)
    return row


def unruled(logits: np.ndarray, logsumexp: float) -> FilteredLogits:
    """Logits that no rule changed."""
    return FilteredLogits(logits, logsumexp, logits.copy())


class OddsTreeDecoder(ScriptedDecoder):
    """A decoder whose every named history of tokens has odds of its own."""

    odds: Mapping[tuple[int, ...], Odds]

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        histories = getattr(state, "rows", ())
        now = [
            () if state.step == 0 else (*before, int(token))
            for before, token in zip(histories, tokens[:, -1], strict=True)
        ]
        rows = [logprobs(self.odds[history], TOY.n_vocab) for history in now]
        logits = np.repeat(np.stack(rows)[:, np.newaxis], len(positions), axis=1)
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits, sums), State(state.step + 1, tuple(now))  # type: ignore[arg-type]

    def start(self) -> State:
        return State(0, ((),))  # type: ignore[arg-type]

    def select(self, state: State, rows: np.ndarray) -> State:
        return State(state.step, tuple(state.rows[int(row)] for row in rows))


class Letters:
    """Id 0 is `a`, and so on, behind a blank as of Whisper's texts."""

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return " " + "".join(chr(97 + token) for token in ids)


TOKENIZER = Tokenizer(Letters(), TOY_TOKENS)  # type: ignore[arg-type]


@dataclass
class TwoTokenDecoder(ScriptedDecoder):
    """Each row says three tokens of its own, hesitating between two of them, then ends.

    Attributes:
        shares: of each row, the probability of the likelier one.
        no_speech: of each row, the probability of no speech.
        heard: windows whose audio each pass is about.
    """

    shares: Sequence[float] = ()
    no_speech: Mapping[int, float] = field(default_factory=dict)
    heard: list[set[int]] = field(default_factory=list)

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        self.fed.append(tokens.tolist())
        self.heard.append(set(state.rows))
        odds = np.full((len(state.rows), len(positions), TOY.n_vocab), 1e-9)
        for row, of in enumerate(state.rows):
            if state.step == 3:
                odds[row, -1, EOT] = 1.0
            else:
                odds[row, -1, 2 * of] = self.shares[of]
                odds[row, -1, 2 * of + 1] = 1 - self.shares[of]
            if state.step == 0:  # at start-of-transcript, where all else is id 1
                silent = self.no_speech.get(of, 1e-9)
                odds[row, 0, [TOY_TOKENS.no_speech, 1]] = silent, 1 - silent
        logits = np.log(odds).astype(np.float32)
        sums = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits, sums), State(state.step + 1, state.rows)


def tried(
    decoder: TwoTokenDecoder,
    temperatures: tuple[float, ...] = (0.0, 0.4, 0.8),
    thresholds: Thresholds | None = None,
    retry_beam_size: int = 1,
) -> tuple[Decoded, ...]:
    """Windows decoded until their mean log-probability is above -0.3."""
    search = SearchOptions(temperatures, retry_beam_size=retry_beam_size, best_of=2)
    options = DecodingOptions(
        search=search,
        thresholds=thresholds or Thresholds(logprob=-0.3),
        max_new_tokens=6,
    )
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    tasks = [DecodingTask(PREFIX, key=row) for row in range(len(decoder.shares))]
    attempts = run_steps(decode_with_fallback(loop, TOKENIZER, decoder.start(), tasks))
    return tuple(attempt.decoded for attempt in attempts)


def two_token_decoder(*shares: float, **named: Any) -> TwoTokenDecoder:
    return TwoTokenDecoder([[0]] * len(shares), shares=shares, **named)


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
