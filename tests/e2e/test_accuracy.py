"""The bundled model on its frozen test sets: the figures of the data card are true."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from tests.e2e.conftest import ROOT
from tests.shared import WHOLE_WINDOWS, made_once
from whisper_hailo import ConvertOptions, Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.core.protocols import Encoder, Padding
from whisper_hailo.core.spec import ENCODER_FILE, ModelSpec
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Transcript
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.score import score_texts
from whisper_hailo_lab.wrappers import EncoderWrapper

RESULTS = ROOT / "lab" / "training" / "results" / "micro.json"
CLIPS = unpack_clips()
SPOKEN = ("seen", "unseen", "noisy")
TEXTS = "texts.json"

CASES = {
    "float32": ConvertOptions("none", "none"),
    "int8": ConvertOptions("int8", "int8", half=False),
    "int4": ConvertOptions("int4", "int8", half=False),
    # Values are rounded to float16 where the processor has none, and computed in float32.
    "int8, float16": ConvertOptions("int8", "int8", half=True),
}
MOST_LOST = {"int8": 0.003, "int4": 0.01, "int8, float16": 0.005}
"""Words that each form may get wrong beyond those of float32."""

PLAIN = DecodingOptions(language="en", anti_repetition=AntiRepetition(pad_with="zeros"))
"""Greedy, without a second attempt: how the figures of the data card were made."""

RecognizedTexts: TypeAlias = Callable[[str], dict[str, list[tuple[str, str]]]]


def clips(name: str) -> list[Path]:
    return sorted(
        path for path in (CLIPS / name).iterdir() if path.suffix in {".ogg", ".flac"}
    )


@pytest.fixture(scope="module")
def recognized(shared: Path) -> RecognizedTexts:
    """Reference and recognised text of each set, by weights: a minute of one core, once."""
    folder = made_once(shared / "heard", write)
    found = json.loads((folder / TEXTS).read_text("utf-8"))
    return lambda case: found[case]


def write(folder: Path) -> None:
    audio = {
        name: [load_audio(path) for path in clips(name)]
        for name in (*SPOKEN, "silence")
    }
    encodings: dict[bytes, FloatArray] = {}
    texts = {
        case: recognize_sets(form, audio, encodings) for case, form in CASES.items()
    }
    folder.mkdir()
    (folder / TEXTS).write_text(json.dumps(texts), encoding="utf-8")


def recognize_sets(
    form: ConvertOptions,
    audio: dict[str, list[FloatArray]],
    encodings: dict[bytes, FloatArray],
) -> dict[str, list[tuple[str, str]]]:
    plain = Transcriber.from_model("micro", convert=form, window_s=10.0, threads=1)
    encoder = CachingEncoder(plain.encoder, encodings)
    texts = {}
    with plain.encoder, replace(plain, encoder=encoder) as transcriber:
        for name, sounds in audio.items():
            results = transcriber.transcribe_many(
                sounds, PLAIN, long=WHOLE_WINDOWS, batch_size=8
            )
            references = [
                path.with_suffix(".txt").read_text("utf-8") for path in clips(name)
            ]
            texts[name] = list(zip(references, map(text_of, results), strict=True))
    return texts


class CachingEncoder(EncoderWrapper):
    """Encodes each window once for all forms of weights with the same encoder."""

    def __init__(self, encoder: Encoder, encodings: dict[bytes, FloatArray]) -> None:
        super().__init__(encoder)
        self._known = encodings
        files = encoder.spec.files
        names = (ENCODER_FILE, f"{ENCODER_FILE}.data")
        self._content = "".join(files[name].sha256 for name in names if name in files)

    def encode(self, mel: FloatArray) -> FloatArray:
        key = hashlib.sha256(self._content.encode() + mel.tobytes()).digest()
        if key not in self._known:
            self._known[key] = self._encoder.encode(mel)
        return self._known[key]


def text_of(result: Transcript | Exception) -> str:
    assert isinstance(result, Transcript)
    return result.text


def wer(recognized: RecognizedTexts, case: str) -> float:
    """Word error rate over all sets."""
    words = score_texts(
        [pair for name in SPOKEN for pair in recognized(case)[name]]
    ).words
    assert words.reference_count > 5000
    return words.rate


@pytest.mark.parametrize("name", SPOKEN)
def test_model_word_error_rates_equal_the_data_card(
    recognized: RecognizedTexts, name: str
) -> None:
    # The figures of the data card come from another program, plain greedy decoding in torch.
    claimed = json.loads(RESULTS.read_text(encoding="utf-8"))["windows"]["10"][name]
    words = score_texts(recognized("float32")[name]).words
    assert words.reference_count == claimed["words"]
    assert words.rate == pytest.approx(claimed["wer"] / 100, abs=0.005)


@pytest.mark.parametrize("case", CASES)
def test_model_silence_gives_no_text(recognized: RecognizedTexts, case: str) -> None:
    assert [text for _, text in recognized(case)["silence"]] == [""] * 60


@pytest.mark.parametrize("case", MOST_LOST)
def test_model_quantized_weights_lose_few_words(
    recognized: RecognizedTexts, case: str
) -> None:
    assert wer(recognized, case) <= wer(recognized, "float32") + MOST_LOST[case]


def test_model_float16_loses_half_a_point_at_most(recognized: RecognizedTexts) -> None:
    """One runaway clip costs a dozen of 6,213 words, and each form has another one."""
    assert wer(recognized, "int8, float16") <= wer(recognized, "int8") + 0.005


def test_model_float16_adds_little_to_quantization_error() -> None:
    """Logits over true texts differ where words would depend on single near-ties."""
    paths = clips("unseen")[:20]
    exact = force_texts(CASES["float32"], paths)
    for bits in ("int8", "int4"):
        forms = (ConvertOptions(bits, half=half) for half in (False, True))
        lost = [rms(force_texts(form, paths) - exact) for form in forms]
        assert 0 < lost[1] < 1.1 * lost[0] < 0.1 * rms(exact)


def force_texts(convert: ConvertOptions, paths: list[Path]) -> FloatArray:
    """Return logits of the true texts, `(n_tokens, n_vocab)`."""
    directory = resolve_model("micro", convert)
    spec = ModelSpec.load(directory)
    tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
    rows = []
    with (
        OnnxEncoder(directory, spec, 1) as encoder,
        CachedDecoder(directory, spec, 1) as decoder,
    ):
        for path in paths:
            audio = pad_or_trim(load_audio(path), 10 * SAMPLE_RATE_HZ)
            features = encoder.encode(log_mel(audio, spec.dims.n_mels)[np.newaxis])
            text = path.with_suffix(".txt").read_text("utf-8").strip()
            ids = (*tokenizer.prefix("en", "transcribe"), *tokenizer.encode(f" {text}"))
            state = decoder.start(features, (Padding(spec.dims.n_audio_ctx),))
            looks = np.arange(3, len(ids))
            rows.append(decoder.step(np.array([ids]), state, looks)[0].logits[0])
    return np.concatenate(rows)


def rms(values: FloatArray) -> float:
    return float(np.sqrt(np.square(values).mean()))
