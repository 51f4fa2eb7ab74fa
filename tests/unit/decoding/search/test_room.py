"""Where the text context is nearly full: prompts of other lengths, and none that leaves room."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.decoding.search.scripted import EOT, PREFIX, Scripted
from tests.unit.shapes import TOY, TOY_TOKENS
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.decoding.search.beam_and_sampling import BeamChoice
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask

SEARCHES = [
    pytest.param(SearchOptions(), 0.0, id="greedy"),
    pytest.param(SearchOptions(beam_size=2), 0.0, id="beam"),
    pytest.param(SearchOptions(best_of=2), 0.5, id="sampled"),
]


def prompt(n_tokens: int) -> tuple[int, ...]:
    return (*[5] * (n_tokens - len(PREFIX)), *PREFIX)


def run(
    decoder: Scripted, lengths: list[int], search: SearchOptions, temperature: float
) -> tuple[Decoded, ...]:
    """Decode with prompts of so many tokens."""
    options = DecodingOptions(search=search)
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    tasks = [DecodingTask(prompt(n_tokens)) for n_tokens in lengths]
    return loop.run(decoder.start(), tasks, temperature)


@pytest.mark.parametrize(("search", "temperature"), SEARCHES)
@pytest.mark.parametrize("lengths", [[4, 24], [24, 4]])
def test_the_longest_prompt_of_a_batch_says_how_much_all_may_write(
    lengths: list[int], search: SearchOptions, temperature: float
) -> None:
    """Shorter ones are padded to it: of 32 tokens 8 are left to each window."""
    decoder = Scripted([[1], [2]], base=-9.0)
    for found in run(decoder, lengths, search, temperature):
        assert len(found.tokens) == TOY.n_text_ctx - 24
        assert found.runaway
    n_fed = sum(len(fed[0]) for fed in decoder.fed)
    assert n_fed == TOY.n_text_ctx - 1, "the last token is not fed"


@pytest.mark.parametrize(("search", "temperature"), SEARCHES)
def test_a_prompt_that_fills_the_text_context_leaves_no_text(
    search: SearchOptions, temperature: float
) -> None:
    decoder = Scripted([[1, EOT]])
    (found,) = run(decoder, [TOY.n_text_ctx], search, temperature)
    assert (found.tokens, found.runaway) == ((), True)
    assert len(decoder.fed) == 1


def test_a_beam_whose_every_way_is_barred_gives_an_empty_text() -> None:
    beam = BeamChoice(EOT, 0.0, 2, 1.0)
    barred = np.full(30, -np.inf, np.float32)
    assert beam.advance([barred], [FilteredLogits(barred, 0.0)]) == []
    assert not beam.running
    (found,) = beam.finish()
    assert (found.tokens, found.done) == ((), False)
