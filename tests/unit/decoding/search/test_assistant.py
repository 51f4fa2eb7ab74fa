"""What a model that decodes ahead is fed, what it proposes, and what is noted of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.unit.decoding.search.oracle import EOT, PREFIX, Oracle
from tests.unit.shapes import TOY, TOY_TOKENS
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.logits_rules import LogitsRules
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.draft_decoder import Costs, DraftDecoder, DraftState, DraftStats
from whisper_hailo.decoding.search.greedy import GreedyChoice
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft

CHEAP = Costs(step=0.1, row=0.05)
TEXT = (1, 2, 3, 4)


@dataclass
class Reader(Oracle):
    """Reads a text out, nearly sure of it, and notes what it has heard and is asked for."""

    heard: list[tuple[int, ...]] = field(default_factory=list)
    looks: list[np.ndarray] = field(default_factory=list)

    def step(self, tokens: np.ndarray, state: Any, positions: np.ndarray, **named: Any) -> Any:
        assert positions.min() >= 0, "where something is fed"
        self.heard.append((*state, *tokens[0].tolist()))
        self.looks.append(positions)
        return super().step(tokens, state, positions, **named)

    def _logits(self, history: tuple[int, ...]) -> np.ndarray:
        at = len(history) - len(PREFIX)
        logits = np.zeros(TOY.n_vocab, np.float32)
        logits[TEXT[at] if 0 <= at < len(TEXT) else EOT] = 9.0
        return logits


def assistant(reader: Reader, always: int) -> DraftDecoder:
    rules = LogitsRules(TOY_TOKENS, TOY, DecodingOptions())
    ahead = DraftState(reader, (), DraftStats(CHEAP, always))  # type: ignore[arg-type]
    return DraftDecoder(ahead, GreedyChoice(rules, EOT, 0.0), PREFIX)


def helped(always: int, draft: Draft | None = None) -> tuple[Decoded, Reader, Reader, DraftStats]:
    """The text, the large model, the small one and what is noted of it."""
    large, small, tally = Reader(), Reader(), DraftStats(CHEAP, always)
    task = DecodingTask(PREFIX, draft=draft, ahead=DraftState(small, (), tally))  # type: ignore[arg-type]
    loop = DecodingLoop(large, TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
    (decoded,) = loop.run((), [task])
    assert decoded.tokens == TEXT
    return decoded, large, small, tally


def test_it_goes_on_from_the_text_as_it_is_now() -> None:
    """Whatever it was asked before, and if it is asked twice."""
    reader = Reader()
    asked = assistant(reader, always=1)
    for text in ((1, 2, 3, 4), (1, 9, 3, 4), (1, 9, 3, 4), (1, 9), (8, 9, 3)):
        reader.heard.clear()
        asked.propose(text, 1)
        assert reader.heard == [(*PREFIX, *text)]


def test_it_is_asked_for_one_token_at_a_time() -> None:
    """Of the prompt for what comes behind it; of steps always the same place, told once."""
    reader = Reader()
    assert assistant(reader, always=3).propose((), 3) == TEXT[:3]
    first, *steps = reader.looks
    assert [looks.tolist() for looks in reader.looks] == [[len(PREFIX) - 1], [0], [0]]
    assert steps[0] is steps[1]
    assert not steps[0].flags.writeable, "a decoder need not read it again"
    assert first is not steps[0]


def test_the_end_is_not_proposed() -> None:
    """Behind it comes nothing that the large model could look at."""
    _, large, small, tally = helped(always=8)
    assert large.heard == [(*PREFIX, *TEXT)]
    assert len(small.heard) == tally.n_steps == len(TEXT) + 1
    assert (tally.n_accepted, tally.n_fed) == (len(TEXT), 1 + len(TEXT))


def test_a_pass_gives_the_end_as_well() -> None:
    """One token ahead and one of its own: two passes for the text, a third for its end."""
    _, large, _, tally = helped(always=1)
    assert [len(heard) - len(PREFIX) for heard in large.heard] == [1, 3, 4]
    assert (tally.n_passes, tally.n_tokens) == (3, len(TEXT) + 1)


def test_what_it_expects_of_itself_is_counted_once() -> None:
    """It is nearly sure of every token, and right."""
    for always in (1, 2, 3):
        _, _, _, tally = helped(always)
        assert tally.expected == pytest.approx(tally.n_accepted, rel=0.02)


def test_where_there_is_a_draft_it_is_not_asked() -> None:
    decoded, large, small, tally = helped(always=2, draft=Draft(TEXT))
    assert large.heard == [(*PREFIX, *TEXT)]
    assert (small.heard, tally.n_passes) == ([], 0)
    assert decoded.drafted is not None
    assert decoded.drafted.n_passes == 1
