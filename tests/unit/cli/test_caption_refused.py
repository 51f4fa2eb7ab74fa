"""Options that an engine does not honour are refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whisper_hailo.cli.caption_options import refuse_unhonoured
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.options import (
    PRESETS,
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
    TokenLimits,
    WordOptions,
)

NOTHING: frozenset[str] = frozenset()


def test_what_nobody_asked_for_is_not_refused() -> None:
    refuse_unhonoured(DecodingOptions(), NOTHING, "engine")
    refuse_unhonoured(DecodingOptions(search=SearchOptions(seed=0)), NOTHING, "engine")


@pytest.mark.parametrize(
    ("options", "named", "field"),
    [
        (DecodingOptions(language="de"), "--language de", "language"),
        (DecodingOptions(max_new_tokens=9), "max-new-tokens 9", "max_new_tokens"),
        (DecodingOptions(timestamps=True), "--timestamps True", "timestamps"),
        (
            DecodingOptions(anti_repetition=AntiRepetition(pad_to=700)),
            "pad-to 700",
            "anti_repetition.pad_to",
        ),
        (DecodingOptions(search=SearchOptions(beam_size=5)), "--beam-size 5", "search.beam_size"),
        (
            DecodingOptions(limits=TokenLimits(no_repeat_ngram=3)),
            "no-repeat-ngram 3",
            "limits.no_repeat_ngram",
        ),
        (DecodingOptions(words=WordOptions()), "--word-timestamps WordOptions", "words"),
    ],
)
def test_option_that_engine_does_not_know_is_refused_by_its_name(
    options: DecodingOptions, named: str, field: str
) -> None:
    with pytest.raises(OptionError) as caught:
        refuse_unhonoured(options, NOTHING, "engine")
    assert str(caught.value).startswith(f"engine cannot honour {named}")
    assert str(caught.value).endswith("leave it out")
    refuse_unhonoured(options, frozenset({field}), "engine")


def test_each_option_of_a_group_is_looked_at_by_itself() -> None:
    """A preset asks for three things, of which an engine may know some."""
    options = DecodingOptions(anti_repetition=PRESETS["balanced"])
    known = frozenset({"anti_repetition.pad_to", "anti_repetition.repetition_penalty"})
    with pytest.raises(OptionError, match=r"eot-boost 0\.2"):
        refuse_unhonoured(options, known, "engine")
    refuse_unhonoured(options, known | {"anti_repetition.eot_boost"}, "engine")
    with pytest.raises(OptionError, match="--language de"):
        refuse_unhonoured(
            replace(options, language="de"), known | {"anti_repetition.eot_boost"}, "engine"
        )
