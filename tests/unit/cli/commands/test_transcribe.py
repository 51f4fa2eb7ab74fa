"""Runs of `transcribe`: order, exit codes, channels, speakers."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.fakes.commands import given, missing_data
from tests.fakes.transcribe_command import Many, many, stereo
from whisper_hailo.cli import progress
from whisper_hailo.cli.app import run
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core.errors import AudioError, DeviceError, ExitCode, OptionError
from whisper_hailo.decoding.options import PRESETS, DecodingOptions
from whisper_hailo.speakers.models import EMBEDDING, FOLDER_VARIABLE, SEGMENTATION
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.window_cache import WindowCache

__all__ = ["many", "stereo"]
TEXT = "Good morning to all of you."


@pytest.mark.parametrize("words", ["", "--batch-size 2"])
def test_transcribe_first_failure_sets_exit_code(
    many: Many, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    many.failing = {"b": DeviceError("no chip"), "c": AudioError("c.wav is broken")}
    assert (
        run(["transcribe", "missing.wav", "a.wav", "b.wav", "c.wav", *words.split()])
        == 3
    )
    output = capsys.readouterr()
    assert output.out == f"a.wav: {TEXT}\n"
    errors = [
        line for line in output.err.splitlines() if line.startswith("whisper-hailo: ")
    ]
    assert [line.split()[1] for line in errors] == ["missing.wav", "no", "c.wav"]
    many.failing.pop("c")
    assert (
        run(["transcribe", "a.wav", "b.wav", "c.wav", *words.split()])
        == ExitCode.DEVICE
    )
    assert capsys.readouterr().out == f"a.wav: {TEXT}\nc.wav: {TEXT}\n"
    assert (
        run(["transcribe", "b.wav", "missing.wav", "a.wav", *words.split()])
        == ExitCode.DEVICE
    )
    many.failing.clear()
    assert run(["transcribe", "a.wav", "b.wav", *words.split()]) == 0


def test_transcribe_without_audio_loads_no_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        ModelOptions, "transcriber", lambda _: pytest.fail("it was looked for")
    )
    assert run(["transcribe", "x.wav", "http://a.b/c.mp3", "--json"]) == ExitCode.AUDIO
    output = capsys.readouterr()
    facts = [json.loads(line) for line in output.out.splitlines()]
    assert [(fact["audio"], fact["exit_code"]) for fact in facts] == [
        ("x.wav", 3), ("http://a.b/c.mp3", 2),
    ]  # fmt: skip
    assert len(output.err.splitlines()) == 2
    (tmp_path / "out").mkdir()
    (tmp_path / "a.wav").write_text("some sound")
    (tmp_path / "out" / "a.txt").touch()
    for word in ("--skip-existing", "--resume"):
        assert run(["transcribe", "a.wav", "-o", "out", word]) == 0
        assert "1 of 1" in capsys.readouterr().err


def test_transcribe_resume_skips_finished_inputs(
    many: Many, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.txt").write_text("kept")
    many.failing = {"c": DeviceError("no chip")}
    words = ["transcribe", "a.wav", "b.wav", "c.wav", "-o", "out"]
    assert run([*words, "--resume"]) == ExitCode.DEVICE
    assert "1 of 3" in capsys.readouterr().err
    assert (out / "a.txt").read_text() == "kept"
    assert (out / "b.txt").read_text() == f"{TEXT}\n"
    assert run([*words[:3], "-o", "out"]) == 0
    assert (out / "a.txt").read_text() == f"{TEXT}\n"
    (tmp_path / "a.wav").unlink()
    assert run([*words[:3], "-o", "out", "--resume"]) == ExitCode.AUDIO, (
        "which is not there"
    )


@pytest.mark.parametrize("words", ["", "--batch-size 2", "--json", "--format json"])
def test_transcribe_closed_pipe_ends_quietly(
    many: Many,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def gone(_text: str) -> None:
        raise ReaderGoneError

    monkeypatch.setattr(sys.stdout, "write", gone)
    assert run(["transcribe", "a.wav", "b.wav", *words.split()]) == 0
    assert "whisper-hailo: " not in capsys.readouterr().err
    assert many.opened[-1] == "closed"


@pytest.mark.parametrize("words", ["", "--batch-size 2", "--channels split"])
def test_transcribe_ctrl_c_interrupts_all_inputs(
    many: Many, words: str, stereo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted = ImportError("in the middle of something")
    interrupted.__cause__ = KeyboardInterrupt()
    many.failing = {"stereo": interrupted, 0: interrupted}
    assert (
        run(["transcribe", stereo.name, stereo.name, *words.split()])
        == ExitCode.INTERRUPTED
    )
    output = capsys.readouterr()
    assert (output.out, output.err.splitlines()[-1]) == (
        "",
        "whisper-hailo: interrupted",
    )


def test_transcribe_refusal_of_model_opens_nothing(
    many: Many, capsys: pytest.CaptureFixture[str]
) -> None:
    many.refusal = OptionError("this model cannot")
    assert run(["transcribe", "a.wav", "--long", "overlap", "--task", "translate"]) == 2
    assert "this model cannot" in capsys.readouterr().err
    ((_, options, long),) = many.opened
    assert (options.task, long.strategy) == ("translate", "overlap")


def test_transcribe_defaults_are_the_model_s(many: Many, tmp_path: Path) -> None:
    many.default_options = DecodingOptions(anti_repetition=PRESETS["balanced"])  # type: ignore[misc]
    many.default_fallback = 0.0  # type: ignore[misc]
    for words in ("--best-of 3", "--fallback 0.5 | eot-boost = 0.9"):
        assert run(["transcribe", "a.wav", *given(words, tmp_path)]) == 0
    plain, typed = (asked[0] for asked in many.asked)
    assert (plain.anti_repetition, plain.search.temperatures) == (
        PRESETS["balanced"],
        (0.0,),
    )
    assert typed.anti_repetition == replace(PRESETS["balanced"], eot_boost=0.9)
    assert typed.search.temperatures == (0.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("--batch-size 0", "--batch-size 0"),
        ("--channels both", "--channels both mix split"),
    ],
)
def test_transcribe_wrong_option_is_refused_before_loading(
    many: Many, words: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", "a.wav", *words.split()]) == 2
    assert not missing_data(capsys.readouterr().err, data)
    assert many.opened == []


def test_transcribe_language_of_en_model_is_refused_first(
    many: Many, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", "a.wav", "--model", "base.en", "--language", "de"]) == 2
    assert "base.en" in capsys.readouterr().err
    assert many.opened == []


def test_transcribe_only_file_results_are_resumable(many: Many) -> None:
    """Only a run of the same model and options resumes them."""
    assert run(["transcribe", "a.wav"]) == 0
    assert not many.identified
    assert (
        run(["transcribe", "a.wav", "b.wav", "-o", "out", "--task", "translate"]) == 0
    )
    assert [type(cache) for _, cache in many.helped_by] == [
        type(None),
        WindowCache,
        WindowCache,
    ]
    assert {type(progress) for progress, _ in many.helped_by} == {Progress}
    assert many.identified == [many.asked[-1]], "once for all"


def test_transcribe_unwritable_folder_is_refused_first(
    many: Many, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", "a.wav", "-o", "b.wav"]) == ExitCode.OUTPUT
    assert "b.wav" in capsys.readouterr().err
    assert many.opened == []


def test_transcribe_batch_of_inputs_passes_options(many: Many) -> None:
    typed = ["transcribe", "a.wav", "b.wav", "--batch-size", "2", "--long", "overlap"]
    assert run([*typed, "--task", "translate"]) == 0
    ((options, long, batch_size),) = many.together
    assert (options.task, long and long.strategy, batch_size) == (
        "translate",
        "overlap",
        2,
    )
    assert many.asked == []
    assert run(["transcribe", "a.wav", "--batch-size", "2"]) == 0
    assert run(["transcribe", "a.wav", "b.wav", "--batch-size", "1"]) == 0
    assert len(many.asked) == 3, (
        "one alone is shown while it comes, and so is one by one"
    )


@pytest.mark.parametrize(
    ("words", "out"),
    [
        ("--timestamps", f"[00:00.000 --> 00:03.000]  {TEXT}\n"),
        ("--timestamps --batch-size 2", f"[00:00.000 --> 00:03.000]  {TEXT}\n"),
        ("--no-timestamps", f"{TEXT}\n"),
    ],
)
@pytest.mark.usefixtures("many")
def test_transcribe_timestamps_option_adds_times(
    words: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", "a.wav", "b.wav", *words.split()]) == 0
    assert capsys.readouterr().out == f"a.wav: {out}b.wav: {out}"


@pytest.mark.parametrize("words", ["-di", "--diarize", "--channels split"])
@pytest.mark.usefixtures("many")
def test_transcribe_channel_aliases_split_speakers(
    words: str, stereo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", str(stereo), *words.split(), "--json"]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    assert [segment["speaker"] for segment in segments] == [1, 0]


@pytest.mark.parametrize(("words", "batch_size"), [("", None), ("--batch-size 4", 4)])
def test_transcribe_channels_split_merges_by_time(
    many: Many, words: str, batch_size: int | None, stereo: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    typed = [
        "transcribe",
        stereo.name,
        "--channels",
        "split",
        "--task",
        "translate",
        "--long",
    ]
    assert run([*typed, "overlap", *words.split(), "--json"]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    assert [(segment["speaker"], segment["start"]) for segment in segments] == [
        (1, 0.0),
        (0, 1.0),
    ]
    ((options, long, size),) = many.together
    assert (options.task, long.strategy if long else "", size) == (
        "translate",
        "overlap",
        batch_size,
    )


def test_transcribe_channels_progress_line_is_erased(
    many: Many,
    monkeypatch: pytest.MonkeyPatch,
    stereo: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    monkeypatch.setattr(progress, "terminal_width", lambda: 80)
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    monkeypatch.setattr(many, "before_progress", lambda: now.append(now.pop() + 20.0))
    many.failing = {0: AudioError("it is broken")}
    assert run(["transcribe", str(stereo), "--channels", "split"]) == ExitCode.AUDIO
    erase = "\r\x1b[K"
    output = f"{erase}stereo.wav: 1:40 of 10:00, 5.0 x real time, 1:40 left{erase}whisper-hailo: "
    assert capsys.readouterr().err.startswith(output)


def test_transcribe_failing_channel_fails_recording(
    many: Many, stereo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mono = tmp_path / "mono.wav"
    soundfile.write(mono, np.zeros(1600), 16_000)
    many.failing = {1: AudioError("stereo.wav is broken")}
    assert (
        run(["transcribe", mono.name, stereo.name, "--channels", "split"])
        == ExitCode.AUDIO
    )
    output = capsys.readouterr()
    assert output.out == ""
    first, second = output.err.splitlines()[-2:]
    assert "mono.wav" in first
    assert second == "whisper-hailo: stereo.wav is broken"


@pytest.fixture
def speaker_models(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a folder with files of both models, which the variable names."""
    path = tmp_path_factory.mktemp("speaker-models")
    for model in (SEGMENTATION, EMBEDDING):
        (path / model.names[0]).write_bytes(b"graph")
    monkeypatch.setenv(FOLDER_VARIABLE, str(path))
    return path


@pytest.mark.usefixtures("speaker_models")
@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("a.wav", SpeakerOptions()),
        ("--speakers a.wav", SpeakerOptions("auto")),
        ("a.wav --speakers", SpeakerOptions("auto")),
        ("--speakers 2 a.wav", SpeakerOptions("2")),
        ("--speakers=2-5 a.wav", SpeakerOptions("2-5")),
        ("--speakers --json a.wav", SpeakerOptions("auto")),
        (
            "--speakers --speaker-names Anna,Ben a.wav",
            SpeakerOptions("auto", ("Anna", "Ben")),
        ),
    ],
)
def test_speakers_option_takes_a_number_or_nothing(
    many: Many, words: str, options: SpeakerOptions
) -> None:
    assert run(["transcribe", *words.split()]) == 0
    assert many.speakers == options


@pytest.mark.usefixtures("speaker_models")
def test_speakers_of_several_recordings_decoded_together(many: Many) -> None:
    assert run(["transcribe", "a.wav", "b.wav", "--batch-size", "4", "--speakers"]) == 0
    assert many.speakers == SpeakerOptions("auto")


@pytest.mark.usefixtures("many", "speaker_models")
@pytest.mark.parametrize(
    "words",
    [
        "--speakers=none",
        "--speakers 0-2 --json",
        "--speaker-names Anna",
        "--speakers --channels split",
        "--speakers --speaker-names <b>",
    ],
)
def test_speakers_option_refuses_other_values(words: str, stereo: Path) -> None:
    assert run(["transcribe", stereo.name, *words.split()]) == ExitCode.USAGE


@pytest.mark.usefixtures("many", "speaker_models")
def test_speakers_without_models_are_refused_first(many: Many, tmp_path: Path) -> None:
    typed = ["transcribe", "a.wav", "--speakers", "--speaker-models", str(tmp_path)]
    assert run(typed) == ExitCode.MODEL
    assert many.opened == []
