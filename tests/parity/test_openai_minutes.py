"""Ours beside OpenAI Whisper on the same weights: minutes of speech, window after window."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.references import speech
from tests.references.cases import PROMPT
from whisper_hailo import Transcriber
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.options import (
    DecodingOptions,
    PromptOptions,
    SearchOptions,
)
from whisper_hailo.decoding.search import attempt_choice, fallback, greedy
from whisper_hailo.decoding.search.loop import DecodingLoop
from whisper_hailo.decoding.search.sampling import SampledChoice
from whisper_hailo.transcription.longform.options import LongOptions

pytest.importorskip("torch", reason="parity with OpenAI Whisper needs torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs, not ours
    pytest.importorskip("numba", reason="OpenAI Whisper's alignment needs numba")
    whisper = pytest.importorskip(
        "whisper", reason="parity with OpenAI Whisper needs it"
    )
    from tests.parity import openai

pytestmark = openai.THEIR_WARNINGS

WORD_S = 0.1
"""Largest difference of a word's start."""

ASTRAY_S = min(openai.LONG_S, 45.0)
"""Of the cases in which text goes astray: both programs then step 0.02 to 0.04 s at a time."""


@pytest.fixture
def same_mel(monkeypatch: pytest.MonkeyPatch) -> None:
    openai.hear_as_ours(monkeypatch)


@pytest.fixture
def no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both programs draw the likeliest token, for their generators cannot draw the same."""
    monkeypatch.setattr(
        sys.modules["whisper.decoding"], "Categorical", openai.Likeliest
    )
    monkeypatch.setattr(
        SampledChoice, "draw_token", lambda _, logits, __: int(logits.argmax())
    )


@pytest.fixture
def their_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last temperature's text is taken as it is, and nothing is stopped for its price."""
    monkeypatch.setattr(
        attempt_choice, "choose_attempt", lambda attempts, _: attempts[-1]
    )
    monkeypatch.setattr(fallback, "bound_retry", lambda *_: None)
    monkeypatch.setattr(greedy, "ends_in_loop", lambda _: False)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, ...]]:
    """What our decoder was fed before each window's text; windows go by their first frame."""
    fed: dict[int, tuple[int, ...]] = {}
    decode = DecodingLoop.decode_tokens

    def remember(loop: DecodingLoop, state: Any, tasks: Any, *more: Any) -> Any:
        fed.update((task.key, task.prompt) for task in tasks)
        return decode(loop, state, tasks, *more)

    monkeypatch.setattr(DecodingLoop, "decode_tokens", remember)
    return fed


def both(
    ours: Transcriber,
    theirs: Any,
    audio: Any,
    options: DecodingOptions,
    long: LongOptions,
    **reference: Any,
) -> tuple[Transcript, dict[str, Any]]:
    expected = whisper.transcribe(
        theirs, audio, language="en", fp16=False, verbose=None,
        temperature=options.search.temperatures, **reference,
    )  # fmt: skip
    whole = replace(long, trim_window=False, skip_silence=False)
    return ours.transcribe(audio, options, long=whole), expected


ONCE = (0.0,)
TWICE = (0.0, 1.0)
"""Schedules of temperatures. A window of doubtful text is tried twice, as the command does: what
comes of the second try is not shown to the next window, which brings text that its own past led
astray back to what is said. Tried once, it stays astray to the end."""


PASTS = {
    "alone": (False, ONCE, openai.LONG_S),
    "conditioned": (True, TWICE, openai.LONG_S),
    "astray": (True, ONCE, ASTRAY_S),
}
"""What each window is shown of the text before, its temperatures, and seconds of audio."""


def minutes() -> Iterator[Any]:
    """Any two of past, words and search meet in a minute; longer ones have all three."""
    for past, words, beam_size in itertools.product(PASTS, (False, True), (1, 5)):
        if openai.LONG_S > 60 or (words == (beam_size == 5)) == (past != "conditioned"):
            name = (
                "words" if words else "segments",
                "beam" if beam_size > 1 else "greedy",
            )
            yield pytest.param(
                *PASTS[past], words, beam_size, id="-".join((past, *name))
            )


@pytest.mark.usefixtures("same_mel", "knows_times", "no_chance", "their_fallback")
@pytest.mark.parametrize(
    ("conditioned", "temperatures", "duration_s", "words", "beam_size"), [*minutes()]
)
def test_minutes_by_timestamps(
    ours: Transcriber,
    theirs: Any,
    shown: dict[int, tuple[int, ...]],
    *,
    conditioned: bool,
    temperatures: tuple[float, ...],
    duration_s: float,
    words: bool,
    beam_size: int,
) -> None:
    options = DecodingOptions(
        timestamps=True,
        prompts=PromptOptions(
            condition_on_previous_text=conditioned, initial_prompt=PROMPT
        ),
        word_timestamps=words,
        search=SearchOptions(
            beam_size=beam_size, retry_beam_size=1, temperatures=temperatures, best_of=1
        ),
    )
    audio = speech.minutes(duration_s)
    got, expected = both(
        ours, theirs, audio, options, LongOptions(strategy="seek"),
        condition_on_previous_text=conditioned, initial_prompt=PROMPT, word_timestamps=words,
        beam_size=beam_size,
    )  # fmt: skip
    other = tokens_of_other_windows(got, expected) if beam_size == 1 else {}
    assert len(other) <= round(duration_s / 600)
    for at, texts in other.items():
        assert at in shown, f"only one program has a window at frame {at}: {texts}"
        mel = openai.WindowMel(audio)[:, at : at + 3000]
        assert openai.distance(theirs, mel, shown[at], texts) < openai.TIE
    the_same_segments(got, expected, words=words, but_of=set(other))


def tokens_of_other_windows(
    got: Transcript, expected: dict[str, Any]
) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each window of which the texts differ, ours and theirs."""
    mine: dict[int, tuple[int, ...]] = defaultdict(tuple)
    yours: dict[int, tuple[int, ...]] = defaultdict(tuple)
    for segment in got.segments:
        mine[round(segment.window_start_s * 100)] += segment.tokens
    for segment in expected["segments"]:
        if segment["text"].strip():
            yours[segment["seek"]] += tuple(segment["tokens"])
    return {
        at: (mine[at], yours[at])
        for at in sorted(mine | yours)
        if mine[at] != yours[at]
    }


def the_same_segments(
    got: Transcript,
    expected: dict[str, Any],
    *,
    words: bool,
    but_of: Collection[int] = (),
) -> None:
    reference = [
        segment
        for segment in expected["segments"]
        if segment["text"].strip() and segment["seek"] not in but_of
    ]
    segments = [s for s in got.segments if round(s.window_start_s * 100) not in but_of]
    assert [s.text for s in segments] == [s["text"].strip() for s in reference]
    assert [s.start_s for s in segments] == pytest.approx(
        [s["start"] for s in reference], abs=WORD_S
    )
    assert [round(s.window_start_s * 100) for s in segments] == [
        s["seek"] for s in reference
    ]
    assert [s.temperature for s in segments] == [s["temperature"] for s in reference]
    if words:
        starts = [word.start_s for segment in segments for word in segment.words]
        reference_starts = [
            word["start"] for segment in reference for word in segment["words"]
        ]
        assert starts == pytest.approx(reference_starts, abs=WORD_S)
        spelled = [word.text for segment in segments for word in segment.words]
        assert spelled == [
            word["word"] for segment in reference for word in segment["words"]
        ]


@pytest.mark.usefixtures("same_mel")
def test_minutes_without_timestamps(ours: Transcriber, theirs: Any) -> None:
    got, expected = both(
        ours, theirs, speech.minutes(openai.LONG_S), DecodingOptions(language="en"),
        LongOptions(strategy="consecutive"),
        without_timestamps=True, condition_on_previous_text=False,
    )  # fmt: skip
    found: dict[int, list[str]] = defaultdict(list)
    for segment in got.segments:  # sentences of each window
        found[round(segment.window_start_s * 100)].append(segment.text)
    reference = {
        s["seek"]: s["text"].strip() for s in expected["segments"] if s["text"].strip()
    }
    assert {frame: " ".join(texts) for frame, texts in found.items()} == reference
