"""The bundled model in float32, and graphs of the toy, against the reference programs.

Their results are in `tests/references`; `tests/parity/test_goldens.py` compares those with what
the programs give today. No choice of a token is a near-tie in any case here, so that texts and
times are the same on every processor: a word's time is a whole number of frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import references
from tests.checkpoints import write_checkpoint
from tests.near_ties import counted_near_ties
from tests.references import cases, speech
from tests.shared import WHOLE_WINDOWS
from whisper_hailo import Transcriber
from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.options import DecodingOptions

ROUNDING = 1e-4
"""Of float32 in another order, relative to the largest value: 8 layers are some 40 sums behind one
another, each of up to 1,500 roundings of 6e-8, which grow with their number's root."""
SHOWN = 5e-5
"""Half of the last digit of a probability in the files."""
HALF_A_HUNDREDTH_S = 0.005
TranscribeCase = Callable[[cases.Window | cases.Minute], Transcript]
FEATURES = 1e-4
LOGITS = 1e-4
INT8_LOGITS = 0.05
Golden = dict[str, NDArray[np.float32]]


@pytest.fixture(scope="module")
def transcriber() -> Iterator[Transcriber]:
    with Transcriber.from_model(
        "micro", quantize="none", window_s=30, threads=1
    ) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def transcribe_case(transcriber: Transcriber) -> TranscribeCase:
    """Return a function that transcribes a case, once."""

    @cache
    def transcribe(case: cases.Window | cases.Minute) -> Transcript:
        # Seeking drops an unfinished segment at the end of a window, which decoding alone keeps.
        strategy = "seek" if isinstance(case, cases.Minute) else "consecutive"
        with counted_near_ties("none") as ties:
            transcript = transcriber.transcribe(
                case.audio(),
                case.options(),
                long=replace(WHOLE_WINDOWS, strategy=strategy),
            )
        assert not ties, "another processor may choose otherwise"
        return transcript

    return transcribe


@pytest.mark.parametrize("name", cases.WINDOWS)
def test_transcribe_window_equals_openai_whisper(
    transcribe_case: TranscribeCase, name: str
) -> None:
    expected = cases.golden("openai_whisper")["windows"][name]
    segments = transcribe_case(cases.WINDOWS[name]).segments
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
def test_transcribe_window_equals_faster_whisper(
    transcribe_case: TranscribeCase, name: str
) -> None:
    expected = cases.golden("faster_whisper")["windows"][name]
    segments = transcribe_case(cases.WINDOWS[name]).segments
    text = " ".join(segment_fields["text"].strip() for segment_fields in expected)
    assert " ".join(segment.text for segment in segments) == text
    if cases.WINDOWS[name].options().timestamps:
        assert segment_times(segments) == expected_times(expected)


@pytest.mark.parametrize("clip", range(len(cases.LANGUAGES)))
def test_transcribe_language_probs_equal_openai_whisper(
    transcriber: Transcriber, clip: int
) -> None:
    expected = cases.golden("openai_whisper")["languages"][clip]
    audio = speech.window(*cases.LANGUAGES[clip])
    actual = transcriber.transcribe(
        audio, DecodingOptions(language="auto", max_new_tokens=1)
    ).language_probs
    assert next(iter(actual)) == next(iter(expected))
    assert {code: actual[code] for code in expected} == pytest.approx(
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
def test_transcribe_minute_equals_the_reference(
    transcribe_case: TranscribeCase, reference: str, name: str
) -> None:
    expected = cases.golden(reference)["minutes"][name]
    segments = transcribe_case(cases.MINUTES[name]).segments
    assert [segment.text for segment in segments] == [
        segment_fields["text"].strip() for segment_fields in expected
    ]
    assert segment_times(segments) == expected_times(expected)
    if reference == "openai_whisper":
        starts = [segment.window_start_s for segment in segments]
        assert starts == pytest.approx(
            [segment_fields["window_start_s"] for segment_fields in expected]
        )
    words = [word for segment in segments for word in segment.words]
    expected_words = [
        word for segment_fields in expected for word in segment_fields["words"]
    ]
    assert len(words) > 40
    assert [word.text for word in words] == [text for text, *_ in expected_words]
    for index, actual in enumerate(("start_s", "end_s"), start=1):
        found = [getattr(word, actual) for word in words]
        assert found == pytest.approx(
            [word[index] for word in expected_words], abs=HALF_A_HUNDREDTH_S
        )
    probabilities = [word.probability for word in words]
    assert probabilities == pytest.approx(
        [word[3] for word in expected_words], abs=SHOWN + ROUNDING
    )


def segment_times(segments: Any) -> Any:
    """Starts and ends, compared as hundredths of a second."""
    return pytest.approx(
        np.array([(segment.start_s, segment.end_s) for segment in segments]),
        abs=HALF_A_HUNDREDTH_S,
    )


def expected_times(expected: list[dict[str, Any]]) -> Any:
    return np.array(
        [
            (segment_fields["start_s"], segment_fields["end_s"])
            for segment_fields in expected
        ]
    )


@pytest.fixture(scope="module")
def transformers() -> dict[str, Any]:
    with np.load(Path(cases.__file__).parent / "transformers.npz") as file:
        return dict(file)


@pytest.mark.parametrize("name", cases.GREEDY)
def test_features_and_logits_equal_transformers(
    transcriber: Transcriber,
    transcribe_case: TranscribeCase,
    transformers: dict[str, Any],
    name: str,
) -> None:
    kind = {
        key.removeprefix(f"{name}: "): array
        for key, array in transformers.items()
        if key.startswith(f"{name}: ")
    }
    encoder = transcriber.encoder
    decoder = transcriber.decoder
    assert isinstance(encoder, OnnxEncoder)
    assert isinstance(decoder, CachedDecoder)
    features = encoder.encode(log_mel(cases.WINDOWS[name].audio())[None])
    assert_close(
        features[0, :: features.shape[1] // len(kind["features"])], kind["features"]
    )
    state = decoder.start(features, (Padding(None),))
    output, _ = decoder.step(
        kind["tokens"][None], state, np.arange(kind["tokens"].size)
    )
    logits = output.logits[0]
    assert_close(logits[:, kind["columns"]], kind["logits"])
    assert_close(logits.max(axis=-1), kind["largest"])
    np.testing.assert_array_equal(logits.argmax(axis=-1), kind["likeliest"])
    case = cases.WINDOWS[name]
    prefix = transcriber.tokenizer.prefix(
        case.language, case.task, timestamps=case.timestamps
    )
    text = [
        token for segment in transcribe_case(case).segments for token in segment.tokens
    ]
    assert kind["tokens"].tolist() == [*prefix, *text]


def assert_close(actual: Any, expected: Any) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= ROUNDING * np.abs(expected).max()


@pytest.fixture(scope="module")
def golden() -> Golden:
    with np.load(Path(references.__file__).parent / "graph.npz") as file:
        return dict(file)


def convert_model(tmp_path: Path, **options: str) -> Path:
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    convert_checkpoint(checkpoint, tmp_path / "model", ConvertOptions(**options))
    return tmp_path / "model"


def relative_difference(
    got: NDArray[np.float32], expected: NDArray[np.float32]
) -> float:
    return float(np.abs(got - expected).max() / max(1.0, float(np.abs(expected).max())))


def test_encoder_features_equal_transformers(tmp_path: Path, golden: Golden) -> None:
    directory = convert_model(tmp_path, quantize="none")
    with OnnxEncoder(directory, ModelSpec.load(directory), threads=1) as encoder:
        assert (
            relative_difference(encoder.encode(golden["mel"]), golden["features"])
            < FEATURES
        )


@pytest.mark.parametrize(
    ("quantize", "tolerance"), [("none", LOGITS), ("int8", INT8_LOGITS)]
)
def test_decoder_logits_equal_transformers(
    tmp_path: Path, golden: Golden, quantize: str, tolerance: float
) -> None:
    directory = convert_model(tmp_path, quantize=quantize, encoder_quantize="none")
    tokens = golden["tokens"].astype(np.int64)
    with CachedDecoder(directory, ModelSpec.load(directory), threads=1) as decoder:
        for pad_to, expected in zip(golden["pads"], golden["logits"], strict=True):
            state = decoder.start(golden["features"], (Padding(int(pad_to) or None),))
            for i in range(tokens.shape[1]):
                out, state = decoder.step(tokens[:, i : i + 1], state, np.array([0]))
                assert relative_difference(out.logits[0, 0], expected[i]) < tolerance
