"""Prompts: what is shown, and how much of it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TINY, TOY, TOY_TOKENS
from tests.fakes.scripted_decoder import ScriptedDecoder, State
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.decoding.prompt import (
    PromptMaker,
    detect_languages,
    replace_language,
    restrict_languages,
)
from whisper_hailo.text.tokenizer import Tokenizer

CONTROL = (11, 12, 14, 19)


class Letters:
    """One token per letter, all alike; `#` and `$`, the end of a transcript, are no plain text.

    Digits are themselves.
    """

    def encode(self, text: str, **_: object) -> Any:
        odd = {"#": 30, "$": TOY_TOKENS.eot, **{str(n): n for n in range(10)}}
        ids = [odd.get(letter, 1) for letter in text.strip()]
        return type("Encoding", (), {"ids": ids})()


def maker(tokens: Any = TOY_TOKENS, **prompts: Any) -> PromptMaker:
    options = DecodingOptions(prompts=PromptOptions(**prompts))
    return PromptMaker(Tokenizer(Letters(), tokens), TINY, options)  # type: ignore[arg-type]


def test_tokens_without_text_are_control_tokens() -> None:
    assert maker().tokens("en", (), is_first=True) == CONTROL


def test_tokens_with_hotwords_leave_them_out() -> None:
    prompt = maker(hotwords="ab", initial_prompt="c")
    assert prompt.starting_context() == (1,)
    assert prompt.tokens("en", (5, 6), is_first=True) == (17, 5, 6, *CONTROL)


def test_tokens_of_first_window_alone_have_prefix() -> None:
    prompt = maker(prefix="ab")
    assert prompt.tokens("en", (), is_first=True) == (*CONTROL, 1, 1)
    assert prompt.tokens("en", (), is_first=False) == CONTROL


def test_tokens_of_long_text_keep_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prompt = maker(initial_prompt="x" * 500)
    assert re.search(r"--initial-prompt .*\b500\b.*\b223\b", caplog.text)
    shown = prompt.tokens("en", tuple(range(2, 10)) * 100, is_first=True)
    assert len(shown) == 1 + 223 + len(CONTROL)
    assert shown[-5] == 9


def test_tokens_of_prompt_that_just_fits_are_complete(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Half the context but one for all that is shown before, a quarter for a prefix."""
    prompt = maker(initial_prompt="x" * 223, prefix="z" * 112)
    shown = prompt.tokens("en", prompt.starting_context(), is_first=True)
    assert shown == (17, *[1] * 223, *CONTROL, *[1] * 112)
    assert caplog.text == ""
    maker(initial_prompt="x" * 224)
    assert re.search(r"--initial-prompt .*\b224\b.*\b223\b", caplog.text)


@pytest.mark.parametrize("n_initial", [300, 223, 222, 216])
def test_tokens_of_carried_prompt_leave_room_for_text(n_initial: int) -> None:
    initial = ("23456789" * 40)[:n_initial]
    prompt = maker(initial_prompt=initial, carry_initial_prompt=True)
    shown = prompt.tokens("en", tuple(range(2, 10)) * 9, is_first=False)[1:-4]
    n_kept = min(n_initial, 223)
    generated = (tuple(range(2, 10)) * 9)[-(223 - n_kept) :] if n_kept < 223 else ()
    assert shown == (*map(int, initial[n_initial - n_kept :]), *generated)


def test_starting_context_of_prompt_is_stripped() -> None:
    assert maker(initial_prompt="  ab \n").starting_context() == (1, 1)


def test_tokens_of_carried_prompt_are_in_every_window() -> None:
    prompt = maker(initial_prompt="abcd", carry_initial_prompt=True)
    assert prompt.starting_context() == ()
    assert prompt.tokens("en", (5, 5), is_first=False) == (
        17,
        1,
        1,
        1,
        1,
        5,
        5,
        *CONTROL,
    )
    without = maker(carry_initial_prompt=True)
    assert without.tokens("en", (5, 5), is_first=False) == (17, 5, 5, *CONTROL)


@pytest.mark.parametrize(
    ("prompts", "pattern"),
    [
        ({"prefix": "x" * 200}, r"--prefix .*\b200\b.*\b112\b"),
        ({"prefix": "x" * 113}, r"--prefix .*\b113\b.*\b112\b"),
        ({"prefix": "a#"}, r"--prefix 'a#'"),
        ({"prefix": "a$"}, r"--prefix 'a\$'"),
        ({"prefix": "a\udcff"}, r"--prefix 'a\\udcff'"),
        (
            {"initial_prompt": "\ud800"},
            r"--initial-prompt '\\ud800'",
        ),
        (
            {"initial_prompt": "\udfff"},
            r"--initial-prompt '\\udfff'",
        ),
        ({"hotwords": "  "}, "--hotwords .*blank"),
        ({"initial_prompt": ""}, "--initial-prompt .*blank"),
    ],
)
def test_prompt_maker_refuses_impossible_prompts(
    prompts: dict[str, str], pattern: str
) -> None:
    with pytest.raises(OptionError, match=pattern):
        maker(**prompts)


@pytest.mark.parametrize(
    "prompts", [{"initial_prompt": "a"}, {"condition_on_previous_text": True}]
)
def test_prompt_maker_without_sot_prev_refuses_prompts(prompts: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="startofprev"):
        maker(replace(TOY_TOKENS, sot_prev=None), **prompts)


def test_tokens_without_sot_prev_omit_previous_text() -> None:
    prompt = maker(replace(TOY_TOKENS, sot_prev=None), prefix="ab")
    assert prompt.tokens("en", (5, 6), is_first=True) == (*CONTROL, 1, 1)


def test_tokens_with_timestamps_omit_no_timestamps_id() -> None:
    options = DecodingOptions(timestamps=True)
    prompt = PromptMaker(Tokenizer(Letters(), TOY_TOKENS), TINY, options)  # type: ignore[arg-type]
    assert prompt.tokens("en", (), is_first=True) == CONTROL[:-1]


class Loud(ScriptedDecoder):
    """Each row's script is its logits of English and German."""

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        logits = np.zeros((len(tokens), 1, TOY.n_vocab), np.float32)
        for row, of in enumerate(self.scripts):
            logits[row, 0, [TOY_TOKENS.languages[code] for code in ("en", "de")]] = of
        return StepOutput(logits, np.zeros(logits.shape[:2], np.float32)), state


def test_detect_languages_at_any_height_sums_to_one() -> None:
    """`exp` of 1000 is no number, that of -1000 nothing; 1 more is 0.731 of both."""
    decoder = Loud([[1000, 1001], [-1000, -1001], [0, 1000]])
    found = detect_languages(decoder, decoder.start(), TOY_TOKENS)  # type: ignore[arg-type]
    more = 1 / (1 + np.exp(-1.0))
    assert [list(row) for row in found] == [["de", "en"], ["en", "de"], ["de", "en"]]
    assert found[0] == pytest.approx({"de": more, "en": 1 - more})
    assert found[1] == pytest.approx({"en": more, "de": 1 - more})
    assert found[2] == {"de": 1.0, "en": 0.0}


def test_restrict_languages_shares_the_probability_of_some() -> None:
    probs = {"de": 0.6, "en": 0.3, "fr": 0.1}
    assert restrict_languages(probs, ("fr", "en")) == pytest.approx(
        {"en": 0.75, "fr": 0.25}
    )
    assert next(iter(restrict_languages(probs, ("fr", "en")))) == "en"
    assert restrict_languages(probs, ()) == restrict_languages(probs, ("xx",)) == probs
    assert restrict_languages({"de": 1.0, "en": 0.0, "fr": 0.0}, ("en", "fr")) == {
        "en": 0.5,
        "fr": 0.5,
    }


def test_replace_language_keeps_the_rest_of_a_prompt() -> None:
    special = TOY_TOKENS
    languages = list(special.languages)
    prompt = (
        special.sot_prev,
        3,
        special.sot,
        special.languages[languages[0]],
        special.transcribe,
    )
    changed = replace_language(prompt, special, languages[1])
    assert changed == (*prompt[:3], special.languages[languages[1]], special.transcribe)


def test_detect_languages_ranks_the_languages_only() -> None:
    decoder = ScriptedDecoder([[13], [12], [9]])
    first, second, third = detect_languages(decoder, decoder.start(), TOY_TOKENS)  # type: ignore[arg-type]
    assert list(first) == ["de", "en"]
    assert list(second) == ["en", "de"]
    assert first["de"] == pytest.approx(np.exp(4) / (np.exp(4) + 1), abs=1e-6)
    assert third == {"en": 0.5, "de": 0.5}
    assert decoder.fed == [[[TOY_TOKENS.sot]] * 3]


def test_detect_languages_of_english_model_needs_no_step() -> None:
    decoder = ScriptedDecoder([[1]])
    english = replace(TOY_TOKENS, languages={})
    assert detect_languages(decoder, decoder.start(), english) == ({"en": 1.0},)  # type: ignore[arg-type]
    assert decoder.fed == []
