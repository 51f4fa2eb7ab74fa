"""Ours beside faster-whisper on the same weights and the same full windows, float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("faster_whisper", reason="parity with faster-whisper needs it")
pytest.importorskip("torch", reason="the parity tests' clips come with a model of torch's")

from faster_whisper import WhisperModel

from tests.parity import openai
from whisper_hailo import Transcriber
from whisper_hailo.bench.formats.ctranslate2 import write_ctranslate2
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.option_groups import Gates, Prompts, Search, WordOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.features import pad_or_trim
from whisper_hailo.longform.plan import LongOptions

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

WORD_S = 0.1
"""Largest difference of a word's start."""

N_CLIPS = 5
NO_GATES = Gates(no_speech=None, logprob=None, compression_ratio=None)
PROMPT = "Peter and Emma talked about their journey to Vienna."
GREEDY = {
    "beam_size": 1,
    "best_of": 1,
    "temperature": 0.0,
    "condition_on_previous_text": False,
    "no_speech_threshold": None,
    "log_prob_threshold": None,
    "compression_ratio_threshold": None,
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("faster") / "micro"
    write_ctranslate2(openai.CHECKPOINT, out)
    return WhisperModel(str(out), device="cpu", compute_type="float32", cpu_threads=1)


@pytest.fixture(scope="module")
def ours() -> Iterator[Transcriber]:
    with Transcriber.from_model(str(openai.CHECKPOINT), window_s=30, threads=1) as transcriber:
        yield transcriber


def windows(n_clips: int = N_CLIPS) -> list[Any]:
    """Clips filled up with silence to whole windows.

    faster-whisper would fill up the log-mel instead, with zeros, which no silence gives.
    """
    return [pad_or_trim(audio, 480_000) for audio, _ in openai.clips("seen", n_clips)]


def said(theirs: Any, audio: Any, **options: Any) -> list[Any]:
    segments, _ = theirs.transcribe(audio, language="en", **{**GREEDY, **options})
    return list(segments)


def heard(ours: Transcriber, audio: Any, **options: Any) -> Transcript:
    plan = LongOptions(strategy="seek" if options.get("timestamps") else "consecutive")
    return ours.transcribe(audio, DecodingOptions(gates=NO_GATES, **options), long=plan)


@pytest.mark.parametrize("timestamps", [False, True], ids=["text", "timestamps"])
@pytest.mark.parametrize("beam_size", [1, 5], ids=["greedy", "beam"])
@pytest.mark.parametrize("prompt", [None, PROMPT], ids=["plain", "prompt"])
def test_the_same_text(
    ours: Transcriber, theirs: Any, *, timestamps: bool, beam_size: int, prompt: str | None
) -> None:
    for audio in windows():
        expected = said(
            theirs, audio, beam_size=beam_size, without_timestamps=not timestamps,
            initial_prompt=prompt,
        )  # fmt: skip
        got = heard(
            ours, audio, timestamps=timestamps, search=Search(beam_size=beam_size),
            prompts=Prompts(initial_prompt=prompt),
        )  # fmt: skip
        if timestamps:
            assert got.text == " ".join(segment.text.strip() for segment in expected).strip()
            assert [s.start_s for s in got.segments] == pytest.approx([s.start for s in expected])
        else:
            # Where micro writes times unasked, they seek by them; ours takes the window as one.
            begin = ours.tokenizer.special.timestamp_begin
            first = [token for s in expected if s.seek == 0 for token in s.tokens]
            whole = [token for segment in got.segments for token in segment.tokens]
            assert whole[: len(first)] == first
            assert len(whole) == len(first) or any(token >= begin for token in whole)


def test_words_begin_where_theirs_do(ours: Transcriber, theirs: Any) -> None:
    n_words = 0
    for audio in windows(8):
        expected = [w for s in said(theirs, audio, word_timestamps=True) for w in s.words]
        got = [
            word
            for segment in heard(ours, audio, timestamps=True, words=WordOptions()).segments
            for word in segment.words
        ]
        assert [word.text for word in got] == [word.word for word in expected]
        starts = np.array([[a.start_s, b.start] for a, b in zip(got, expected, strict=True)])
        assert np.abs(starts[:, 0] - starts[:, 1]).max(initial=0.0) <= WORD_S
        n_words += len(got)
    assert n_words > 40


def test_the_same_language(ours: Transcriber, theirs: Any) -> None:
    for audio in windows(3):
        language, probability, _ = theirs.detect_language(audio)
        got = ours.transcribe(audio, DecodingOptions(language="auto"))
        assert got.language == language
        assert got.language_probs[language] == pytest.approx(probability, abs=1e-4)
