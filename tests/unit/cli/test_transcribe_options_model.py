"""Options of the model and its engine as `Transcriber.from_model` is given them."""

from __future__ import annotations

import logging
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.messages import missing_data
from tests.fakes.settings_file import given
from tests.unit.cli.commands.test_transcribe_options import Listener
from whisper_hailo.backends.options import ChipPriority, EngineOptions
from whisper_hailo.cli.app import run
from whisper_hailo.cli.messages import Verbosity, set_verbosity
from whisper_hailo.cli.transcribe_options import ModelOptions, log_engine
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.transcriber import Transcriber

GIVEN: list[tuple[str, str, object]] = [
    ("--model base", "model", "base"),
    ("-m base", "model", "base"),
    ("--revision abc", "revision", "abc"),
    ("--quantize none", "convert.quantize", "none"),
    ("--encoder-quantize int4", "convert.encoder_quantize", "int4"),
    ("--window 9.5", "window_s", 9.5),
    ("| margin-s = 0.5", "margin_s", 0.5),
    ("--threads 3", "threads", 3),
    ("-t 3", "threads", 3),
    ("--encoder e.hef", "engine.encoder", Path("e.hef")),
    ("--decoder d", "engine.decoder", Path("d")),
    ("--encoder-backend hailo", "engine.encoder_backend", "hailo"),
    ("--decoder-backend optimum", "engine.decoder_backend", "optimum"),
    ("--decoder-assets a", "engine.decoder_assets", Path("a")),
    ("--tokenizer t.json", "engine.tokenizer", Path("t.json")),
    ("--share", "engine.hailo.share", True),
    ("| device-timeout = 3", "engine.hailo.timeout_s", 3.0),
    ("", "engine.hailo.priority", ChipPriority.BATCH),
]


@pytest.fixture
def from_model_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[dict[str, Any]]:
    """Arguments of each call of `Transcriber.from_model`."""
    calls: list[dict[str, Any]] = []

    def from_model(**given: Any) -> Listener:
        calls.append(given)
        return Listener()

    monkeypatch.setattr(Transcriber, "from_model", from_model)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.wav").write_text("some sound")
    return calls


@pytest.mark.parametrize(("words", "path", "expected"), GIVEN)
def test_model_option_reaches_from_model(
    from_model_calls: list[dict[str, Any]],
    tmp_path: Path,
    words: str,
    path: str,
    expected: object,
) -> None:
    assert run(["transcribe", "a.wav", *given(words, tmp_path)]) == 0
    (arguments,) = from_model_calls
    assert attrgetter(path)(SimpleNamespace(**arguments)) == expected
    changed = {path.partition(".")[0], "engine"}
    usual = {
        "model": "tiny", "revision": None, "convert": ConvertOptions(), "window_s": None,
        "margin_s": None, "threads": 0,
    }  # fmt: skip
    assert {name: arguments[name] for name in usual if name not in changed} == {
        name: value for name, value in usual.items() if name not in changed
    }
    assert {*arguments} == {*usual, "engine"}


def test_model_options_arguments_carry_priority() -> None:
    options = ModelOptions(engine=EngineOptions(decoder=Path("d")))
    for priority in ChipPriority:
        engine = options.arguments(priority)["engine"]
        assert (engine.hailo.priority, engine.decoder) == (priority, Path("d"))


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ({"threads": 0}, True), ({"threads": 256}, True), ({"threads": 257}, False),
        ({"threads": -1}, False), ({"window": 0.02}, True), ({"window": 0.019}, False),
        ({"window": 30.0}, True), ({"window": 30.01}, False), ({"window": float("nan")}, False),
    ],
)  # fmt: skip
def test_model_options_out_of_range_are_refused(
    values: dict[str, Any], fits: bool
) -> None:
    if fits:
        ModelOptions(**values)
        return
    (name,) = values
    with pytest.raises(OptionError, match=f"--{name}"):
        ModelOptions(**values)


@pytest.mark.parametrize(
    ("model", "language", "task", "data"),
    [
        ("tiny", "de", "translate", ""),
        ("tiny.en", "en", "transcribe", ""),
        ("tiny.en", "auto", "transcribe", ""),
        ("tiny.en", "de", "transcribe", "--language de tiny.en '--model tiny'"),
        ("base.en", "auto", "translate", "--task translate base.en '--model base'"),
        ("./there.en", "de", "translate", ""),
        ("tiny", "yue", "transcribe", ""),
    ],
)  # fmt: skip
def test_expect_language_en_model_refuses_other_language(
    *, model: str, language: str, task: str, data: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.en").mkdir()
    options = DecodingOptions(language=language, task=task)
    if not data:
        ModelOptions(model).expect_language(options)
        return
    with pytest.raises(OptionError) as refused:
        ModelOptions(model).expect_language(options)
    assert not missing_data(str(refused.value), data)


def test_log_engine_follows_verbosity(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transcriber: Any = SimpleNamespace(
        reasons=("encoder a: why: so", "decoder b: because")
    )
    for verbose, told in (
        (False, ["encoder a, decoder b"]),
        (True, list(transcriber.reasons)),
    ):
        caplog.clear()
        set_verbosity(Verbosity(verbose=verbose))
        log_engine(transcriber)
        assert caplog.messages == told
    caplog.clear()
    set_verbosity(Verbosity())
    log_engine(SimpleNamespace(reasons=()))  # type: ignore[arg-type]
    assert caplog.messages == []
    assert logging.getLogger("whisper_hailo").level == logging.INFO
