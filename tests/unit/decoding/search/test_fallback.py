"""Fallback: windows that are decoded again, at which temperatures, and in which language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY_TOKENS
from tests.fakes.scripted_decoder import (
    EOT,
    PREFIX,
    TOKENIZER,
    ScriptedDecoder,
    State,
    TwoTokenDecoder,
    tried,
    two_token_decoder,
)
from whisper_hailo.decoding.decoded import (
    Decoded,
)
from whisper_hailo.decoding.options import (
    DecodingOptions,
    SearchOptions,
    Thresholds,
    TokenLimits,
)
from whisper_hailo.decoding.search.attempt_checks import is_doubtful
from whisper_hailo.decoding.search.beam_retry import is_beam_retry_enabled
from whisper_hailo.decoding.search.fallback import (
    DecodedTask,
    decode_with_fallback,
    describe_search,
    needs_speech,
)
from whisper_hailo.decoding.search.loop import (
    DecodingLoop,
    DecodingTask,
    Steps,
    run_steps,
)


def test_fallback_retries_doubtful_windows_only() -> None:
    """Row 0 is sure of what it hears; 1 and 2 hesitate and go hotter, as rows 0 and 1."""
    decoder = two_token_decoder(0.99, 0.5, 0.5)
    sure, *doubtful = tried(decoder)
    assert (sure.tokens, sure.temperature) == ((0, 0, 0), 0.0)
    assert decoder.heard == [{0, 1, 2}] * 4 + [{1, 2}] * 8
    assert set(doubtful[0].tokens) <= {2, 3}
    assert set(doubtful[1].tokens) <= {4, 5}


def test_fallback_in_a_batch_gives_the_result_alone() -> None:
    shares = (0.99, 0.5, 0.5)
    batch = tried(two_token_decoder(*shares))
    for row in (1, 2):
        only = [0.99] * 3
        only[row] = shares[row]
        assert tried(two_token_decoder(*only))[row] == batch[row]


def test_fallback_without_doubt_decodes_once() -> None:
    decoder = two_token_decoder(0.99, 0.99)
    assert [decoded.temperature for decoded in tried(decoder)] == [0.0, 0.0]
    assert len(decoder.fed) == 4


def test_fallback_stops_at_the_first_passing_temperature() -> None:
    """The gate opens between the temperatures: what is at 0.4 is taken."""

    class Settled(TwoTokenDecoder):
        def step(self, tokens: np.ndarray, *args: Any, **named: Any) -> Any:
            if len(self.fed) == 4:  # the first text took four passes
                self.shares = (0.999,)
            return super().step(tokens, *args, **named)

    decoder = Settled([[0]], shares=(0.5,))
    (decoded,) = tried(decoder)
    assert decoded.temperature == 0.4
    assert len(decoder.fed) == 8


def test_fallback_without_passing_attempt_takes_likeliest() -> None:
    (decoded,) = tried(two_token_decoder(0.5), (0.0,))
    assert (decoded.temperature, decoded.made_up) == (0.0, False)
    assert decoded.avg_logprob == pytest.approx(3 * np.log(0.5) / 4, abs=1e-4)
    (first,) = tried(two_token_decoder(0.6), (0.0, 1.5, 2.0))
    assert (first.tokens, first.temperature) == ((0, 0, 0), 0.0)
    assert first.avg_logprob == pytest.approx(3 * np.log(0.6) / 4, abs=1e-4)
    (last,) = tried(two_token_decoder(0.6), (2.0, 0.01))
    assert (last.tokens, last.temperature) == ((0, 0, 0), 0.01)
    assert last.avg_logprob == pytest.approx(first.avg_logprob)


def test_fallback_bounds_every_attempt_by_the_audio() -> None:
    class Endless(TwoTokenDecoder):
        def step(
            self, tokens: np.ndarray, state: State, *args: Any, **named: Any
        ) -> Any:
            return super().step(
                tokens, replace(state, step=min(state.step, 2)), *args, **named
            )

    decoder = Endless([[0]], shares=(0.5,))
    content_s = 2.0
    options = DecodingOptions(
        search=SearchOptions((0.0, 0.4, 0.8)),
        thresholds=Thresholds(logprob=-0.3),
        limits=TokenLimits(max_per_second=4.0),
    )
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    steps = decode_with_fallback(
        loop, TOKENIZER, decoder.start(), [DecodingTask(PREFIX, content_s)]
    )
    ((decoded, _),) = run_steps(steps)
    assert decoded.runaway
    n_tries = len(("greedy", "beam", 0.4, 0.8))
    assert len(decoder.fed) == n_tries * 4 * content_s


def test_fallback_of_live_audio_decodes_once() -> None:
    """A partial is soon transcribed again."""
    options = DecodingOptions(
        search=SearchOptions((0.0, 0.4)), thresholds=Thresholds(logprob=-0.3)
    )
    decoder = two_token_decoder(0.5)
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    ((decoded, _),) = run_steps(
        decode_with_fallback(
            loop, TOKENIZER, decoder.start(), [DecodingTask(PREFIX, is_running=True)]
        )
    )
    assert is_doubtful(decoded, options.thresholds)
    assert (decoded.tokens, decoded.temperature, len(decoder.fed)) == (
        (0, 0, 0),
        0.0,
        4,
    )


@pytest.fixture
def runs(
    monkeypatch: pytest.MonkeyPatch,
) -> list[tuple[tuple[int, ...], float, int | None]]:
    """Windows, temperature and beam size of every run of the loop."""
    calls = []
    run = DecodingLoop.decode_tokens

    def recording(
        self: DecodingLoop,
        state: State,
        tasks: Sequence[DecodingTask],
        temperature: float = 0.0,
        beam_size: int | None = None,
    ) -> Steps[tuple[Decoded, ...]]:
        calls.append((state.rows, temperature, beam_size))
        return run(self, state, tasks, temperature, beam_size)

    monkeypatch.setattr(DecodingLoop, "decode_tokens", recording)
    return calls


def test_fallback_searches_unsure_windows_one_by_one(runs: list[Any]) -> None:
    """Below -0.5, though nothing is in doubt: 3 ln 0.5 / 4 is -0.52, with 0.6 it is -0.38."""
    tried(
        two_token_decoder(0.99, 0.5, 0.6, 0.5),
        thresholds=Thresholds(),
        retry_beam_size=3,
    )
    assert runs == [((0, 1, 2, 3), 0.0, None), ((1,), 0.0, 3), ((3,), 0.0, 3)]


def test_fallback_samples_after_one_beam_retry(runs: list[Any]) -> None:
    """Those windows are sampled."""
    tried(two_token_decoder(0.99, 0.6, 0.6), retry_beam_size=3)
    both = (1, 2)
    assert runs[:3] == [((0, 1, 2), 0.0, None), ((1,), 0.0, 3), ((2,), 0.0, 3)]
    assert runs[3:] == [(both, 0.4, None), (both, 0.8, None)]


@pytest.mark.parametrize(
    "search",
    [
        SearchOptions((0.0, 0.4), retry_beam_size=1, best_of=1),
        SearchOptions((0.0, 0.4), beam_size=2, best_of=1),
        SearchOptions((0.2, 0.4), best_of=1),
        SearchOptions((0.0,), best_of=1),
    ],
)
def test_fallback_beam_retry_needs_greedy_first_search(
    search: SearchOptions, runs: list[Any]
) -> None:
    decoder = two_token_decoder(0.5)
    options = DecodingOptions(search=search)
    run_steps(
        decode_with_fallback(
            DecodingLoop(decoder, TOY_TOKENS, options),
            TOKENIZER,
            decoder.start(),
            [DecodingTask(PREFIX)],
        )
    )
    assert not is_beam_retry_enabled(search)
    assert runs == [((0,), search.temperatures[0], None)]


class GardenPath(TwoTokenDecoder):
    """The likelier first word leads to doubt, the other one to certainty."""

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any
    ) -> Any:
        self.shares = (0.55,)
        output, after = super().step(tokens, state, positions, **named)
        if 0 < state.step < 3:
            certain = tokens[:, -1] == 1
            output.logits[certain, -1, 0] = np.log(1e-9)
            output.logits[certain, -1, 1] = 0.0
        return output, after


def test_fallback_with_better_beam_samples_nothing(runs: list[Any]) -> None:
    (decoded,) = tried(GardenPath([[0]], shares=(0.55,)), retry_beam_size=3)
    assert (decoded.tokens, decoded.temperature) == ((1, 1, 1), 0.0)
    assert decoded.avg_logprob == pytest.approx(np.log(0.45) / 4, abs=1e-4)
    assert runs == [((0,), 0.0, None), ((0,), 0.0, 3)]


def test_fallback_does_not_retry_silence() -> None:
    """The text is as unlikely as that of the window beside it, which holds speech."""
    decoder = two_token_decoder(0.5, 0.5, no_speech={1: 0.9})
    _, silent = tried(decoder, thresholds=Thresholds(logprob=-0.3), retry_beam_size=3)
    assert [1 in windows for windows in decoder.heard] == [True] * 4 + [False] * 12
    assert silent.no_speech_prob == pytest.approx(0.9, abs=1e-3)


def test_fallback_adds_the_compression_ratio() -> None:
    """15 letters that are one: zlib makes 11 bytes of `aaa...`; 3 letters it cannot shorten."""
    (decoded,) = tried(two_token_decoder(0.99))
    assert decoded.compression_ratio == pytest.approx(3 / 11)


@pytest.mark.parametrize("echo", [(0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 6)])
def test_fallback_decodes_echo_without_its_context(echo: tuple[int, ...]) -> None:
    decoder = ScriptedDecoder([[1], [*echo, EOT]])
    shown = (17, 0, 1, 2, 3, 4, 5)
    options = DecodingOptions(
        search=SearchOptions((0.0,)), thresholds=Thresholds(logprob=None)
    )
    results = run_steps(
        decode_with_fallback(
            DecodingLoop(decoder, TOY_TOKENS, options),
            TOKENIZER,
            decoder.start(),
            [DecodingTask(PREFIX), DecodingTask((*shown, *PREFIX))],
        )
    )
    assert results[1].decoded.tokens == echo
    prompts = [fed for fed in decoder.fed if len(fed[0]) > 1]
    assert prompts[1:] == ([[list(PREFIX)]] if echo[-1] == 5 else [])


OTHER = (*PREFIX[:-1], PREFIX[-1] - 1)
"""A prompt that asks for another language."""


def decode_own(
    decoder: TwoTokenDecoder, own_rows: Sequence[int], requested_rows: list[list[int]]
) -> list[DecodedTask]:
    """Decode windows, of which some are likely in another language."""

    def find_own_tasks(rows: Sequence[int]) -> dict[int, DecodingTask]:
        requested_rows.append(list(rows))
        return {
            row: DecodingTask(OTHER, language="de") for row in rows if row in own_rows
        }

    loop = DecodingLoop(decoder, TOY_TOKENS, DecodingOptions(max_new_tokens=6))  # type: ignore[arg-type]
    tasks = [DecodingTask(PREFIX, language="en")] * len(decoder.shares)
    steps = decode_with_fallback(
        loop, TOKENIZER, decoder.start(), tasks, find_own_tasks
    )
    return list(run_steps(steps))


class Bilingual(TwoTokenDecoder):
    """Is sure of what it says where it was asked for the other language."""

    other_share = 0.99

    def step(self, tokens: np.ndarray, *args: Any, **named: Any) -> Any:
        if tokens.shape[1] > 1:
            is_other = tuple(tokens[0].tolist()) == OTHER
            self.shares = [self.other_share if is_other else 0.55] * len(self.shares)
        return super().step(tokens, *args, **named)


def test_fallback_takes_better_text_in_own_language() -> None:
    requested_rows: list[list[int]] = []
    sure, own = decode_own(
        Bilingual([[0], [0]], shares=(0.5, 0.5)), [1], requested_rows
    )
    assert requested_rows == [[0, 1]]
    assert (sure.task.language, own.task.language) == ("en", "de")
    assert own.decoded.avg_logprob == pytest.approx(3 * np.log(0.99) / 4, abs=1e-4)


def test_fallback_keeps_better_text_of_the_recordings_language() -> None:
    decoder = Bilingual([[0]], shares=(0.5,))
    decoder.other_share = 0.5
    ((decoded, task),) = decode_own(decoder, [0], [])
    assert task.language == "en"
    assert decoded.avg_logprob == pytest.approx(3 * np.log(0.55) / 4, abs=1e-4)


def test_fallback_asks_for_no_language_where_text_is_sure() -> None:
    requested_rows: list[list[int]] = []
    decode_own(two_token_decoder(0.99, 0.99), [0, 1], requested_rows)
    assert not requested_rows


def decode_with_speech(
    decoder: TwoTokenDecoder, speech_rows: Sequence[int], checked_rows: list[int]
) -> list[Decoded]:
    """Decode windows, in some of which somebody speaks."""

    def hears_speech(row: int) -> bool:
        checked_rows.append(row)
        return row in speech_rows

    search = SearchOptions((0.0, 0.4), retry_beam_size=1, best_of=2)
    options = DecodingOptions(
        search=search, thresholds=Thresholds(logprob=-0.3), max_new_tokens=6
    )
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    tasks = [DecodingTask(PREFIX)] * len(decoder.shares)
    steps = decode_with_fallback(
        loop, TOKENIZER, decoder.start(), tasks, hears_speech=hears_speech
    )
    return [decoded for decoded, _ in run_steps(steps)]


def test_fallback_without_speech_makes_one_attempt() -> None:
    decoder = two_token_decoder(0.99, 0.5)
    checked_rows: list[int] = []
    sure, silent = decode_with_speech(decoder, [], checked_rows)
    assert checked_rows == [1]
    assert (sure.made_up, silent.made_up) == (False, True)
    assert decoder.heard == [{0, 1}] * 4
    assert silent.is_silence(Thresholds())


def test_fallback_with_speech_makes_more_attempts() -> None:
    decoder = two_token_decoder(0.5)
    decode_with_speech(decoder, [0], [])
    assert len(decoder.heard) > 4


@pytest.mark.parametrize(
    ("logprob", "no_speech", "needed"),
    [(-1.1, 0.1, True), (-0.9, 0.1, False), (-0.9, 0.7, True), (-0.3, 0.7, False)],
)
def test_needs_speech_is_stricter_where_none_is_likely(
    logprob: float, no_speech: float, needed: bool
) -> None:
    decoded = Decoded((1,), logprob, no_speech, runaway=False)
    assert needs_speech(decoded, Thresholds()) is needed


@pytest.mark.parametrize(
    ("search", "name"),
    [
        (SearchOptions(), "greedy"),
        (SearchOptions(beam_size=5), "beam 5"),
        (SearchOptions(temperatures=(0.4,), best_of=3), "best of 3 at 0.4"),
        (
            SearchOptions(temperatures=(0.0, 0.2, 1.0)),
            "greedy, beam 4 where unsure, then 0.2, 1",
        ),
        (SearchOptions((0.0, 0.2), retry_beam_size=1), "greedy, then 0.2"),
        (SearchOptions((0.0, 0.2), beam_size=3), "beam 3, then 0.2"),
        (SearchOptions((0.4, 0.8), best_of=3), "best of 3 at 0.4, then 0.8"),
    ],
)
def test_describe_search_names_stages(search: SearchOptions, name: str) -> None:
    assert describe_search(search) == name


def test_fallback_of_whole_batch_copies_no_state() -> None:
    """Keys and values of a window are megabytes."""

    class Heavy(TwoTokenDecoder):
        def select(self, state: State, rows: np.ndarray) -> State:
            assert rows.tolist() != list(range(len(state.rows)))
            return super().select(state, rows)

    decoder = Heavy([[0]] * 2, shares=(0.5, 0.5))
    tried(decoder)
    assert decoder.heard == [{0, 1}] * 12, "at three temperatures"
