"""What users of other Whisper programs type by habit."""

from __future__ import annotations

from operator import attrgetter

import pytest

from tests.unit.cli.test_transcribe_options import Listener, recordings
from whisper_hailo.cli.app import run
from whisper_hailo.cli.habits import HABITS, Habit
from whisper_hailo.cli.model import ModelOptions

__all__ = ["recordings"]

TAKEN: list[tuple[str, str, object]] = [
    ("--word_timestamps True", "words.hallucination_silence_s", None),
    ("--word_timestamps False", "words", None),
    ("--condition_on_previous_text False", "prompts.condition_on_previous_text", False),
    ("--condition_on_previous_text True", "prompts.condition_on_previous_text", True),
    ("--initial_prompt hello", "prompts.initial_prompt", "hello"),
    ("--prompt hello", "prompts.initial_prompt", "hello"),
    ("--suppress_blank False", "limits.suppress_blank", False),
    ("--temperature_increment_on_fallback 0.5", "search.temperatures", (0.0, 0.5, 1.0)),
    ("--temperature_increment_on_fallback None", "search.temperatures", (0.0,)),
    ("--log_prob_threshold -0.5", "thresholds.logprob", -0.5),
    ("--no_repeat_ngram_size 3", "limits.no_repeat_ngram", 3),
    ("--without_timestamps True --format srt", "timestamps", False),
    ("-nt --format srt", "timestamps", False),
    ("--translate", "task", "translate"),
    ("-tr --task transcribe", "task", "transcribe"),
    ("-nf", "search.temperatures", (0.0,)),
    ("-bs 5", "search.beam_size", 5),
    ("-bo 3", "search.best_of", 3),
    ("-l de", "language", "de"),
]
MODEL: list[tuple[str, str, object]] = [
    ("--device cpu", "engine.encoder_backend", "onnx"),
    ("--device CPU", "engine.encoder_backend", "onnx"),
    ("--device auto", "engine.encoder_backend", "auto"),
    ("--device cpu --encoder-backend emulator", "engine.encoder_backend", "emulator"),
    ("--no-gpu", "engine.encoder_backend", "onnx"),
    ("--compute_type int8", "convert.encoder_quantize", "int8"),
    ("--compute_type int8", "convert.quantize", "int8"),
    ("--compute_type float32", "convert.quantize", "none"),
    ("--fp16 False", "convert.quantize", "auto"),
    ("-m small -t 3", "model", "small"),
    ("-m small -t 3", "threads", 3),
]
LONG = [("--vad_filter True", "vad"), ("--vad_filter False", "auto"), ("--vad", "vad")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ModelOptions]:
    """The options of each model that was asked for."""
    seen: list[ModelOptions] = []
    listener = Listener()
    monkeypatch.setattr(ModelOptions, "transcriber", lambda self: seen.append(self) or listener)
    return seen


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    found = Listener()
    found.asked.clear()
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: found)
    return found


@pytest.mark.parametrize(("words", "path", "expected"), TAKEN)
def test_what_we_have_is_taken_by_its_other_name(
    listener: Listener, words: str, path: str, expected: object
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 0
    ((options, _, _),) = listener.asked  # for one recording: no value was taken for a second
    assert attrgetter(path)(options) == expected


@pytest.mark.parametrize(("words", "path", "expected"), MODEL)
def test_what_we_have_of_models_is_taken_too(
    asked: list[ModelOptions], words: str, path: str, expected: object
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 0
    assert attrgetter(path)(asked[0]) == expected


@pytest.mark.parametrize(("words", "expected"), LONG)
def test_a_filter_of_silence_is_a_way_to_cut_windows(
    listener: Listener, words: str, expected: str
) -> None:
    assert run(["transcribe", *words.split(), "a.wav"]) == 0
    assert listener.asked[0][1].strategy == expected


@pytest.mark.usefixtures("listener")
def test_the_width_of_lines_by_its_short_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["transcribe", "a.wav", "-f", "vtt", "-ml", "12"]) == 0
    assert "Good morning\nto all of\nyou.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--device cuda", "--device cuda is of another program; leave it out: a Hailo chip"),
        ("--compute_type float16", "--compute-type float16 is of another program; give --quantize"),
        ("--fp16 True", "--fp16 True is of another program; leave it out"),
        ("--model_dir /models", "set that"),
        ("--live_transcribe True", "type whisper-hailo caption --mic default"),
        ("-osrt", "--output-srt is of another program; give --format srt --output-dir DIR"),
        ("--output_file x", "give --output-dir DIR"),
        ("-f demo.wav", "expected one of: txt, srt, vtt, tsv, json, all; recordings are named"),
        ("-ot 5000", "--offset-t 5000 is of another program; give --clip-timestamps START,END"),
    ],
)
def test_what_we_lack_is_answered_with_what_to_type(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", "a.wav", "-m", "no-model", *words.split()]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_every_habit_means_something_or_says_what_to_type() -> None:
    for habit in HABITS:
        assert habit.instead or habit.means.get("True"), habit.names
        for means in habit.means.values():
            assert all(name.isidentifier() for name in means)


def test_a_value_that_stands_for_nothing_is_refused() -> None:
    from whisper_hailo.core.errors import OptionError

    with pytest.raises(OptionError, match="--device x is of another program; leave it out"):
        Habit(("--device",), {"cpu": {}}, "leave it out").stands_for("x")


def test_a_recording_in_the_place_of_a_command_is_told(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([str(tmp_path)]) == 2
    assert "type: whisper-hailo transcribe" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "hint"), [([], False), (["-f", "a.wav"], True)])
def test_a_recording_that_is_not_named_is_asked_for(
    words: list[str], hint: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """whisper.cpp's `-f` names one; here it is the format."""
    assert run(["transcribe", *words]) == 2
    told = capsys.readouterr().err
    assert "no recording is named, expected files, folders, or - for a pipe" in told
    assert ("recordings are named without -f" in told) is hint
