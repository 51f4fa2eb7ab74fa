"""What CTranslate2 is asked, and what its answers mean, on a stand-in of its package."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whisper_hailo.backends.ctranslate2 import CTranslate2Recognizer
from whisper_hailo.core.errors import ModelError, ShapeError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.option_groups import SearchOptions, TokenLimits
from whisper_hailo.decoding.options import Cures, DecodingOptions

SAID: list[Any] = []
"""Results of each row of the next batch."""


class Model:
    """`ctranslate2.models.Whisper`: notes what it is asked."""

    compute_type = "int8_float32"

    def __init__(self, path: str, *, device: str, intra_threads: int) -> None:
        assert (Path(path).name, device, intra_threads) == ("ct2", "cpu", 3)
        self.asked: list[tuple[FloatArray, Any, dict[str, Any]]] = []

    def generate(self, features: FloatArray, prompts: Any, **options: Any) -> list[Any]:
        self.asked.append((features, prompts, options))
        return SAID

    def detect_language(self, features: FloatArray) -> Any:
        self.asked.append((features, None, {}))
        return [[("<|de|>", 0.75), ("<|en|>", 0.25)] for _ in features]


def _said(tokens: list[int], score: float, no_speech_prob: float = 0.0) -> Any:
    return SimpleNamespace(sequences_ids=[tokens], scores=[score], no_speech_prob=no_speech_prob)


@pytest.fixture
def folder(tmp_path: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A converted toy, and the package."""
    package = ModuleType("ctranslate2")
    package.__spec__ = ModuleSpec("ctranslate2", None)
    vars(package).update(
        models=SimpleNamespace(Whisper=Model),
        StorageView=SimpleNamespace(from_array=lambda array: array),
    )
    monkeypatch.setitem(sys.modules, "ctranslate2", package)
    monkeypatch.setattr(sys.modules[__name__], "SAID", [_said([], 0.0)] * 3)
    names = [f"t{number}" for number in range(spec.dims.n_vocab)]
    names[spec.tokens.sot], names[spec.tokens.eot] = "<|startoftranscript|>", "<|endoftext|>"
    path = tmp_path / "ct2"
    path.mkdir()
    (path / "vocabulary.json").write_text(json.dumps(names))
    (path / "config.json").write_text(json.dumps({"suppress_ids_begin": [21, 10]}))
    return path


@pytest.fixture
def asking(spec: ModelSpec) -> ModelSpec:
    """The toy, with tokens that are not to be said."""
    return replace(spec, tokens=replace(spec.tokens, suppress=(40, 41), begin_suppress=(10, 21)))


def _opened(folder: Path, spec: ModelSpec) -> tuple[CTranslate2Recognizer, Any]:
    recognizer = CTranslate2Recognizer(folder, spec, threads=3)
    assert recognizer.name == "ctranslate2"
    model: Any = recognizer.open()._model
    assert recognizer.name == "ctranslate2-int8_float32"
    model.asked.clear()
    return recognizer, model


def test_every_option_and_every_row_reach_the_engine(folder: Path, asking: ModelSpec) -> None:
    recognizer, model = _opened(folder, asking)
    options = DecodingOptions(
        max_new_tokens=5,
        cures=Cures(pad_to=120, repetition_penalty=1.3),
        search=SearchOptions(beam_size=4, patience=2.0),
        limits=TokenLimits(suppress=(77,), no_repeat_ngram=3),
    )
    features = np.random.default_rng(0).standard_normal((3, 100, 64)).astype(np.float32)
    recognizer.check(options)
    assert len(recognizer.recognize(features, (11, 12, 13), options)) == 3
    ((fed, prompts, told),) = model.asked
    np.testing.assert_array_equal(fed[:, :100], features)
    assert (fed.shape, fed[:, 100:].any()) == ((3, 120, 64), False)
    assert prompts == [[11, 12, 13]] * 3
    assert (told["beam_size"], told["patience"]) == (4, 2.0)
    assert (told["repetition_penalty"], told["no_repeat_ngram_size"]) == (1.3, 3)
    assert told["suppress_blank"] is True
    assert {77, asking.tokens.sot} <= set(told["suppress_tokens"])
    assert not {40, 41} & set(told["suppress_tokens"])
    with pytest.raises(ShapeError, match="64"):
        recognizer.recognize(features[..., :32], (11,), options)


def test_where_nothing_is_asked_the_models_own_tokens_are_not_said(
    folder: Path, asking: ModelSpec
) -> None:
    recognizer, model = _opened(folder, asking)
    recognizer.recognize(np.zeros((1, 100, 64), np.float32), (11,), DecodingOptions())
    assert {40, 41} <= set(model.asked[0][2]["suppress_tokens"])


@pytest.mark.parametrize(("budget", "n_prefix"), [(5, 3), (2, 30), (20, 1)])
def test_the_budget_is_what_the_engine_leaves_of_its_length(
    folder: Path, asking: ModelSpec, budget: int, n_prefix: int
) -> None:
    """It takes the smaller of half of it and of what the prefix leaves of it."""
    recognizer, model = _opened(folder, asking)
    options = DecodingOptions(max_new_tokens=budget)
    recognizer.recognize(np.zeros((1, 100, 64), np.float32), (11,) * n_prefix, options)
    length = model.asked[0][2]["max_length"]
    assert min(length // 2, length - n_prefix) == budget


def test_probabilities_count_the_end_and_texts_that_fill_the_budget_run_away(
    folder: Path, asking: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    recognizer, _ = _opened(folder, asking)
    # Its score is the sum over the tokens without the end: -1.5, -0.9, -2 in all.
    said = [_said([50, 51], -0.75, 0.25), _said([], -0.9), _said([50, 51, 52, 53], -0.5)]
    monkeypatch.setattr(sys.modules[__name__], "SAID", said)
    options = DecodingOptions(max_new_tokens=4)
    found = recognizer.recognize(np.zeros((3, 100, 64), np.float32), (11,), options)
    assert [one.tokens for one in found] == [(50, 51), (), (50, 51, 52, 53)]
    expected = (-1.5 / 3, -0.9, -2 / 5)
    assert [one.avg_logprob for one in found] == pytest.approx(expected)
    assert [one.runaway for one in found] == [False, False, True]
    assert found[0].no_speech_prob == 0.25


def test_the_language_is_that_of_the_first_row(folder: Path, asking: ModelSpec) -> None:
    recognizer, model = _opened(folder, asking)
    features = np.random.default_rng(0).standard_normal((2, 100, 64)).astype(np.float32)
    found = recognizer.detect_language(features)
    assert list(found.items()) == [("de", 0.75), ("en", 0.25)]
    np.testing.assert_array_equal(model.asked[0][0], features[:1])


Change = Callable[[list[str]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda names: names.append("more"), "has 201 tokens, .* has 200; decoder and --model"),
        (lambda names: names.__setitem__(11, "t11"), "calls token 11 't11', expected '<.startof"),
        (lambda names: names.__setitem__(10, "t10"), "calls token 10 't10', expected '<.endof"),
    ],
)
def test_vocabularies_of_other_models_are_refused(
    folder: Path, asking: ModelSpec, change: Change, message: str
) -> None:
    path = folder / "vocabulary.json"
    names = json.loads(path.read_text())
    change(names)
    path.write_text(json.dumps(names))
    with pytest.raises(ModelError, match=message):
        CTranslate2Recognizer(folder, asking)


@pytest.mark.parametrize("held", [{"suppress_ids_begin": [10]}, {}, {"suppress_ids_begin": "x"}])
def test_other_tokens_that_never_come_first_are_refused(
    folder: Path, asking: ModelSpec, held: dict[str, Any]
) -> None:
    (folder / "config.json").write_text(json.dumps(held))
    with pytest.raises(ModelError, match=r"suppress_ids_begin.*; convert the checkpoint"):
        CTranslate2Recognizer(folder, asking)
