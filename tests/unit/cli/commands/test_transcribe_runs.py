"""Inputs of `transcribe`: order, exit codes, finished and failing ones."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.messages import missing_data
from tests.fakes.settings_file import given
from tests.fakes.transcribe_command import Many, many, stereo
from whisper_hailo.cli.app import run
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core.errors import AudioError, DeviceError, ExitCode, OptionError
from whisper_hailo.decoding.options import PRESETS, DecodingOptions
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
