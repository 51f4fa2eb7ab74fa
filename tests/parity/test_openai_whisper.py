"""Ours beside OpenAI Whisper on the same weights: windows of 30 s, float32."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import pytest

from tests.references import speech
from tests.references.cases import NO_THRESHOLDS, PROMPT, SEARCHES
from tests.shared import WHOLE_WINDOWS
from whisper_hailo import Transcriber
from whisper_hailo.core.types import FloatArray, Transcript
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions

torch = pytest.importorskip("torch", reason="parity with OpenAI Whisper needs torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs, not ours
    pytest.importorskip("numba", reason="OpenAI Whisper's alignment needs numba")
    whisper = pytest.importorskip(
        "whisper", reason="parity with OpenAI Whisper needs it"
    )
    from tests.parity import openai

pytestmark = openai.THEIR_WARNINGS

LOGPROB = 2e-4
"""Largest difference of a mean log-probability."""

N_CLIPS = int(os.environ.get("WHISPER_HAILO_PARITY_CLIPS", "3"))

PREFIX = "Good morning"

Clips: TypeAlias = list[tuple[FloatArray, Any, str]]


@pytest.fixture(scope="module")
def clips(theirs: Any) -> Callable[[str], Clips]:
    """A test set's first clips: samples, what OpenAI's encoder makes of them, text."""

    @cache
    def heard(folder: str) -> Clips:
        found = list(speech.clips(folder, N_CLIPS))
        with torch.no_grad():
            return [
                (audio, theirs.embed_audio(openai.mel_of(audio)[None])[0], text)
                for audio, text in found
            ]

    return heard


def only(transcript: Transcript) -> tuple[int, ...]:
    return tuple(token for segment in transcript.segments for token in segment.tokens)


@pytest.mark.parametrize("timestamps", [False, True], ids=["text", "timestamps"])
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    "prompts",
    [{}, {"prompt": PROMPT}, {"prefix": PREFIX}, {"prompt": PROMPT, "prefix": PREFIX}],
    ids=["plain", "prompt", "prefix", "both"],
)
def test_same_tokens(
    ours: Transcriber,
    theirs: Any,
    clips: Callable[[str], Clips],
    request: pytest.FixtureRequest,
    *,
    timestamps: bool,
    search: str,
    prompts: dict[str, str],
) -> None:
    if timestamps:
        request.getfixturevalue("knows_times")
    mine, yours = SEARCHES[search]
    options = DecodingOptions(
        timestamps=timestamps,
        search=mine,
        thresholds=NO_THRESHOLDS,
        prompts=PromptOptions(
            initial_prompt=prompts.get("prompt"), prefix=prompts.get("prefix")
        ),
    )
    reference = whisper.DecodingOptions(
        language="en", without_timestamps=not timestamps, fp16=False, **prompts, **yours
    )
    for audio, features, _ in clips("seen"):
        expected = whisper.decode(theirs, features, reference)
        # Seeking drops an unfinished segment at the end of a window, which decoding alone keeps.
        got = ours.transcribe(audio, options, long=WHOLE_WINDOWS)
        if not expected.text.strip():
            assert not got.text
            continue
        if not timestamps:
            assert only(got) == tuple(expected.tokens)
        else:
            whole = tuple(expected.tokens)
            assert whole[: len(only(got))] == only(got)
        segment = got.segments[0]
        assert segment.avg_logprob == pytest.approx(expected.avg_logprob, abs=LOGPROB)
        assert segment.no_speech_prob == pytest.approx(
            expected.no_speech_prob, abs=1e-4
        )
        assert segment.compression_ratio == pytest.approx(
            expected.compression_ratio, abs=1e-6
        )


@pytest.mark.parametrize("search", SEARCHES)
def test_translations_have_the_same_tokens(
    ours: Transcriber, theirs: Any, clips: Callable[[str], Clips], *, search: str
) -> None:
    mine, yours = SEARCHES[search]
    options = DecodingOptions(
        language="de", task="translate", search=mine, thresholds=NO_THRESHOLDS
    )
    reference = whisper.DecodingOptions(
        language="de", task="translate", without_timestamps=True, fp16=False, **yours
    )
    for audio, features, german in clips("phrases"):
        expected = whisper.decode(theirs, features, reference)
        got = ours.transcribe(audio, options, long=WHOLE_WINDOWS)
        assert only(got) == tuple(expected.tokens)
        assert got.text != german


def test_languages_have_the_same_probabilities(
    ours: Transcriber, theirs: Any, clips: Callable[[str], Clips]
) -> None:
    for audio, features, _ in clips("seen"):
        _, expected = whisper.detect_language(theirs, features)
        got = ours.transcribe(
            audio, DecodingOptions(language="auto"), long=WHOLE_WINDOWS
        ).language_probs
        assert next(iter(got)) == max(expected, key=lambda code: expected[code])
        assert got == pytest.approx(expected, abs=1e-4)
