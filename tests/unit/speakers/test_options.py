"""Numbers of speakers as users write them."""

from __future__ import annotations

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.speakers.options import (
    MAX_SPEAKERS,
    SpeakerCount,
    parse_speaker_count,
)


@pytest.mark.parametrize(
    ("text", "fewest", "most"), [("auto", 1, MAX_SPEAKERS), ("2", 2, 2), ("2-5", 2, 5)]
)
def test_parse_speaker_count_gives_bounds(text: str, fewest: int, most: int) -> None:
    assert parse_speaker_count(text) == SpeakerCount(fewest, most)


@pytest.mark.parametrize("text", ["", "0", "5-2", "two", "-3", "2-", "1-99", "2.5"])
def test_parse_speaker_count_refuses_other_text(text: str) -> None:
    with pytest.raises(OptionError):
        parse_speaker_count(text)
