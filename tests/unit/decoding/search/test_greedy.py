"""Greedy search: the best token of each row, and rows that leave the batch."""

from __future__ import annotations

from tests.fakes.scripted_decoder import (
    EOT,
    PREFIX,
    ScriptedDecoder,
    decode,
)
from whisper_hailo.decoding.options import (
    DecodingOptions,
)


def run(
    decoder: ScriptedDecoder, options: DecodingOptions | None = None
) -> list[tuple[int, ...]]:
    return [decoded.tokens for decoded in decode(decoder, options)]


def test_greedy_follows_the_best_token_until_eot() -> None:
    decoder = ScriptedDecoder([[1, 2, 3, EOT]])
    assert run(decoder) == [(1, 2, 3)]
    assert decoder.fed == [[list(PREFIX)], [[1]], [[2]], [[3]]]


def test_greedy_rows_leave_the_batch_when_done() -> None:
    decoder = ScriptedDecoder([[1, EOT], [2, 3, 4, EOT]])
    assert run(decoder) == [(1,), (2, 3, 4)]
    assert decoder.fed[1:] == [[[1], [2]], [[3]], [[4]]]


def test_greedy_without_eot_stops_at_budget() -> None:
    decoder = ScriptedDecoder([[5]])
    (decoded,) = decode(decoder, DecodingOptions(max_new_tokens=3))
    assert decoded.tokens == (5, 5, 5)
    assert decoded.runaway
    assert len(decoder.fed) == 3


def test_greedy_eot_on_last_step_is_no_runaway() -> None:
    (decoded,) = decode(
        ScriptedDecoder([[5, 5, EOT]]), DecodingOptions(max_new_tokens=3)
    )
    assert decoded.tokens == (5, 5)
    assert not decoded.runaway


def test_greedy_done_rows_stay_while_most_rows_run() -> None:
    """To leave, the keys and values of those that stay are copied: not for each one."""
    decoder = ScriptedDecoder(
        [[1, EOT], [2, 2, EOT], [3, 3, 3, 3, EOT], [4, 4, 4, EOT]]
    )
    alone = [run(ScriptedDecoder([script]))[0] for script in decoder.scripts]
    assert run(decoder) == alone == [(1,), (2, 2), (3, 3, 3, 3), (4, 4, 4)]
    assert [len(fed) for fed in decoder.fed] == [4, 4, 4, 2, 1]
    assert decoder.fed[2] == [[EOT], [2], [3], [4]]
