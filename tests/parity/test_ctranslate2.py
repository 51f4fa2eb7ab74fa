"""CTranslate2 on our features says what our decoder says, on the bundled model and real clips."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.shared import WHOLE_WINDOWS
from whisper_hailo.backends.ctranslate2 import CTranslate2Recognizer
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import select
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, OptionError, ShapeError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.options import Cures, DecodingOptions, preset
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.formats.ctranslate2 import write_ctranslate2

pytest.importorskip("ctranslate2", reason="needs ctranslate2: it is in the parity environment")

MICRO = ASSETS / "micro"
CLIPS = Path(__file__).parents[1] / "data" / "micro"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("micro") / "model"
    convert_checkpoint(MICRO, out, ConvertOptions("none"))
    return out


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ct2") / "micro"
    write_ctranslate2(MICRO, out)
    return out


@pytest.fixture(scope="module")
def ours(model: Path) -> Iterator[Transcriber]:
    with Transcriber.from_model(str(model), threads=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def theirs(model: Path, converted: Path) -> Iterator[Transcriber]:
    engine = EngineOptions(decoder=converted)
    with Transcriber.from_model(str(model), threads=1, engine=engine) as opened:
        yield opened


def _clips(n: int) -> list[Path]:
    """Clips with speech: of silence CTranslate2 does not tell that the text would have ended."""
    found = sorted(p for p in CLIPS.rglob("*.ogg") if p.parent.name != "silence")
    return found[:: max(1, len(found) // n)][:n]


def _tokens(transcript: Transcript) -> list[int]:
    return [token for segment in transcript.segments for token in segment.tokens]


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(),
        DecodingOptions(cures=Cures(pad_to=0)),
        DecodingOptions(cures=Cures(pad_to=700, repetition_penalty=1.3)),
        DecodingOptions(max_new_tokens=3),
        DecodingOptions(language="auto"),
    ],
    ids=["default", "unpadded", "penalty", "budget", "auto"],
)
def test_it_says_what_our_greedy_decoder_says(
    ours: Transcriber, theirs: Transcriber, options: DecodingOptions
) -> None:
    differing = 0
    clips = _clips(12)
    for clip in clips:
        expected, got = (t.transcribe(clip, options, long=WHOLE_WINDOWS) for t in (ours, theirs))
        assert got.language == expected.language
        if _tokens(got) != _tokens(expected):
            differing += 1  # a near-tie that two float32 kernels round differently
            continue
        # Ours are sentences, theirs whole windows: what is told of the window is the same.
        for mine, other in zip(expected.segments, got.segments, strict=False):
            assert other.runaway == mine.runaway
            assert other.no_speech_prob == pytest.approx(mine.no_speech_prob, abs=1e-4)
            if options.cures.repetition_penalty == 1:
                assert other.avg_logprob == pytest.approx(mine.avg_logprob, abs=1e-3)
    assert differing <= 1, f"{differing} of {len(clips)} clips"


def test_a_batch_is_one_by_one(theirs: Transcriber) -> None:
    recognizer = theirs.parts["decoder"]
    assert isinstance(recognizer, CTranslate2Recognizer)
    spec = recognizer.spec
    shape = (3, 100, spec.dims.d_model)
    features = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    prefix = (spec.tokens.sot, spec.tokens.languages["en"], spec.tokens.transcribe or 0)
    options = DecodingOptions(max_new_tokens=8)
    batch = recognizer.recognize(features, prefix, options)
    singles = [recognizer.recognize(row[None], prefix, options)[0] for row in features]
    assert [row.tokens for row in batch] == [row.tokens for row in singles]


def test_the_boost_is_refused_before_any_audio(theirs: Transcriber) -> None:
    with pytest.raises(OptionError, match=r"ctranslate2 cannot honour --eot-boost 0\.2"):
        theirs.transcribe("nowhere.wav", DecodingOptions(cures=preset("balanced")))


def test_settings_name_it(theirs: Transcriber) -> None:
    settings = theirs.transcribe(_clips(1)[0]).settings
    assert settings.decoder == "ctranslate2-float32"
    assert settings.pad_to == 1500


def test_directories_of_another_model_are_refused(
    model: Path, converted: Path, tmp_path: Path
) -> None:
    spec = ModelSpec.load(model)
    fewer = replace(spec, dims=replace(spec.dims, n_vocab=spec.dims.n_vocab + 1))
    with pytest.raises(ModelError, match=r"vocabulary\.json has 51865 tokens, micro has 51866"):
        CTranslate2Recognizer(converted, fewer)
    narrow = replace(spec, dims=replace(spec.dims, d_model=64))
    with pytest.raises(ModelError, match="cannot be used for micro of width 64"):
        CTranslate2Recognizer(converted, narrow, threads=1).open()
    broken = tmp_path / "broken"
    shutil.copytree(converted, broken)
    names = json.loads((broken / "vocabulary.json").read_text())
    names[spec.tokens.sot] = "<|50258|>"
    (broken / "vocabulary.json").write_text(json.dumps(names))
    with pytest.raises(ModelError, match=r"calls token 50258 '<\|50258\|>', expected"):
        CTranslate2Recognizer(broken, spec)
    shutil.copy(converted / "vocabulary.json", broken)
    (broken / "config.json").write_text('{"suppress_ids_begin": [1]}')
    if spec.tokens.begin_suppress != (1,):
        with pytest.raises(ModelError, match=r"has suppress_ids_begin \[1\], micro has"):
            CTranslate2Recognizer(broken, spec)
    shutil.copy(converted / "config.json", broken)
    (broken / "model.bin").write_bytes((converted / "model.bin").read_bytes()[:5000])
    with pytest.raises(ModelError, match="cannot be used for micro"):
        CTranslate2Recognizer(broken, spec).open()
    with pytest.raises(ModelError, match="cannot be read"):
        select(model, spec, EngineOptions(decoder=tmp_path, decoder_backend="ctranslate2"))


def test_not_open_and_of_another_width(model: Path, converted: Path) -> None:
    spec = ModelSpec.load(model)
    recognizer = CTranslate2Recognizer(converted, spec, threads=1)
    options = DecodingOptions()
    with pytest.raises(ModelError, match="not open"):
        recognizer.recognize(np.zeros((1, 10, 128), np.float32), (spec.tokens.sot,), options)
    with recognizer, pytest.raises(ShapeError, match="audio features have shape"):
        recognizer.recognize(np.zeros((1, 10, 64), np.float32), (spec.tokens.sot,), options)
