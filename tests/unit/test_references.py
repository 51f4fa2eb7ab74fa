"""Ours beside OpenAI Whisper, faster-whisper and Transformers on the bundled model, in float32.

What they say is kept in `tests/references`, and `tests/parity/test_goldens.py` holds that to what
they say today. No choice of a token is a near-tie in any case here, so that texts and times are the
same on every processor: a word's time is a whole number of frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.near_ties import counted_near_ties
from tests.references import cases, speech
from tests.shared import WHOLE_WINDOWS
from whisper_hailo import Transcriber
from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.options import DecodingOptions

ROUNDING = 1e-4
"""Of float32 in another order, relative to the largest value: 8 layers are some 40 sums behind one
another, each of up to 1,500 roundings of 6e-8, which grow with their number's root."""
SHOWN = 5e-5
"""Half of the last digit of a probability in the files."""
HALF_A_HUNDREDTH_S = 0.005

Heard = Callable[[cases.Window | cases.Minute], Transcript]


@pytest.fixture(scope="module")
def ours() -> Iterator[Transcriber]:
    with Transcriber.from_model(
        "micro", quantize="none", window_s=30, threads=1
    ) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def heard(ours: Transcriber) -> Heard:
    """What ours makes of a case, once."""

    @cache
    def transcribe(case: cases.Window | cases.Minute) -> Transcript:
        # Seeking drops an unfinished segment at the end of a window, which decoding alone keeps.
        strategy = "seek" if isinstance(case, cases.Minute) else "consecutive"
        with counted_near_ties("none") as ties:
            transcript = ours.transcribe(
                case.audio(),
                case.options(),
                long=replace(WHOLE_WINDOWS, strategy=strategy),
            )
        assert not ties, "another processor may choose otherwise"
        return transcript

    return transcribe


@pytest.mark.parametrize("name", cases.WINDOWS)
def test_window_is_decoded_as_by_openai_whisper(heard: Heard, name: str) -> None:
    expected = cases.golden("openai_whisper")["windows"][name]
    segments = heard(cases.WINDOWS[name]).segments
    assert [token for segment in segments for token in segment.tokens] == expected[
        "tokens"
    ]
    assert " ".join(segment.text for segment in segments) == expected["text"]
    for segment in segments:
        assert segment.avg_logprob == pytest.approx(
            expected["avg_logprob"], abs=ROUNDING
        )
        assert segment.no_speech_prob == pytest.approx(
            expected["no_speech_prob"], abs=ROUNDING
        )
        assert segment.compression_ratio == pytest.approx(expected["compression_ratio"])


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.SIMPLE)
def test_window_is_decoded_as_by_faster_whisper(heard: Heard, name: str) -> None:
    expected = cases.golden("faster_whisper")["windows"][name]
    segments = heard(cases.WINDOWS[name]).segments
    text = " ".join(one["text"].strip() for one in expected)
    assert " ".join(segment.text for segment in segments) == text
    if cases.WINDOWS[name].options().timestamps:
        assert times(segments) == times_of(expected)


@pytest.mark.parametrize("clip", range(len(cases.LANGUAGES)))
def test_languages_are_as_likely_as_for_openai_whisper(
    ours: Transcriber, clip: int
) -> None:
    expected = cases.golden("openai_whisper")["languages"][clip]
    audio = speech.window(*cases.LANGUAGES[clip])
    got = ours.transcribe(
        audio, DecodingOptions(language="auto", max_new_tokens=1)
    ).language_probs
    assert next(iter(got)) == next(iter(expected))
    assert {code: got[code] for code in expected} == pytest.approx(
        expected, abs=ROUNDING
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "name"),
    [
        (reference, name)
        for reference in ("openai_whisper", "faster_whisper")
        for name in cases.golden(reference)["minutes"]
    ],
)
def test_segments_and_words_of_a_minute_are_theirs(
    heard: Heard, reference: str, name: str
) -> None:
    expected = cases.golden(reference)["minutes"][name]
    segments = heard(cases.MINUTES[name]).segments
    assert [segment.text for segment in segments] == [
        one["text"].strip() for one in expected
    ]
    assert times(segments) == times_of(expected)
    if reference == "openai_whisper":
        starts = [segment.window_start_s for segment in segments]
        assert starts == pytest.approx([one["window_start_s"] for one in expected])
    words = [word for segment in segments for word in segment.words]
    theirs = [word for one in expected for word in one["words"]]
    assert len(words) > 40
    assert [word.text for word in words] == [text for text, *_ in theirs]
    for index, got in enumerate(("start_s", "end_s"), start=1):
        found = [getattr(word, got) for word in words]
        assert found == pytest.approx(
            [word[index] for word in theirs], abs=HALF_A_HUNDREDTH_S
        )
    probabilities = [word.probability for word in words]
    assert probabilities == pytest.approx(
        [word[3] for word in theirs], abs=SHOWN + ROUNDING
    )


def times(segments: Any) -> Any:
    """Starts and ends, compared as hundredths of a second."""
    return pytest.approx(
        np.array([(segment.start_s, segment.end_s) for segment in segments]),
        abs=HALF_A_HUNDREDTH_S,
    )


def times_of(expected: list[dict[str, Any]]) -> Any:
    return np.array([(one["start_s"], one["end_s"]) for one in expected])


@pytest.fixture(scope="module")
def transformers() -> dict[str, Any]:
    with np.load(Path(cases.__file__).parent / "transformers.npz") as file:
        return dict(file)


@pytest.mark.parametrize("name", cases.GREEDY)
def test_features_and_logits_are_those_of_transformers(
    ours: Transcriber, heard: Heard, transformers: dict[str, Any], name: str
) -> None:
    kind = {
        key.removeprefix(f"{name}: "): array
        for key, array in transformers.items()
        if key.startswith(f"{name}: ")
    }
    encoder, decoder = ours.encoder, ours.decoder
    assert isinstance(encoder, OnnxEncoder)
    assert isinstance(decoder, CachedDecoder)
    features = encoder.encode(log_mel(cases.WINDOWS[name].audio())[None])
    close(features[0, :: features.shape[1] // len(kind["features"])], kind["features"])
    state = decoder.start(features, (Padding(None),))
    output, _ = decoder.step(
        kind["tokens"][None], state, np.arange(kind["tokens"].size)
    )
    logits = output.logits[0]
    close(logits[:, kind["columns"]], kind["logits"])
    close(logits.max(axis=-1), kind["largest"])
    np.testing.assert_array_equal(logits.argmax(axis=-1), kind["likeliest"])
    case = cases.WINDOWS[name]
    prefix = ours.tokenizer.prefix(case.language, case.task, timestamps=case.timestamps)
    text = [token for segment in heard(case).segments for token in segment.tokens]
    assert kind["tokens"].tolist() == [*prefix, *text]


def close(got: Any, expected: Any) -> None:
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= ROUNDING * np.abs(expected).max()
