"""One window as the rows that the chip's inputs take, and what makes a set another set."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

from tests.checkpoints import TOY, write_checkpoint
from tests.shared import converted
from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.spec import FileRecord, ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.calibrate import windows as making
from whisper_hailo_tools.calibrate.make import _settings
from whisper_hailo_tools.calibrate.windows import DecoderRows, EncoderRows, Sources
from whisper_hailo_tools.options import CalibrationOptions

RATE_HZ = 16_000
SOUND = (np.random.default_rng(0).standard_normal(RATE_HZ) * 0.1).astype(np.float32)


@pytest.fixture(scope="module")
def toy(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("rows") / "toy")
    return converted(shared, checkpoint, ConvertOptions("none", hailo=HailoOptions(2, 6)))


@pytest.mark.parametrize("n_mels", [80, 128])
def test_an_encoder_is_fed_its_frames_one_after_the_other(toy: Path, n_mels: int) -> None:
    """A second of sound, and one of silence."""
    spec = ModelSpec.load(toy)
    spec = replace(spec, dims=replace(spec.dims, n_mels=n_mels))
    (row,) = EncoderRows(spec, WindowPlan.make(spec.dims, 2.0)).rows(SOUND)
    assert (row.shape, row.flags.c_contiguous) == ((1, 200, n_mels), True)
    mel = log_mel(np.concatenate([SOUND, np.zeros(RATE_HZ, np.float32)]), n_mels)
    np.testing.assert_array_equal(row[0], mel.T)


class Engine:
    """Encoder and decoder of one: gives features that are known."""

    FEATURES = np.arange(100 * 64, dtype=np.float32).reshape(1, 100, 64)

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    silence_keys = None

    def encode(self, mel: FloatArray) -> FloatArray:
        assert mel.shape == (1, 80, 200)
        return self.FEATURES

    def start(self, features: FloatArray, paddings: Any) -> str:
        assert (features is self.FEATURES, paddings[0].pad_to) == (True, TOY.n_audio_ctx)
        return "begun"


@pytest.mark.parametrize(
    ("heard", "ids"),
    [((21, 22), [11, 12, 21, 22, 10, 0]), ((21, 22, 23, 24, 25), [11, 12, 21, 22, 23, 24])],
)
def test_a_decoder_is_fed_what_was_heard_with_the_rows_of_its_positions(
    toy: Path, monkeypatch: pytest.MonkeyPatch, heard: tuple[int, ...], ids: list[int]
) -> None:
    """Prefix, text and the end, then token 0; on an 8 or 8L the host adds the positions."""
    spec = ModelSpec.load(toy)

    class Loop:
        def __init__(self, _: object, __: object, options: Any) -> None:
            assert options.language == "de"

        def run(self, state: str, tasks: Any) -> Any:
            assert (state, tasks[0].prompt) == ("begun", (11, 12))
            return [SimpleNamespace(tokens=heard)]

    class Words:
        @staticmethod
        def load(*_: object) -> Any:
            return Words()

        def prefix(self, language: str, task: str) -> tuple[int, ...]:
            assert (language, task) == ("de", "transcribe")
            return (11, 12)

    for name, made in (("OnnxEncoder", Engine), ("CachedDecoder", Engine), ("Tokenizer", Words)):
        monkeypatch.setattr(making, name, made)
    monkeypatch.setattr(making, "DecodingLoop", Loop)
    plan, form = WindowPlan.make(spec.dims, 2.0), spec.hailo_form("decoder")
    with ExitStack() as stack:
        maker = DecoderRows(toy, spec, form, plan, language="de", stack=stack)
        features, embeddings = maker.rows(SOUND)
    np.testing.assert_array_equal(features, Engine.FEATURES)
    table, places = (np.load(toy / form.assets[n]) for n in ("token_embedding", "position_rows"))
    assert embeddings.shape == (6, 1, 64)
    for place, token in enumerate(ids):
        np.testing.assert_array_equal(embeddings[place, 0], table[token] + places[place])


def test_a_set_goes_on_only_where_all_that_decides_its_rows_is_the_same(toy: Path) -> None:
    spec, sources = ModelSpec.load(toy), Sources(Path("speech"), ("a.wav",), 1, "0" * 64)
    form, options = spec.hailo_form("decoder"), CalibrationOptions(part="decoder", count=3)
    first = _settings(spec, form, options, sources, 3)
    assert first == _settings(spec, form, options, sources, 3)
    name = next(iter(spec.files))
    changed = replace(spec, files={**spec.files, name: FileRecord(1, "0" * 64)})
    others = [
        _settings(changed, form, options, sources, 3),
        _settings(spec, replace(form, window_s=3), options, sources, 3),
        _settings(spec, form, replace(options, language="de"), sources, 3),
        _settings(spec, form, replace(options, seed=1), sources, 3),
        _settings(spec, form, options, replace(sources, listing_sha256="1" * 64), 3),
        _settings(spec, form, options, sources, 4),
        _settings(spec, spec.hailo_form("encoder"), options, sources, 3),
    ]
    assert all(other != first for other in others)
    assert len({str(other) for other in others}) == len(others)
