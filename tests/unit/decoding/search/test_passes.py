"""What a decoder is asked for in each pass, and what is read from the first one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.unit.decoding.search.scripted import EOT, PREFIX, Scripted, State, decode
from tests.unit.decoding.search.torn import Torn, tried
from tests.unit.shapes import TOY, TOY_TOKENS
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask


@dataclass
class Asked(Scripted):
    """Notes what it is asked for."""

    looks: list[np.ndarray] = field(default_factory=list)
    named: list[dict[str, Any]] = field(default_factory=list)

    def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any) -> Any:
        self.looks.append(positions)
        self.named.append(named)
        return super().step(tokens, state, positions)


SEARCHES = [
    pytest.param(SearchOptions(), 0.0, id="greedy"),
    pytest.param(SearchOptions(beam_size=2), 0.0, id="beam"),
    pytest.param(SearchOptions(best_of=2), 0.5, id="sampled"),
]


@pytest.mark.parametrize(("search", "temperature"), SEARCHES)
def test_a_decoder_is_asked_for_no_more_than_is_needed(
    search: SearchOptions, temperature: float
) -> None:
    """No weights of attention, no padding, and of steps always the same place, told once."""
    asked = Asked([[1, 2, 3, EOT], [4, 5, EOT]])
    options = DecodingOptions(search=search, max_new_tokens=4)
    decode(asked, options, temperature=temperature)
    assert [named["alignment"] for named in asked.named] == [False] * 4
    assert asked.named[0]["first"] is None
    assert [looks.tolist() for looks in asked.looks] == [[0, 3], [0], [0], [0]]
    step, *others = asked.looks[1:]
    assert all(looks is step for looks in others)
    assert not step.flags.writeable, "a decoder need not read it again"


class Silent(Scripted):
    """At start-of-transcript the first row is silent with 0.9, the second with 0.2."""

    def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any) -> Any:
        output, after = super().step(tokens, state, positions)
        rows, columns = np.nonzero(tokens[:, positions] == TOY_TOKENS.sot)
        for row, column in zip(rows, columns, strict=True):
            silent = (0.9, 0.2)[row]
            output.logits[row, column] = -30.0
            output.logits[row, column, [TOY_TOKENS.no_speech, 9]] = np.log([silent, 1 - silent])
            output.logsumexp[row, column] = 0.0
        return output, after


@pytest.mark.parametrize("n_before", [0, 3])
def test_silence_is_read_at_each_window_s_own_start_of_transcript(n_before: int) -> None:
    """The second one's begins earlier: its text has a beginning, as `--prefix` gives it."""
    decoder = Silent([[1, EOT], [2, EOT]])
    loop = DecodingLoop(decoder, TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
    prompts = (17, 5, 5)[:n_before] + PREFIX, (*PREFIX, *[3] * 8)
    found = loop.run(decoder.start(), [DecodingTask(prompt) for prompt in prompts])
    assert [one.no_speech_prob for one in found] == pytest.approx([0.9, 0.2], abs=1e-6)
    assert [one.tokens for one in found] == [(1,), (2,)]
    assert not any(one.ends_at_once for one in found)


def test_one_value_that_is_no_number_is_enough_to_refuse_broken_weights() -> None:
    class Broken(Scripted):
        def step(self, *fed: Any, **_: Any) -> Any:
            output, after = super().step(*fed)
            output.logsumexp[1, -1] = np.nan
            return output, after

    with pytest.raises(ModelError, match="no numbers"):
        decode(Broken([[1, EOT], [2, EOT]]))


def test_a_batch_of_which_all_is_tried_again_is_not_copied() -> None:
    """Keys and values of a window are megabytes."""

    class Heavy(Torn):
        def select(self, state: State, rows: np.ndarray) -> State:
            assert rows.tolist() != list(range(len(state.rows)))
            return super().select(state, rows)

    decoder = Heavy([[0]] * 2, shares=(0.5, 0.5))
    tried(decoder)
    assert decoder.heard == [{0, 1}] * 12, "at three temperatures"


def test_who_tells_no_key_draws_as_the_window_at_a_recording_s_start() -> None:
    class Flat(Scripted):
        def step(self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any) -> Any:
            logits = np.zeros((len(state.rows), len(positions), TOY.n_vocab), np.float32)
            sums = np.full(logits.shape[:2], np.log(TOY.n_vocab), np.float32)
            return StepOutput(logits, sums), State(state.step + 1, state.rows)

    def drawn(*tasks: DecodingTask) -> tuple[int, ...]:
        options = DecodingOptions(search=SearchOptions(best_of=1), max_new_tokens=12)
        loop = DecodingLoop(Flat([[0]]), TOY_TOKENS, options)  # type: ignore[arg-type]
        return loop.run(State(0, (0,)), tasks, 1.0)[0].tokens

    assert drawn(DecodingTask(PREFIX)) == drawn(DecodingTask(PREFIX, key=0))
    assert drawn(DecodingTask(PREFIX)) != drawn(DecodingTask(PREFIX, key=1))
