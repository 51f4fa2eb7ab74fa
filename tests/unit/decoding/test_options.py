"""Options of decoding: ranges, defaults, names, and aliases of other programs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import pytest

from tests.fakes.model_sizes import TINY
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag_of, option_name
from whisper_hailo.decoding.options import (
    DEFAULT_TEMPERATURES,
    FALLBACK_STEP,
    FIXED_ANTI_REPETITION,
    PADDINGS,
    PRESETS,
    AntiRepetition,
    DecodingOptions,
    PromptOptions,
    SearchOptions,
    Thresholds,
    TokenLimits,
    preset_of,
    rising_temperatures,
)
from whisper_hailo.decoding.search.beam_retry import is_beam_retry_enabled


def test_presets_match_the_study() -> None:
    figures = {
        name: (
            anti_repetition.padding(TINY).pad_to,
            anti_repetition.repetition_penalty,
            anti_repetition.eot_boost,
        )
        for name, anti_repetition in PRESETS.items()
    }
    assert figures == {
        "conservative": (1500, 1.0, 0.0),
        "balanced": (700, 1.1, 0.2),
        "aggressive": (500, 1.2, 0.5),
    }


def test_default_preset_is_conservative() -> None:
    assert DecodingOptions().anti_repetition is PRESETS["conservative"]


def test_fixed_anti_repetition_is_penalty_of_study() -> None:
    assert AntiRepetition(repetition_penalty=1.5) == FIXED_ANTI_REPETITION


def test_preset_of_unknown_name_lists_known_ones() -> None:
    with pytest.raises(OptionError, match="conservative"):
        preset_of("bold")


def test_padding_beyond_context_is_refused() -> None:
    assert AntiRepetition(pad_to=0).padding(TINY).n_added(500) == 0
    with pytest.raises(OptionError, match="1500"):
        AntiRepetition(pad_to=1501).padding(TINY)


def test_padding_shorter_than_audio_adds_nothing() -> None:
    assert AntiRepetition(pad_to=500).padding(TINY).n_added(1500) == 0
    assert AntiRepetition(pad_to=700).padding(TINY).n_added(500) == 200


def test_budget_is_half_the_text_context_at_most() -> None:
    assert DecodingOptions().budget(TINY, 4) == 224
    assert DecodingOptions(max_new_tokens=28).budget(TINY, 4) == 28
    assert DecodingOptions(max_new_tokens=1000).budget(TINY, 4) == 444


ACCEPTED_AND_REFUSED: list[tuple[type, str, list[object], list[object]]] = [
    (SearchOptions, "beam_size", [1, 64], [0, 65]),
    (SearchOptions, "retry_beam_size", [1, 64], [0, 65]),
    (SearchOptions, "best_of", [1, 64], [0, 65]),
    (SearchOptions, "patience", [0.01, 1.0, 100.0], [0.0, -1.0, 100.1, math.nan]),
    (SearchOptions, "length_penalty", [None, 0.0, 1.0], [-0.1, 1.1, math.nan]),
    (SearchOptions, "seed", [0, 1], [-1]),
    (Thresholds, "no_speech", [None, 0.0, 1.0], [math.nan, math.inf]),
    (Thresholds, "logprob", [None, -9.0], [math.nan, -math.inf]),
    (Thresholds, "compression_ratio", [None, 2.4], [math.nan, math.inf]),
    (TokenLimits, "no_repeat_ngram", [0, 3], [-1]),
    (TokenLimits, "max_per_second", [None, 0.1, 20.0], [0.0, -1.0, math.inf, math.nan]),
    (AntiRepetition, "pad_to", [None, 0, 1500], [-1]),
    (
        AntiRepetition,
        "repetition_penalty",
        [1.0, 9.0, 1000.0],
        [0.99, 1000.1, math.nan, math.inf],
    ),
    (AntiRepetition, "eot_boost", [0.0, 9.0, 1000.0], [-0.01, 1000.1, math.nan]),
    (
        DecodingOptions,
        "max_initial_timestamp_s",
        [None, 0.0, 30.0],
        [-0.1, math.nan, math.inf],
    ),
    (DecodingOptions, "max_new_tokens", [None, 1, 9], [0, -1]),
]


@pytest.mark.parametrize(
    ("group", "name", "values", "fits"),
    [
        (group, name, values, fits)
        for group, name, accepted, refused in ACCEPTED_AND_REFUSED
        for values, fits in ((accepted, True), (refused, False))
    ],
)
def test_numeric_options_accept_their_stated_range(
    group: type, name: str, values: list[object], fits: bool
) -> None:
    (option,) = (option for option in fields(group) if option.name == name)
    for value in values:
        if fits:
            assert getattr(group(**{name: value}), name) == value
        else:
            with pytest.raises(OptionError, match=option_name(option)):
                group(**{name: value})


@pytest.mark.parametrize("temperatures", [(0.0,), (2.0,), (0.0, 1.0)])
def test_search_options_accept_temperatures_up_to_two(
    temperatures: tuple[float, ...],
) -> None:
    assert SearchOptions(temperatures=temperatures).temperatures == temperatures


@pytest.mark.parametrize(
    ("temperatures", "value"),
    [((), "empty"), ((-0.1,), r"-0\.1"), ((0.0, 2.1, -1.0), r"2\.1, -1")],
)
def test_search_options_other_temperatures_are_refused(
    temperatures: tuple[float, ...], value: str
) -> None:
    with pytest.raises(OptionError, match=f"--temperature .*{value}"):
        SearchOptions(temperatures=temperatures)


@pytest.mark.parametrize(
    ("per_second", "content_s", "tokens"),
    [
        *((2.0, 1.5, 3), (2.0, 1.6, 4), (0.1, 1.0, 1), (2.0, 0.0, 1)),
        *((1000.0, 30.0, 224), (2.0, None, 224), (None, 1.5, 224)),
    ],
)
def test_budget_with_tokens_per_second_is_bounded(
    per_second: float | None, content_s: float | None, tokens: int
) -> None:
    """Rounded up, one at least, and never more than there is without them."""
    options = DecodingOptions(limits=TokenLimits(max_per_second=per_second))
    assert options.budget(TINY, 4, content_s) == tokens


def test_budget_by_default_is_20_tokens_per_second() -> None:
    assert DecodingOptions().budget(TINY, 4, 3.0) == 60
    assert DecodingOptions().budget(TINY, 4, 3.01) == 61
    assert DecodingOptions().budget(TINY, 4, 30.0) == 224, "half the text context"
    assert DecodingOptions(max_new_tokens=28).budget(TINY, 4, 3.0) == 28


@pytest.mark.parametrize(
    ("first", "step", "temperatures"),
    [
        (0.0, 0.2, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (0.0, FALLBACK_STEP, DEFAULT_TEMPERATURES),
        (0.0, 0.4, (0.0, 0.4, 0.8)),
        (0.0, 0.1, tuple(n / 10 for n in range(11))),
        (0.0, 0.3, (0.0, 0.3, 0.6, 0.9)),
        (0.0, 1 / 3, (0.0, 0.333, 0.667, 1.0)),
        (0.5, 0.125, (0.5, 0.625, 0.75, 0.875, 1.0)),
        (0.0, 1.0, (0.0, 1.0)),
        (0.0, 1.1, (0.0,)),
        (0.8, 0.2, (0.8, 1.0)),
        (0.9, 0.2, (0.9,)),
        (1.0, 0.2, (1.0,)),
        (1.5, 0.2, (1.5,)),
        (0.4, 0.0, (0.4,)),
        (-0.5, 0.2, (-0.5,)),
    ],
)
def test_rising_temperatures_rise_by_step_up_to_one(
    first: float, step: float, temperatures: tuple[float, ...]
) -> None:
    """Like OpenAI Whisper's command; a value that is no temperature is refused later."""
    assert rising_temperatures(first, step) == temperatures


def test_language_name_becomes_its_code() -> None:
    assert DecodingOptions(language="German").language == "de"
    assert DecodingOptions(language="DE").language == "de"


def test_unknown_task_is_refused() -> None:
    assert DecodingOptions(task="translate").task == "translate"
    with pytest.raises(OptionError, match=r"--task .*'listen'"):
        DecodingOptions(task="listen")


@pytest.mark.parametrize("language", ["de", "German"])
def test_detect_each_window_with_language_is_refused(language: str) -> None:
    assert DecodingOptions(detect_each_window=True).detect_each_window
    with pytest.raises(OptionError, match="--detect-each-window"):
        DecodingOptions(language=language, detect_each_window=True)


def test_defaults_match_openai_whisper() -> None:
    """`DecodingOptions` of OpenAI Whisper, and the thresholds of its `transcribe`."""
    options = DecodingOptions()
    assert (options.language, options.task, options.max_initial_timestamp_s) == (
        "auto",
        "transcribe",
        1.0,
    )
    assert options.thresholds == Thresholds(
        no_speech=0.6, logprob=-1.0, compression_ratio=2.4
    )
    # That there is a limit is ours.
    assert options.limits == TokenLimits(
        suppress=None, suppress_blank=True, no_repeat_ngram=0, max_per_second=20.0
    )
    search = SearchOptions(
        (0.0,), beam_size=1, patience=1.0, length_penalty=None, best_of=5
    )
    assert options.search == search
    assert not is_beam_retry_enabled(search)


def test_default_prompts_show_no_previous_text() -> None:
    prompts = DecodingOptions().prompts
    assert (prompts.condition_on_previous_text, prompts.carry_initial_prompt) == (
        False,
        False,
    )


def options_of(kind: type) -> Iterator[Field[Any]]:
    """Yield the fields that have a flag, at any depth."""
    for option in fields(kind):
        if flag_of(option) is not None:
            yield option
        elif option.default_factory is not MISSING and is_dataclass(
            option.default_factory
        ):
            yield from options_of(option.default_factory)  # type: ignore[arg-type]


def options_by_name() -> dict[str, Field[Any]]:
    """Return the fields of all decoding options by name."""
    groups = (DecodingOptions, AntiRepetition)
    return {option.name: option for group in groups for option in options_of(group)}


ALL = tuple(options_by_name())

OTHER_NAMES = {
    "language": ("-l",),
    "logprob": ("--log-prob-threshold",),
    "no_repeat_ngram": ("--no-repeat-ngram-size",),
    "initial_prompt": ("--prompt",),
}
"""Option names of OpenAI Whisper, faster-whisper and whisper.cpp."""

TYPED = {
    "anti_repetition": "--preset",
    "max_initial_timestamp_s": "--max-initial-timestamp",
    "no_speech": "--no-speech-threshold",
    "logprob": "--logprob-threshold",
    "compression_ratio": "--compression-ratio-threshold",
    "suppress": "--suppress-tokens",
    "max_per_second": "--max-tokens-per-second",
}
"""Option names that differ from the field's own."""


def option_flag(name: str) -> Any:
    return flag_of(options_by_name()[name])


@pytest.mark.parametrize("name", ALL)
def test_options_have_aliases_of_other_programs(name: str) -> None:
    own = TYPED.get(name, "--" + name.replace("_", "-"))
    assert option_name(options_by_name()[name]) == own
    short = (option_flag(name).short,) if option_flag(name).short else ()
    assert (*short, *option_flag(name).also) == OTHER_NAMES.get(name, ())


def test_option_names_are_unique() -> None:
    names = [
        spelling
        for name in ALL
        for spelling in (option_name(options_by_name()[name]), *option_flag(name).also)
    ]
    assert len(set(names)) == len(names)
    assert set(OTHER_NAMES) | set(TYPED) <= set(ALL)


def test_choices_are_listed_and_parsed() -> None:
    choices = {
        name: option_flag(name).choices for name in ALL if option_flag(name).choices
    }
    tasks = ("transcribe", "translate")
    assert choices == {
        "task": tasks,
        "pad_with": PADDINGS,
        "anti_repetition": tuple(PRESETS),
    }
    assert option_flag("anti_repetition").parse("balanced") == PRESETS["balanced"]


@pytest.mark.parametrize(
    "name", ["no_speech", "logprob", "compression_ratio", "max_initial_timestamp_s"]
)
def test_thresholds_parse_none_as_off(name: str) -> None:
    assert option_flag(name).parse("none") is None
    assert option_flag(name).parse("None ") is None
    assert option_flag(name).parse("0.5") == 0.5
    with pytest.raises(ValueError, match="none"):
        option_flag(name).parse("off")


@pytest.mark.parametrize(
    ("typed", "ids"),
    [("5", (5,)), ("5,6", (5, 6)), (" 7 , 8,", (7, 8)), ("0", (0,)), ("", ()), ("-1", None),
     ("-1,5", None)],
)  # fmt: skip
def test_suppress_parses_comma_separated_ids(
    typed: str, ids: tuple[int, ...] | None
) -> None:
    """-1 is the model's own list, as in OpenAI Whisper."""
    assert option_flag("suppress").parse(typed) == ids


@pytest.mark.parametrize("typed", ["-2", "5,-2", "a", "5;6", "1.5"])
def test_suppress_refuses_what_is_no_id(typed: str) -> None:
    with pytest.raises(ValueError, match="id"):
        option_flag("suppress").parse(typed)


@pytest.mark.parametrize(
    ("given", "language", "languages"),
    [
        ("German, en,de", "de,en", ("de", "en")),
        (["fr", "nl"], "fr,nl", ("fr", "nl")),
        ("de", "de", ("de",)),
        ("auto", "auto", ()),
    ],
)
def test_several_languages_become_their_codes(
    given: Any, language: str, languages: tuple[str, ...]
) -> None:
    options = DecodingOptions(language=given)
    assert (options.language, options.languages) == (language, languages)
    assert options.detects_each is (len(languages) > 1)
    assert options.fixed_language == (languages[0] if len(languages) == 1 else "auto")


def test_auto_among_languages_is_refused() -> None:
    with pytest.raises(OptionError, match="--language"):
        DecodingOptions(language="de,auto")


@pytest.mark.parametrize("hotwords", ["", " ", ["a", "b"], 3])
def test_prompt_options_without_text_are_refused(hotwords: Any) -> None:
    with pytest.raises(OptionError):
        PromptOptions(hotwords=hotwords)
