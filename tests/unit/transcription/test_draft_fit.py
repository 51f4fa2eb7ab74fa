"""Which draft models fit a model, how they are converted, and whose encoder does for both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.shapes import TOY_TOKENS, toy_spec
from tests.unit.transcription.made_up_words import TOKENIZER, window
from tests.unit.transcription.test_decoder_engine import Rows
from whisper_hailo.backends.hailo.options import ChipOptions
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import SelectedEngine as Chosen
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import ENCODER_FILE, ModelSpec
from whisper_hailo.core.timing import StageClock
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.draft_decoder import Costs, DraftStats
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.draft_model import DraftModel, DraftTarget
from whisper_hailo.transcription.window import Encoded, WindowRequest

SELECT = "whisper_hailo.transcription.draft_model.select"
FIND = "whisper_hailo.transcription.draft_model.find_model"


def spec_of(encoder: str | None) -> ModelSpec:
    """With an encoder's file of this hash."""
    return replace(toy_spec(), files={} if encoder is None else {ENCODER_FILE: encoder})


def helped(spec: ModelSpec, name: str = "tiny", encoder: Any = None, **engine: Any) -> DraftTarget:
    chosen = Chosen(encoder, Rows(), ())  # type: ignore[arg-type]
    return DraftTarget(name, spec, chosen, EngineOptions(draft_model=name, **engine), 10.0)


def encoder(name: str) -> Any:
    return SimpleNamespace(name=name)


@pytest.mark.parametrize(
    ("main", "own", "running", "is_same"),
    [
        ("abc", "abc", "onnx", True),
        ("abc", "abd", "onnx", False),
        ("abc", "abc", "hef", False),
        ("abc", None, "onnx", False),
        (None, None, "onnx", False),
    ],
)
def test_one_encoder_does_for_both_where_graph_and_engine_are_the_same(
    main: str | None, own: str | None, running: str, is_same: bool
) -> None:
    found = helped(spec_of(main), encoder=encoder("onnx"))
    assert found.has_same_encoder(spec_of(own), encoder(running)) is is_same


def test_an_encoder_of_somebody_else_is_no_model_s_own() -> None:
    spec = spec_of("abc")
    given = helped(spec, encoder=encoder("onnx"), encoder_backend="onnx")
    assert given.has_same_encoder(spec, encoder("onnx"))
    asked = replace(given, engine=replace(given.engine, encoder=Path("other.hef")))
    assert not asked.has_same_encoder(spec, encoder("onnx"))


@pytest.mark.parametrize(
    ("own", "fits"),
    [
        (toy_spec(), True),
        (toy_spec(replace(TOY_TOKENS, suppress=(), begin_suppress=(1,))), True),
        (toy_spec(replace(TOY_TOKENS, eot=9)), False),
        (toy_spec(replace(TOY_TOKENS, languages={"en": 12})), False),
        (replace(toy_spec(), dims=replace(toy_spec().dims, n_vocab=31)), False),
    ],
    ids=["the same", "other lists of what is not said", "ends", "languages", "size"],
)
def test_every_id_has_to_be_the_same_token_in_both(
    monkeypatch: pytest.MonkeyPatch, own: ModelSpec, fits: bool
) -> None:
    monkeypatch.setattr(FIND, lambda *_: (Path("draft"), own))
    if fits:  # this one is as large as the model, so that it promises nothing
        draft, why = DraftModel.of_model(helped(toy_spec()), None, 1)
        assert draft is None
        assert why.startswith("draft model toy is left out")
    else:
        with pytest.raises(OptionError, match=r"--draft-model is tiny .* the same vocabulary"):
            DraftModel.of_model(helped(toy_spec()), None, 1)


@pytest.mark.parametrize("given", [None, ConvertOptions("int8", half=True)])
def test_a_checkpoint_s_decoder_gets_four_bits_and_its_encoder_the_model_s_form(
    monkeypatch: pytest.MonkeyPatch, given: ConvertOptions | None
) -> None:
    asked: list[ConvertOptions | None] = []

    def find(name: str, convert: ConvertOptions | None) -> tuple[Path, ModelSpec]:
        asked.append(convert)
        return Path(name), toy_spec()

    monkeypatch.setattr(FIND, find)
    spec = replace(toy_spec(), encoder_quantization="int8")
    for name in ("tiny", "openai/whisper-tiny"):
        DraftModel.of_model(helped(spec, name), given, 1)
    expected = replace(given or ConvertOptions(), quantize="int4", encoder_quantize="int8")
    assert asked == [expected, expected]


def test_a_model_directory_is_used_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "model.json").write_text(toy_spec().to_json(), encoding="utf-8")
    asked: list[ConvertOptions | None] = []

    def find(name: str, convert: ConvertOptions | None) -> tuple[Path, ModelSpec]:
        asked.append(convert)
        return Path(name), toy_spec()

    monkeypatch.setattr(FIND, find)
    DraftModel.of_model(helped(toy_spec(), str(tmp_path)), ConvertOptions(), 1)
    assert asked == [None]


@pytest.mark.parametrize(
    ("asked", "backend"), [("onnx", "onnx"), ("auto", "auto"), ("hailo", "auto")]
)
def test_a_draft_model_hears_through_the_processor_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: str, backend: str
) -> None:
    """And the rest of what was asked for is the large model's, but for the chip."""
    given: list[EngineOptions] = []

    def choose(directory: Path, spec: ModelSpec, engine: EngineOptions, *_: object) -> Chosen:
        given.append(engine)
        return Chosen(encoder("other"), Rows(), ())  # type: ignore[arg-type]

    small = replace(toy_spec(), name="small", dims=replace(toy_spec().dims, d_model=32))
    monkeypatch.setattr(FIND, lambda *_: (Path("draft"), small))
    monkeypatch.setattr(SELECT, choose)
    monkeypatch.setattr("whisper_hailo.transcription.draft_model.engine_window_s", lambda *_: 10.0)
    chip = ChipOptions(share=True)
    wanted = helped(
        toy_spec(), encoder=encoder("onnx"), encoder_backend=asked, draft_tokens=3, hailo=chip
    )
    draft, how = DraftModel.of_model(wanted, None, 1)
    assert draft is not None
    assert given == [EngineOptions(hailo=chip, encoder_backend=backend)]
    assert draft.encoder is not None
    assert draft.tally() == DraftStats(Costs.of(toy_spec(), small), 3)
    assert draft.tally().costs.step < 1.0
    assert how == "draft model small, rows: hears through encoder other"


def test_a_draft_model_takes_the_model_s_windows_or_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(_: Chosen, spec: ModelSpec, window_s: float) -> float:
        raise OptionError(f"{spec.name} takes no {window_s:g} s")

    monkeypatch.setattr(FIND, lambda *_: (Path("draft"), toy_spec()))
    monkeypatch.setattr(SELECT, lambda *_: Chosen(encoder("onnx"), Rows(), ()))  # type: ignore[arg-type]
    monkeypatch.setattr("whisper_hailo.transcription.draft_model.engine_window_s", check)
    with pytest.raises(OptionError, match="toy takes no 10 s"):
        DraftModel.of_model(helped(toy_spec(), draft_tokens=3), None, 1)


def test_a_window_that_only_the_large_model_heard_is_decoded_by_it_alone() -> None:
    """It was encoded when drafts did not pay; a window decoded meanwhile made them pay again."""
    small = Rows()
    tally = DraftStats(Costs(0.1, 0.05), always=2)
    draft = DraftModel("toy", None, small, tally)  # type: ignore[arg-type]
    options = DecodingOptions(language="en")
    engine = DecoderEngine(Rows(), TOKENIZER, options, 30.0, draft)  # type: ignore[arg-type]
    features = np.ones((1, 1, 1), np.float32)
    request = WindowRequest(window(1), engine.context())
    (heard,) = run_steps(engine.steps(Encoded(features, StageClock()), [request]))
    assert heard.segments[0].text == "w1 w1"
    assert small.fed == []


def test_one_that_promises_a_gain_is_taken_and_one_that_does_not_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a number of tokens, which takes any."""
    large = replace(toy_spec(), dims=replace(toy_spec().dims, d_model=512, n_decoder_layers=12))
    small = replace(toy_spec(), name="small")
    assert Costs.of(large, small).is_promising
    monkeypatch.setattr(FIND, lambda *_: (Path("draft"), small))
    monkeypatch.setattr(SELECT, lambda *_: Chosen(encoder("onnx"), Rows(), ()))  # type: ignore[arg-type]
    monkeypatch.setattr("whisper_hailo.transcription.draft_model.engine_window_s", lambda *_: 10.0)
    draft, _ = DraftModel.of_model(helped(large, encoder=encoder("onnx")), None, 1)
    assert draft is not None
    assert draft.running.always is None
    draft, why = DraftModel.of_model(helped(toy_spec(), encoder=encoder("onnx")), None, 1)
    assert draft is None
    assert why.startswith("draft model small is left out, since ahead of toy with none weights")
