"""Prompts: what is shown, and how much of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.shapes import TINY, TOY_TOKENS
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import PromptOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.prompt import PromptMaker
from whisper_hailo.text.tokenizer import Tokenizer

CONTROL = (11, 12, 14, 19)


class Letters:
    """One token per letter; `#` is no plain text."""

    def encode(self, text: str, **_: object) -> Any:
        ids = [30 if letter == "#" else 1 for letter in text.strip()]
        return type("Encoding", (), {"ids": ids})()


def maker(tokens: Any = TOY_TOKENS, **prompts: Any) -> PromptMaker:
    options = DecodingOptions(prompts=PromptOptions(**prompts))
    return PromptMaker(Tokenizer(Letters(), tokens), TINY, options)  # type: ignore[arg-type]


def test_nothing_to_show_is_the_prefix_alone() -> None:
    assert maker().tokens("en", (), is_first=True) == CONTROL


def test_hotwords_come_first_then_what_was_said() -> None:
    prompt = maker(hotwords="ab", initial_prompt="c")
    assert prompt.starting_context() == (1,)
    assert prompt.tokens("en", (5, 6), is_first=True) == (17, 1, 1, 5, 6, *CONTROL)


def test_the_prefix_is_the_first_window_s() -> None:
    prompt = maker(prefix="ab")
    assert prompt.tokens("en", (), is_first=True) == (*CONTROL, 1, 1)
    assert prompt.tokens("en", (), is_first=False) == CONTROL


def test_long_texts_keep_their_end_within_half_the_context(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prompt = maker(initial_prompt="x" * 500, hotwords="abc")
    assert "--initial-prompt has 500 tokens, this model takes 220; its end is used" in caplog.text
    shown = prompt.tokens("en", tuple(range(2, 10)) * 100, is_first=True)
    assert len(shown) == 1 + 223 + len(CONTROL)
    assert shown[-5] == 9


def test_a_carried_prompt_is_in_every_window() -> None:
    prompt = maker(initial_prompt="abcd", carry_initial_prompt=True)
    assert prompt.starting_context() == ()
    assert prompt.tokens("en", (5, 5), is_first=False) == (17, 1, 1, 1, 1, 5, 5, *CONTROL)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"prefix": "x" * 200}, "--prefix has 200 tokens, this model takes 112"),
        ({"hotwords": "x" * 200}, "--hotwords has 200 tokens, this model takes 112"),
        ({"hotwords": "a#"}, "--hotwords 'a#' gives no plain tokens"),
        ({"hotwords": "  "}, "--hotwords is blank, expected some text"),
        ({"initial_prompt": ""}, "--initial-prompt is blank, expected some text"),
    ],
)
def test_impossible_prompts_are_refused(prompts: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        maker(**prompts)


def test_models_without_start_of_previous_take_no_prompt() -> None:
    with pytest.raises(OptionError, match=r"has no <\|startofprev\|> token"):
        maker(replace(TOY_TOKENS, sot_prev=None), hotwords="a")
