"""A small model beside a large one: which fit, when it is heard, and when it is left out."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.shapes import TOY_TOKENS, toy_spec
from tests.unit.transcription.made_up_engine import Chip
from tests.unit.transcription.made_up_words import TOKENIZER, window
from tests.unit.transcription.test_decoder_engine import Rows
from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.backends.options import ChipOptions, EngineOptions
from whisper_hailo.backends.select import SelectedEngine as Chosen
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import ENCODER_FILE, ModelSpec
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray, Word
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.decoding.search.draft_decoder import DraftStats, draft_cost, is_promising
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.draft_model import DraftModel, DraftTarget, why_not_drafted
from whisper_hailo.transcription.schedule import RecordingList
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo.transcription.window import Context, Encoded, WindowRequest

DEMO = Path(__file__).parents[3] / "src/whisper_hailo/assets/demo.flac"
COST = 0.15
NO_GAIN = DraftStats(COST, n_tokens=99, n_passes=99, n_steps=9)


class Ears:
    """An encoder that gives its number."""

    n_frames = None

    def __init__(self, number: float, n_mels: int = 80) -> None:
        self.number = number
        self.spec = replace(toy_spec(), dims=replace(toy_spec().dims, n_mels=n_mels))
        self.heard: list[tuple[int, ...]] = []

    def encode(self, mel: FloatArray) -> FloatArray:
        self.heard.append(mel.shape)
        return np.full((len(mel), 1, 1), self.number, np.float32)


def stages(draft: Ears | None, *, n_mels: int = 80) -> Stages:
    """The large model's ears give 1."""
    model = DraftModel("toy", draft, None, DraftStats(COST))  # type: ignore[arg-type]
    plan = WindowPlan(window_s=2.0, margin_s=1.0)
    return Stages(Ears(1.0, n_mels), None, plan, model)  # type: ignore[arg-type]


def request(tally: DraftStats | None = None) -> WindowRequest:
    return WindowRequest(Window(np.zeros(16_000, np.float32), 0.0), Context("en", tally=tally))


def test_both_models_hear_the_window() -> None:
    ears = Ears(2.0)
    encoded = stages(ears).encode([request(DraftStats(COST))])
    assert encoded.features is not None
    assert encoded.ahead is not None
    assert (encoded.features.item(), encoded.ahead.item()) == (1.0, 2.0)
    assert ears.heard == [(1, 80, 200)]


def test_both_hear_it_where_the_encoder_works_by_itself() -> None:
    own = stages(Ears(2.0))
    start = Stages(Chip(), None, own.plan, own.draft).start  # type: ignore[arg-type]
    assert start is not None
    encoded = start([request(DraftStats(COST))])()
    assert encoded.features is not None
    assert encoded.ahead is not None
    assert encoded.ahead.item() == 2.0


def test_models_with_as_many_mel_bins_are_shown_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def noted(audio: FloatArray, n_mels: int) -> FloatArray:
        made.append(n_mels)
        return log_mel(audio, n_mels)

    monkeypatch.setattr("whisper_hailo.transcription.stages.log_mel", noted)
    stages(Ears(2.0)).encode([request(DraftStats(COST))])
    assert made == [80]


def test_a_model_with_other_mel_bins_gets_its_own() -> None:
    ears = Ears(2.0, n_mels=80)
    stages(ears, n_mels=128).encode([request(DraftStats(COST))])
    assert ears.heard == [(1, 80, 200)]


def test_one_encoder_does_for_both_where_it_is_the_same() -> None:
    encoded = stages(None).encode([request(DraftStats(COST))])
    assert encoded.ahead is encoded.features


def test_who_is_left_out_hears_nothing() -> None:
    ears = Ears(2.0)
    assert not NO_GAIN.is_profitable
    assert stages(ears).encode([request(NO_GAIN)]).ahead is None
    assert stages(ears).encode([request()]).ahead is None, "nothing would decode ahead"
    assert stages(ears).encode([request(DraftStats(COST))] * 2).ahead is None
    assert ears.heard == []


def test_what_last_window_said_of_shared_seconds_is_known() -> None:
    words = [Word(float(at), at + 0.5, f" {at}", 1.0, (at, 10 + at)) for at in range(4)]
    context = Context("en", last_words=tuple(words))
    assert context.said_from(2.0) == (2, 12, 3, 13)
    assert context.said_from(3.5) == ()


@pytest.mark.parametrize(
    ("options", "batch_size", "why"),
    [
        (DecodingOptions(), 1, None),
        (DecodingOptions(), 4, "4 windows at a time take no drafts; give --batch-size 1"),
        (DecodingOptions(search=SearchOptions(beam_size=5)), 1, "a beam of 5 takes no drafts"),
        (
            DecodingOptions(search=SearchOptions((0.4,))),
            1,
            "tokens that are sampled take no drafts",
        ),
    ],
)
def test_some_decoding_takes_no_drafts(
    options: DecodingOptions, batch_size: int, why: str | None
) -> None:
    assert why_not_drafted(options, batch_size) == why


@pytest.fixture(scope="module")
def helped() -> Iterator[Transcriber]:
    """`micro`, ahead of which it decodes itself: all that it drafts is right."""
    convert = ConvertOptions("none", "none")
    with Transcriber.from_model(
        "micro", convert=convert, threads=1, draft_model="micro", draft_tokens=5
    ) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def alone() -> Iterator[Transcriber]:
    """`micro` by itself."""
    convert = ConvertOptions("none", "none")
    with Transcriber.from_model("micro", convert=convert, threads=1) as transcriber:
        yield transcriber


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="plain"),
        pytest.param({"timestamps": True}, id="timestamps", marks=pytest.mark.slow),
        pytest.param({"words": True}, id="words", marks=pytest.mark.slow),
        pytest.param({"initial_prompt": "The weather."}, id="prompt", marks=pytest.mark.slow),
    ],
)
def test_the_text_is_that_of_the_model_alone(
    helped: Transcriber, alone: Transcriber, options: dict[str, Any]
) -> None:
    drafted = helped.transcribe(DEMO, batch_size=1, **options)
    plain = alone.transcribe(DEMO, batch_size=1, **options)
    assert [one.text for one in drafted.segments] == [one.text for one in plain.segments]
    assert [one.start_s for one in drafted.segments] == [one.start_s for one in plain.segments]
    assert drafted.settings.draft_model == "micro"
    assert plain.settings.draft_model == ""


def test_a_recording_is_decoded_in_fewer_passes(
    helped: Transcriber, caplog: pytest.LogCaptureFixture
) -> None:
    run = helped.run(helped.default_options)
    recording = run.recording(DEMO)
    with caplog.at_level(logging.INFO):
        list(run.schedule(RecordingList([recording])).run())
    assert "does not pay" not in caplog.text
    tally = recording.context.tally
    assert tally is not None
    assert tally.n_passes < tally.n_tokens / 3
    assert tally.n_accepted > tally.n_tokens / 2


def test_audio_that_goes_on_is_helped_too(helped: Transcriber, alone: Transcriber) -> None:
    audio = np.random.default_rng(0).normal(0, 0.01, 32_000).astype(np.float32)
    options = replace(helped.default_options, max_new_tokens=40)
    assert helped.transcribe_running(audio, options).words == (
        alone.transcribe_running(audio, options).words
    )


def test_a_beam_leaves_the_draft_model_out_and_says_so(
    helped: Transcriber, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        run = helped.run(replace(helped.default_options, search=SearchOptions(beam_size=2)))
        recording = run.recording(DEMO)
    assert "draft model micro is left out: a beam of 2 takes no drafts" in caplog.messages
    assert recording.context.tally is None


def test_several_windows_at_a_time_leave_the_draft_model_out(
    helped: Transcriber, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        drafted = helped.transcribe(DEMO, batch_size=4)
    assert any("4 windows at a time take no drafts" in text for text in caplog.messages)
    assert drafted.settings.draft_model == ""


def test_unprofitable_draft_model_is_left_out_and_told(
    helped: Transcriber, caplog: pytest.LogCaptureFixture
) -> None:
    run = helped.run(helped.default_options)
    recording = run.recording(DEMO)
    recording.context.tally = replace(NO_GAIN, n_tokens=60, n_passes=300)
    assert recording.context.tally.is_profitable, "it is tried still"
    with caplog.at_level(logging.INFO):
        list(run.schedule(RecordingList([recording])).run())
    told = [text for text in caplog.messages if "does not pay here" in text]
    assert len(told) == 1
    assert not recording.context.tally.is_profitable


@pytest.mark.slow
def test_unpromising_draft_model_is_not_loaded_and_told() -> None:
    with Transcriber.from_model("micro", threads=1, draft_model="micro") as transcriber:
        assert sorted(transcriber.parts) == ["decoder", "encoder"]
        assert transcriber.transcribe(DEMO, batch_size=1).settings.draft_model == ""
    assert re.search(r"micro is left out.* 1\.00 times", transcriber.reasons[-1])


def test_one_encoder_is_found_by_its_hash(helped: Transcriber) -> None:
    assert sorted(helped.parts) == ["decoder", "draft decoder", "encoder"]
    assert "encoder onnx-fp32 of micro" in helped.reasons[-1]


def test_a_draft_model_with_another_vocabulary_is_refused(tmp_path: Path) -> None:
    model = _model_with_vocabulary(tmp_path, 51_864)
    with pytest.raises(OptionError, match=r"51864 .*51865"):
        Transcriber.from_model("micro", draft_model=str(model))


def _model_with_vocabulary(folder: Path, n_vocab: int) -> Path:
    spec = toy_spec()
    spec = replace(spec, dims=replace(spec.dims, n_vocab=n_vocab))
    (folder / "model.json").write_text(spec.to_json(), encoding="utf-8")
    return folder


def test_drafts_need_a_model_and_a_length() -> None:
    with pytest.raises(OptionError, match="--draft-model"):
        EngineOptions(draft_tokens=4)
    with pytest.raises(OptionError, match="draft-tokens is 17"):
        EngineOptions(draft_model="tiny", draft_tokens=17)


def test_encoded_windows_carry_nothing_ahead_without_draft_model() -> None:
    plain = Stages(Ears(1.0), None, WindowPlan(window_s=2.0, margin_s=1.0))  # type: ignore[arg-type]
    for tally in (None, DraftStats(COST)):
        encoded = plain.encode([request(tally)])
        assert encoded.ahead is None
    assert isinstance(encoded.clock, StageClock)


SELECT = "whisper_hailo.transcription.draft_model.select"
FIND = "whisper_hailo.transcription.draft_model.find_model"


def spec_of(encoder: str | None) -> ModelSpec:
    """With an encoder's file of this hash."""
    return replace(toy_spec(), files={} if encoder is None else {ENCODER_FILE: encoder})


def with_draft(
    spec: ModelSpec, name: str = "tiny", encoder: Any = None, **engine: Any
) -> DraftTarget:
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
def test_one_encoder_serves_both_if_graph_and_engine_are_equal(
    main: str | None, own: str | None, running: str, is_same: bool
) -> None:
    found = with_draft(spec_of(main), encoder=encoder("onnx"))
    assert found.has_same_encoder(spec_of(own), encoder(running)) is is_same


def test_an_encoder_of_somebody_else_is_no_model_s_own() -> None:
    spec = spec_of("abc")
    given = with_draft(spec, encoder=encoder("onnx"), encoder_backend="onnx")
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
        draft, why = DraftModel.of_model(with_draft(toy_spec()), None, 1)
        assert draft is None
        assert why.startswith("draft model toy is left out")
    else:
        with pytest.raises(OptionError, match="--draft-model is tiny"):
            DraftModel.of_model(with_draft(toy_spec()), None, 1)


@pytest.mark.parametrize("given", [None, ConvertOptions("int8", half=True)])
def test_draft_decoder_gets_four_bits_and_its_encoder_the_form(
    monkeypatch: pytest.MonkeyPatch, given: ConvertOptions | None
) -> None:
    asked: list[ConvertOptions | None] = []

    def find(name: str, convert: ConvertOptions | None) -> tuple[Path, ModelSpec]:
        asked.append(convert)
        return Path(name), toy_spec()

    monkeypatch.setattr(FIND, find)
    spec = replace(toy_spec(), encoder_quantization="int8")
    for name in ("tiny", "openai/whisper-tiny"):
        DraftModel.of_model(with_draft(spec, name), given, 1)
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
    DraftModel.of_model(with_draft(toy_spec(), str(tmp_path)), ConvertOptions(), 1)
    assert asked == [None]


@pytest.mark.parametrize(
    ("asked", "backend"), [("onnx", "onnx"), ("auto", "auto"), ("hailo", "auto")]
)
def test_draft_model_hears_through_the_processor_if_asked(
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
    wanted = with_draft(
        toy_spec(), encoder=encoder("onnx"), encoder_backend=asked, draft_tokens=3, hailo=chip
    )
    draft, how = DraftModel.of_model(wanted, None, 1)
    assert draft is not None
    assert given == [EngineOptions(hailo=chip, encoder_backend=backend)]
    assert draft.encoder is not None
    assert draft.tally() == DraftStats(draft_cost(toy_spec(), small), 3)
    assert how == "draft model small, rows: hears through encoder other"


def test_a_draft_model_takes_the_model_s_windows_or_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(_: Chosen, spec: ModelSpec, window_s: float) -> float:
        raise OptionError(f"{spec.name} takes no {window_s:g} s")

    monkeypatch.setattr(FIND, lambda *_: (Path("draft"), toy_spec()))
    monkeypatch.setattr(SELECT, lambda *_: Chosen(encoder("onnx"), Rows(), ()))  # type: ignore[arg-type]
    monkeypatch.setattr("whisper_hailo.transcription.draft_model.engine_window_s", check)
    with pytest.raises(OptionError, match="10 s"):
        DraftModel.of_model(with_draft(toy_spec(), draft_tokens=3), None, 1)


def test_window_of_the_large_model_alone_is_decoded_by_it() -> None:
    """It was encoded when drafts did not pay; a window decoded meanwhile made them pay again."""
    small = Rows()
    tally = DraftStats(COST, always=2)
    draft = DraftModel("toy", None, small, tally)  # type: ignore[arg-type]
    options = DecodingOptions(language="en")
    engine = DecoderEngine(Rows(), TOKENIZER, options, 30.0, draft)  # type: ignore[arg-type]
    features = np.ones((1, 1, 1), np.float32)
    request = WindowRequest(window(1), engine.context())
    (heard,) = run_steps(engine.steps(Encoded(features, StageClock()), [request]))
    assert heard.segments[0].text == "w1 w1"
    assert small.fed == []


def test_promising_draft_model_is_taken_and_others_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a number of tokens, which takes any."""
    large = replace(toy_spec(), dims=replace(toy_spec().dims, d_model=512, n_decoder_layers=12))
    small = replace(toy_spec(), name="small")
    assert is_promising(draft_cost(large, small))
    monkeypatch.setattr(FIND, lambda *_: (Path("draft"), small))
    monkeypatch.setattr(SELECT, lambda *_: Chosen(encoder("onnx"), Rows(), ()))  # type: ignore[arg-type]
    monkeypatch.setattr("whisper_hailo.transcription.draft_model.engine_window_s", lambda *_: 10.0)
    draft, _ = DraftModel.of_model(with_draft(large, encoder=encoder("onnx")), None, 1)
    assert draft is not None
    assert draft.running.always is None
    draft, why = DraftModel.of_model(with_draft(toy_spec(), encoder=encoder("onnx")), None, 1)
    assert draft is None
    assert why.startswith("draft model small is left out")
