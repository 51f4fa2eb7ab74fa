"""Ours beside faster-whisper on the same weights and the same full windows, float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("faster_whisper", reason="parity with faster-whisper needs it")
pytest.importorskip(
    "torch", reason="the parity tests' clips come with a model of torch's"
)

from tests.parity import faster, openai
from tests.parity.faster import said
from tests.references import speech
from tests.references.cases import NO_THRESHOLDS, PROMPT
from tests.shared import WHOLE_WINDOWS
from whisper_hailo import Transcriber
from whisper_hailo.audio.log_mel import pad_or_trim
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import (
    DecodingOptions,
    PromptOptions,
    SearchOptions,
)
from whisper_hailo.decoding.search.hypothesis import Hypothesis
from whisper_hailo.decoding.search.retry_bound import RetryBound

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

WORD_S = 0.1
"""Largest difference of a word's start."""

BEAM_S = min(openai.LONG_S, 300.0)
"""Until when both rules of a beam give the same; see `CTranslate2Beam`."""

N_CLIPS = 5


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return faster.load(tmp_path_factory.mktemp("faster"))


@pytest.fixture(scope="module")
def ours() -> Iterator[Transcriber]:
    with Transcriber.from_model(
        str(openai.CHECKPOINT), quantize="none", window_s=30, threads=1
    ) as transcriber:
        yield transcriber


def windows(n_clips: int = N_CLIPS) -> list[Any]:
    """Clips filled up with silence to whole windows.

    faster-whisper would fill up the log-mel instead, with zeros, which no silence gives.
    """
    return [pad_or_trim(audio, 480_000) for audio, _ in speech.clips("seen", n_clips)]


def heard(ours: Transcriber, audio: Any, **options: Any) -> Transcript:
    strategy = "seek" if options.get("timestamps") else "consecutive"
    plan = replace(WHOLE_WINDOWS, strategy=strategy)
    return ours.transcribe(
        audio, DecodingOptions(thresholds=NO_THRESHOLDS, **options), long=plan
    )


@pytest.mark.parametrize("timestamps", [False, True], ids=["text", "timestamps"])
@pytest.mark.parametrize("beam_size", [1, 5], ids=["greedy", "beam"])
@pytest.mark.parametrize("prompt", [None, PROMPT], ids=["plain", "prompt"])
def test_same_text(
    ours: Transcriber,
    theirs: Any,
    *,
    timestamps: bool,
    beam_size: int,
    prompt: str | None,
) -> None:
    for audio in windows():
        expected = said(
            theirs, audio, beam_size=beam_size, without_timestamps=not timestamps,
            initial_prompt=prompt,
        )  # fmt: skip
        got = heard(
            ours, audio, timestamps=timestamps, search=SearchOptions(beam_size=beam_size),
            prompts=PromptOptions(initial_prompt=prompt),
        )  # fmt: skip
        if timestamps:
            assert (
                got.text
                == " ".join(segment.text.strip() for segment in expected).strip()
            )
            assert [s.start_s for s in got.segments] == pytest.approx(
                [s.start for s in expected]
            )
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
        expected = [
            w for s in said(theirs, audio, word_timestamps=True) for w in s.words
        ]
        got = [
            word
            for segment in heard(
                ours, audio, timestamps=True, word_timestamps=True
            ).segments
            for word in segment.words
        ]
        assert [word.text for word in got] == [word.word for word in expected]
        starts = np.array(
            [[a.start_s, b.start] for a, b in zip(got, expected, strict=True)]
        )
        assert np.abs(starts[:, 0] - starts[:, 1]).max(initial=0.0) <= WORD_S
        n_words += len(got)
    assert n_words > 40


@pytest.fixture
def same_mel(monkeypatch: pytest.MonkeyPatch) -> None:
    faster.hear_as_ours(monkeypatch)


class CTranslate2Beam:
    """CTranslate2's beam: a text may end only while it is one of the `beam_size` best.

    OpenAI Whisper's, and ours, takes every end that is likelier than the last text that goes on.
    Over ten minutes one of 168 segments differs by that: a phrase that micro says twice.
    """

    def __init__(
        self,
        eot: int,
        eot_boost: float,
        beam_size: int,
        patience: float,
        bound: RetryBound | None = None,
    ) -> None:
        assert eot_boost == 0.0
        assert bound is None, "no retry"
        self.eot = eot
        self.size = beam_size
        self.wanted = max(1, round(beam_size * patience))
        self.live = [Hypothesis()]
        self.finished = list[Hypothesis]()

    @property
    def running(self) -> Sequence[Hypothesis]:
        return self.live if len(self.finished) < self.wanted else ()

    def drop_loops(self) -> list[int]:
        """Let all run on: CTranslate2 looks at its texts at the end only."""
        return list(range(len(self.live)))

    def advance(self, ruled: Sequence[FilteredLogits]) -> list[int]:
        candidates = sorted(
            (
                (
                    hypothesis.extended(
                        token, float(row.logits[token]) - row.logsumexp, self.eot
                    ),
                    index,
                )
                for index, (hypothesis, row) in enumerate(
                    zip(self.live, ruled, strict=True)
                )
                for token in map(
                    int, np.argpartition(-row.logits, 2 * self.size)[: 2 * self.size]
                )
                if row.logits[token] > -np.inf
            ),
            key=lambda candidate: -candidate[0].sum_logprob,
        )[: 2 * self.size]
        self.finished += [one for one, _ in candidates[: self.size] if one.done]
        kept = [candidate for candidate in candidates if not candidate[0].done][
            : self.size
        ]
        self.live = [one for one, _ in kept]
        return [source for _, source in kept] if self.running else []

    def finish(self) -> list[Hypothesis]:
        missing = max(0, self.size - len(self.finished))
        return [*self.finished, *self.live[:missing]] or [Hypothesis()]


@pytest.mark.usefixtures("same_mel")
@pytest.mark.parametrize(
    ("beam_size", "duration_s", "their_rule"),
    [(1, openai.LONG_S, False), (5, BEAM_S, False), (5, openai.LONG_S, True)],
    ids=["greedy", "beam", "beam by their rule"],
)
@pytest.mark.parametrize("words", [False, True], ids=["segments", "words"])
def test_minutes_by_timestamps(
    ours: Transcriber,
    theirs: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    words: bool,
    beam_size: int,
    duration_s: float,
    their_rule: bool,
) -> None:
    if their_rule:
        monkeypatch.setattr(
            "whisper_hailo.decoding.search.loop.BeamChoice", CTranslate2Beam
        )
    audio = speech.minutes(duration_s)
    expected = [
        segment
        for segment in said(theirs, audio, beam_size=beam_size, word_timestamps=words)
        if segment.text.strip()
    ]
    got = heard(
        ours, audio, timestamps=True, search=SearchOptions(beam_size=beam_size),
        word_timestamps=words,
    )  # fmt: skip
    assert len(got.segments) > duration_s / 6
    assert [s.text for s in got.segments] == [s.text.strip() for s in expected]
    starts = [s.start_s for s in got.segments]
    assert starts == pytest.approx([s.start for s in expected], abs=WORD_S)
    if words:
        spelled = [(w.text, w.start_s) for s in got.segments for w in s.words]
        reference = [(w.word, w.start) for s in expected for w in s.words]
        assert [text for text, _ in spelled] == [text for text, _ in reference]
        assert [at for _, at in spelled] == pytest.approx(
            [at for _, at in reference], abs=WORD_S
        )


def test_same_language(ours: Transcriber, theirs: Any) -> None:
    for audio in windows(3):
        language, probability, _ = theirs.detect_language(audio)
        got = ours.transcribe(
            audio, DecodingOptions(language="auto"), long=WHOLE_WINDOWS
        )
        assert got.language == language
        assert got.language_probs[language] == pytest.approx(probability, abs=1e-4)
