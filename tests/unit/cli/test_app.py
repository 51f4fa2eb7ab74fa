import sys
from pathlib import Path

import pytest

from whisper_hailo.cli.app import app_of, run
from whisper_hailo.cli.command_table import OWN
from whisper_hailo.core.errors import ExitCode

MEASURING = ("compare", "cures", "evaluate", "prepare", "report", "time")


@pytest.mark.parametrize("command", [*OWN, *MEASURING])
def test_every_command_is_found_by_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", command, "--help"]) == 0
    assert f"whisper-hailo {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", ["check", "time"])
def test_only_the_command_that_is_called_is_loaded(command: str) -> None:
    app = app_of(["--quiet", command, "g.onnx"])
    assert [one.name for one in app.registered_commands] == [command]


@pytest.mark.parametrize("words", [[], ["--help"], ["chekc"]])
def test_help_and_unknown_words_see_all_commands(words: list[str]) -> None:
    names = [str(one.name) for one in app_of(words).registered_commands]
    assert names[: len(OWN)] == list(OWN)
    assert sorted(names[len(OWN) :]) == list(MEASURING)


def test_what_measures_says_before_any_work_what_it_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jiwer", None)
    assert run(["evaluate", "no-folder", "--model", "no-model"]) == 2
    assert "needs jiwer, which is not installed: pip install -r" in capsys.readouterr().err


def test_an_unknown_word_is_told_its_neighbour(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chekc"]) == 2
    assert "Did you mean 'check'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["inspect", "NAME"], ["convert", "NAME", "out"], ["report", "NAME", "out"],
     ["evaluate", "NAME", "--model", "micro"]],
)  # fmt: skip
def test_a_path_that_the_system_refuses_is_no_internal_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([word.replace("NAME", "x" * 300) for word in words])
    assert code not in (0, 1)
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cures", "a.wav", "--pad-to", "inf"], "--pad-to is 'inf', expected numbers"),
        (["cures", "a.wav", "--eot-boost", "1,nan"], "--eot-boost is '1,nan', expected numbers"),
    ],
)
def test_options_that_are_no_numbers_are_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err


ODD = "two\nlines\x1b[31m"


@pytest.mark.parametrize(
    "words",
    [
        ["transcribe", ODD, "--model", "micro"],
        ["transcribe", "a.wav", "--model", ODD],
        ["transcribe", "a.wav", "--model", "micro", "--encoder", ODD],
        ["caption", ODD, "--model", "micro"],
        ["convert", ODD, "out"],
        ["check", ODD, "--arch", "hailo8"],
        ["validate", ODD],
        ["inspect", ODD],
        ["emulate", ODD, "--audio", "."],
        ["calibrate", ODD, "--audio", ".", "--part", "encoder", "--out", "out"],
        ["compile", ODD, "--arch", "hailo8", "--part", "encoder", "--calibration", "c.npy"],
        ["evaluate", ODD, "--model", "micro"],
        ["prepare", ODD, "out"],
        ["report", ODD, "--out", "out"],
        ["time", ODD, "--model", "micro"],
        ["cures", ODD, "--model", "micro"],
    ],
    ids=lambda words: words[0],
)
def test_odd_names_are_quoted_in_every_command(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.wav").write_text("some sound")
    assert run(words) not in {0, 1}
    last = capsys.readouterr().err.splitlines()[-1]
    assert r"'two\nlines\x1b[31m'" in last
    assert len(last) <= 500


@pytest.mark.parametrize(
    ("words", "computes"),
    [
        (["validate", ".", "--out", "file"], "whisper_hailo.validate.validate.validate"),
        (
            ["cures", "file", "--model", "micro", "--chart", "."],
            "whisper_hailo_lab.cures.run.compare",
        ),
    ],
    ids=lambda words: words[0],
)
def test_a_result_that_could_not_be_written_is_not_computed(
    words: list[str], computes: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(computes, lambda *_, **__: pytest.fail("it was computed"))
    assert run(words) == ExitCode.OUTPUT
    assert "cannot write" in capsys.readouterr().err
