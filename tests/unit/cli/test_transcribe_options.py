"""Options of the model, its engine, temperatures, and destinations of results."""

from __future__ import annotations

import logging
import math
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.commands import given, missing_data
from tests.unit.cli.commands.test_transcribe_options import Listener
from whisper_hailo.backends.options import ChipPriority, EngineOptions
from whisper_hailo.cli.app import run
from whisper_hailo.cli.inputs import Input
from whisper_hailo.cli.messages import Verbosity, set_verbosity
from whisper_hailo.cli.sink import Sink
from whisper_hailo.cli.transcribe_options import (
    Fallback,
    ModelOptions,
    OutputOptions,
    log_engine,
)
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.decoding.options import (
    DEFAULT_TEMPERATURES,
    FALLBACK_STEP,
    DecodingOptions,
)
from whisper_hailo.transcription.transcriber import Transcriber

TALK = Input("talk.mp3", Path("talk.mp3"), Path("talk"))
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


def files(output: OutputOptions) -> list[str]:
    return [str(path) for _, path in Sink(output, [TALK]).result_files(TALK)]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (OutputOptions(output_dir=Path("subs")), ["subs/talk.txt"]),
        (OutputOptions(output_dir=Path("subs/a.srt")), ["subs/a.srt"]),
        (OutputOptions(("srt",), Path("a.b.SRT")), ["a.b.SRT"]),
        (OutputOptions(("srt", "vtt"), output_file=Path("a")), ["a.srt", "a.vtt"]),
        (OutputOptions(("srt",), Path(), output_file=Path("a.srt")), ["a.srt"]),
        (
            OutputOptions(("vtt",), Path("subs"), output_file=Path("a.b")),
            ["subs/a.b.vtt"],
        ),
    ],
)
def test_result_files_follow_output_names(
    output: OutputOptions, expected: list[str]
) -> None:
    assert files(output) == expected


def test_result_files_folder_with_suffix_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.srt").mkdir()
    assert files(OutputOptions(("srt",), Path("old.srt"))) == ["old.srt/talk.srt"]


@pytest.mark.parametrize("formats", [("vtt",), ("srt", "vtt"), ("all",)])
def test_output_options_suffix_of_other_format_is_refused(
    formats: tuple[str, ...],
) -> None:
    with pytest.raises(OptionError, match=r"--output-dir talk$"):
        OutputOptions(formats, Path("talk.srt"))


def test_output_options_unknown_suffix_is_refused() -> None:
    with pytest.raises(OptionError, match=r"\.ass\b"):
        OutputOptions(output_dir=Path("talk.ass"))


def test_sink_output_file_for_several_inputs_is_refused() -> None:
    expected = "--output-dir talk --format srt"
    for output in (
        OutputOptions(output_dir=Path("talk.srt")),
        OutputOptions(("srt",), output_file=Path("talk")),
    ):
        with pytest.raises(OptionError, match=expected):
            Sink(output, [TALK, TALK])


def test_require_folder_output_file_is_refused() -> None:
    with pytest.raises(OptionError, match="--output-dir talk --format srt"):
        OutputOptions(output_dir=Path("talk.srt")).require_folder()
    assert OutputOptions(output_dir=Path("talk")).require_folder() == Path("talk")


def temperatures(flags: Fallback, step: float) -> tuple[float, ...]:
    options = flags.apply(PartialOptions(DecodingOptions), DecodingOptions(), step)
    return options.search.temperatures


def test_fallback_default_step_gives_default_temperatures() -> None:
    assert temperatures(Fallback(), FALLBACK_STEP) == DEFAULT_TEMPERATURES


@pytest.mark.parametrize(
    ("given", "temperature", "expected"),
    [
        (None, 0.0, (0.0,)),  # a decoder that has no fallback of its own accord
        (0.0, 0.0, (0.0,)),
        (0.5, 0.0, (0.0, 0.5, 1.0)),
        (0.5, 0.4, (0.4, 0.9)),
        (0.2, 1.5, (1.5,)),
    ],
)
def test_fallback_step_sets_temperatures(
    given: float | None, temperature: float, expected: tuple[float, ...]
) -> None:
    flags = Fallback(fallback=given, temperature=temperature)
    assert temperatures(flags, 0.0) == expected


def test_fallback_0_is_off_for_all_decoders() -> None:
    assert temperatures(Fallback(fallback=0.0), FALLBACK_STEP) == (0.0,)


@pytest.mark.parametrize("step", [-0.1, 1e-9, 1.1, float("nan")])
def test_fallback_impossible_step_is_refused(step: float) -> None:
    with pytest.raises(
        OptionError,
        match=r"--fallback .*\b0\.01 to 1",
    ):
        temperatures(Fallback(fallback=step), 0.0)


@pytest.mark.parametrize("temperature", [-1.0, 3.0, float("nan")])
def test_fallback_impossible_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(OptionError, match=rf"--temperature .*{temperature:g}"):
        temperatures(Fallback(temperature=temperature), FALLBACK_STEP)


@pytest.mark.parametrize("temperature", [math.inf, -math.inf, math.nan, 99.0])
def test_fallback_infinite_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(OptionError, match="temperature"):
        temperatures(Fallback(temperature=temperature), FALLBACK_STEP)


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
