"""How the parts of a model are found by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.shapes import toy_spec
from tests.unit.transcription.made_up_words import TOKENIZER
from tests.unit.transcription.test_decoder_engine import Rows
from tests.unit.transcription.test_pipeline import ENCODER, parts
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.spec import FileRecord
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.pipeline import Pipeline, _tokenizer_file
from whisper_hailo.transcription.transcriber import Transcriber

PARTS = "whisper_hailo.transcription.pipeline"


def test_a_model_s_own_tokenizer_is_compared_with_its_record_and_another_s_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.transcription.pipeline.model_file", lambda *_: Path("compared")
    )
    listed = replace(toy_spec(), files={"tokenizer.json": FileRecord(1, "ab")})
    assert _tokenizer_file(Path("model"), listed) == Path("compared")
    assert _tokenizer_file(Path("model"), toy_spec()) == Path("model/tokenizer.json")


def test_a_model_is_asked_for_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def find(model: str, **how: object) -> Pipeline:
        asked.append((model, how))
        return parts(Rows())

    monkeypatch.setattr(Pipeline, "of_model", find)
    Transcriber.from_model()
    unsaid = dict.fromkeys(("revision", "window_s", "margin_s"))
    own = {"convert": ConvertOptions(), "engine": EngineOptions(), "threads": 0}
    assert asked.pop() == ("tiny", {**unsaid, **own})
    Transcriber.from_model("base", revision="a", window_s=5, margin_s=0.5, threads=2)
    (model, how) = asked.pop()
    told = (model, how["revision"], how["window_s"], how["margin_s"], how["threads"])
    assert told == ("base", "a", 5, 0.5, 2)


@pytest.mark.parametrize("given", [None, Path("elsewhere/tokenizer.json")])
def test_a_model_is_looked_for_as_asked_and_runs_as_asked(
    monkeypatch: pytest.MonkeyPatch, given: Path | None
) -> None:
    """With a tokenizer of one's own, and so many threads."""
    asked: list[Any] = []
    loaded: list[Path] = []

    def find(model: str, convert: ConvertOptions | None, **how: Any) -> Any:
        asked.append((model, convert, how))
        return Path("found"), toy_spec()

    def load(path: Path, _: object) -> Any:
        loaded.append(path)
        return TOKENIZER

    monkeypatch.setattr(f"{PARTS}.find_model", find)
    chosen = SimpleNamespace(encoder=ENCODER, decoder=Rows(), reasons=("why",))
    monkeypatch.setattr(f"{PARTS}.select", lambda *_: chosen)
    monkeypatch.setattr(f"{PARTS}.engine_window_s", lambda *_: 5.0)
    monkeypatch.setattr(f"{PARTS}.Tokenizer", SimpleNamespace(load=load))
    convert = ConvertOptions("int8")
    own = Pipeline.of_model(
        "tiny",
        revision="v1",
        convert=convert,
        window_s=None,
        margin_s=0.5,
        threads=3,
        engine=EngineOptions(tokenizer=given),
    )
    assert asked == [("tiny", convert, {"revision": "v1", "tokenizer": given})]
    assert loaded == [given or Path("found/tokenizer.json")]
    assert (own.plan.window_s, own.plan.margin_s, own.reasons) == (5.0, 0.5, ("why",))
    assert own.settings(DecodingOptions(), None, 1).threads == 3
