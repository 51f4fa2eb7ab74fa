"""Warnings about speech that got no text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.results import transcript
from whisper_hailo.cli.untranscribed import describe_untranscribed, warn_untranscribed
from whisper_hailo.core.types import UntranscribedSpeech


def test_warn_untranscribed_lists_the_five_longest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    speech = tuple(
        UntranscribedSpeech(20.0 * n, 20.0 * n + 2 + n, "unlikely") for n in range(7)
    )
    warn_untranscribed(replace(transcript(), untranscribed=speech), "a.wav")
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("a.wav: ") for line in lines)
    assert len(lines) == 6
    assert "0:40 to 0:44" in lines[0]  # the two shortest ones are only counted
    assert " 2 " in lines[-1]


def test_warn_untranscribed_without_any_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warn_untranscribed(transcript(), "a.wav")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("language", ["", "fr"])
def test_describe_untranscribed_suggests_other_language(language: str) -> None:
    speech = UntranscribedSpeech(61.0, 65.0, "no_speech", language)
    text = describe_untranscribed(speech)
    assert "1:01 to 1:05" in text
    assert ("French" in text) is bool(language)
    assert ("--detect-each-window" in text) is bool(language)
