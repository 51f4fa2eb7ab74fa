"""Warnings about speech that got no text."""

from __future__ import annotations

from typing import Final

from whisper_hailo.cli.messages import print_line
from whisper_hailo.cli.progress import clock
from whisper_hailo.core.languages import language_name
from whisper_hailo.core.types import Transcript, UntranscribedSpeech

_MOST_LINES: Final = 5
"""A recording whose language the model does not know would fill the terminal."""

_REASONS: Final = {
    "unlikely": "no attempt was likely",
    "no_speech": "the model classified it as silence",
    "left_out": "the surrounding text skips it",
}


def warn_untranscribed(transcript: Transcript, name: str) -> None:
    """Print a line for each stretch of speech without text, the longest ones if there are many."""
    longest = sorted(
        transcript.untranscribed, key=lambda speech: speech.start_s - speech.end_s
    )[:_MOST_LINES]
    for speech in sorted(longest, key=lambda speech: speech.start_s):
        print_line(f"{name}: {describe_untranscribed(speech)}")
    n_more = len(transcript.untranscribed) - len(longest)
    if n_more:
        print_line(
            f"{name}: no text for {n_more} shorter stretches of speech; --format json has all"
        )


def describe_untranscribed(speech: UntranscribedSpeech) -> str:
    """Return why a stretch of speech has no text, and what to try."""
    times = f"{clock(speech.start_s)} to {clock(speech.end_s)}"
    reason = _REASONS[speech.reason]
    advice = ""
    if speech.language:
        advice = (
            f"; it may be {language_name(speech.language)}: try --detect-each-window"
        )
    return f"no text for speech from {times}: {reason}{advice}"
