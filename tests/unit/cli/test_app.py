"""The program as a whole: commands, exit codes, completion scripts, formats."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import click
import pytest

from tests.fakes.commands import missing_data
from whisper_hailo.cli.app import (
    COMMAND_GROUPS,
    COMPLETION_VARIABLE,
    LABORATORY,
    PROGRAM_GROUP,
    TOOLS,
    load_command,
    run,
)
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.core.errors import ExitCode, HefError
from whisper_hailo.core.version import __version__

PROGRAM = Path(sys.executable).with_name("whisper-hailo")
PATIENCE_S = 120
SHELLS = ("bash", "zsh", "fish")
DEMO = Path(__file__).parents[3] / "src" / "whisper_hailo" / "assets" / "demo.flac"
MICRO = ("transcribe", "--model", "micro", "--threads", "1")


@pytest.mark.parametrize("command", [*COMMAND_GROUPS, *sorted(LABORATORY)])
def test_run_finds_each_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-q", command, "--help"]) == 0
    assert f"whisper-hailo {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("words", [["--quiet", "check", "--help"], ["time", "--help"]])
def test_run_loads_only_the_called_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    load_command.cache_clear()
    assert run(words) == 0
    assert load_command.cache_info().currsize == 1
    assert capsys.readouterr().out


def test_list_commands_has_all_commands() -> None:
    names = PROGRAM_GROUP.list_commands(click.Context(PROGRAM_GROUP))
    assert names[: len(COMMAND_GROUPS)] == list(COMMAND_GROUPS)
    assert set(names[len(COMMAND_GROUPS) :]) == LABORATORY


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that has the program alone."""
    monkeypatch.setattr("whisper_hailo.cli.app.find_added_commands", dict)
    load_command.cache_clear()


@pytest.mark.usefixtures("no_tools")
@pytest.mark.parametrize(
    ("command", "package"),
    [(name, "tools") for name in sorted(TOOLS)]
    + [(name, "lab") for name in sorted(LABORATORY)],
)
def test_run_command_of_missing_package_names_package(
    command: str, package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "model", "--arch", "hailo8"]) == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert f"whisper-hailo-{package}" in line
    assert "pip install" in line


@pytest.mark.usefixtures("no_tools")
def test_list_commands_omits_missing_packages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = PROGRAM_GROUP.list_commands(click.Context(PROGRAM_GROUP))
    assert names == [name for name in COMMAND_GROUPS if name not in TOOLS]
    assert run(["--help"]) == 0
    assert "  compile " not in capsys.readouterr().out


def test_run_evaluate_without_jiwer_names_install_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jiwer", None)
    assert run(["evaluate", "no-folder", "--model", "no-model"]) == 2
    assert not missing_data(capsys.readouterr().err, "jiwer 'pip install'")


def test_run_unknown_command_suggests_similar_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["chekc"]) == 2
    assert "'check'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["inspect", "NAME"], ["convert", "NAME", "out"], ["report", "NAME", "out"],
     ["evaluate", "NAME", "--model", "micro"]],
)  # fmt: skip
def test_run_overlong_path_is_no_internal_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([word.replace("NAME", "x" * 300) for word in words])
    assert code not in (0, 1)
    assert "internal error" not in capsys.readouterr().err


GRID = ["compare", "padding", "a.wav", "--grid"]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ([*GRID, "--pad-to", "inf"], "--pad-to inf"),
        ([*GRID, "--eot-boost", "1,nan"], "--eot-boost 1,nan"),
        (
            ["compare", "padding", ".", "--pad-to", "0"],
            "--pad-to 'compare padding'",
        ),
        (["compare", "window", ".", "--grid"], "--grid 'compare padding'"),
        (["cures", "a.wav"], "'whisper-hailo compare padding --grid'"),
    ],
)
def test_run_compare_wrong_option_is_refused(
    words: list[str], data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert not missing_data(capsys.readouterr().err, data)


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
        [
            "compile",
            ODD,
            "--arch",
            "hailo8",
            "--part",
            "encoder",
            "--calibration",
            "c.npy",
        ],
        ["evaluate", ODD, "--model", "micro"],
        ["prepare", ODD, "out"],
        ["report", ODD, "--out", "out"],
        ["time", ODD, "--model", "micro"],
        ["compare", "padding", ODD, "--grid", "--model", "micro"],
    ],
    ids=lambda words: words[0],
)
def test_run_odd_name_is_quoted_by_each_command(
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
        (
            ["validate", ".", "--out", "file"],
            "whisper_hailo_tools.validate.validate.validate",
        ),
    ],
    ids=lambda words: words[0],
)
def test_run_unwritable_result_is_refused_first(
    words: list[str], computes: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(computes, lambda *_, **__: pytest.fail("it was computed"))
    assert run(words) == ExitCode.OUTPUT
    assert "file" in capsys.readouterr().err


def test_run_version_prints_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["--version"], ["-q", "--version"], ["--version", "check"]):
        assert run(words) == 0
        assert capsys.readouterr().out == f"whisper-hailo {__version__}\n"


def test_run_without_arguments_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    bare = capsys.readouterr().out
    assert run(["--help"]) == 0
    assert capsys.readouterr().out.strip() == bare.strip()
    assert bare.startswith("Usage: whisper-hailo ")


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (
            "transcribe a.wav -l de --beam-size five",
            "--beam-size five",
        ),
        ("transcribe a.wav --threads=x", "--threads x"),
        ("check g.onnx", "--arch"),
        ("check", "GRAPH"),
        ("check g.onnx --arch", "--arch"),
        (
            "transcribe",
            "-",
        ),
        ("transcribe --threads x", "--threads x"),
    ],
)
def test_run_wrong_arguments_are_one_line(
    words: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == ExitCode.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("whisper-hailo: ")
    assert not missing_data(line, data)


@pytest.mark.parametrize(
    ("error", "code", "output"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "whisper-hailo: interrupted\n"),
        (ReaderGoneError(), ExitCode.OK, ""),
        (HefError("it is broken"), HefError.exit_code, "whisper-hailo: it is broken\n"),
    ],
)
def test_run_error_is_one_line_with_exit_code(
    error: BaseException, code: int, output: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def fail(_path: Path) -> None:
        raise error

    monkeypatch.setattr("whisper_hailo.convert.inspect.describe", fail)
    assert run(["inspect", "x"]) == code
    assert capsys.readouterr().err == output


def test_run_import_broken_by_ctrl_c_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_path: Path) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr("whisper_hailo.convert.inspect.describe", fail)
    assert run(["inspect", "x"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "whisper-hailo: interrupted\n"


def test_run_log_lines_are_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(_path: Path) -> dict[str, str]:
        logging.getLogger("whisper_hailo.x").warning("two\nlines\x1b[31m")
        logging.getLogger("whisper_hailo.x").debug("details")
        logging.getLogger("other").info("of another library")
        logging.getLogger("other").warning("a warning of another")
        return {}

    monkeypatch.setattr("whisper_hailo.convert.inspect.describe", warn)
    assert run(["inspect", "x"]) == 0
    assert capsys.readouterr().err == "two lines\\x1b[31m\na warning of another\n"
    assert run(["inspect", "x", "-v"]) == 0
    assert "details\n" in capsys.readouterr().err
    assert run(["inspect", "x"]) == 0
    assert "details\n" not in capsys.readouterr().err


def test_run_verbosity_holds_for_other_packages() -> None:
    theirs = logging.getLogger("whisper_hailo_lab")
    for words, level in (
        ("-v", logging.DEBUG),
        ("-q", logging.WARNING),
        ("", logging.INFO),
    ):
        assert run(["report", "no-folder", "out", *words.split()]) != 0
        assert theirs.level == level


def asked(shell: str, line: str) -> list[str]:
    """The program's answer to a line that is being typed."""
    words = line.split(" ")
    environment = {
        **os.environ,
        COMPLETION_VARIABLE: f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
    }
    answer = subprocess.run(
        [PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert not answer.stderr
    return answer.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_completion_offers_commands_options_values(shell: str) -> None:
    assert "transcribe" in "".join(asked(shell, "whisper-hailo tr"))
    assert "--output-dir" in "".join(
        asked(shell, "whisper-hailo transcribe --output-d")
    )
    values = "".join(asked(shell, "whisper-hailo transcribe --task trans"))
    assert "transcribe" in values
    assert "translate" in values


@pytest.mark.slow
def test_completion_omits_aliases_of_other_programs() -> None:
    assert asked("bash", "whisper-hailo transcribe --compute") == []


def script_of(shell: str, folder: Path) -> Path:
    """Script that the program prints for a shell."""
    environment = {**os.environ, COMPLETION_VARIABLE: f"{shell}_source"}
    printed = subprocess.run(
        [PROGRAM], env=environment, capture_output=True, check=True, timeout=PATIENCE_S
    ).stdout
    (folder / "script").write_bytes(printed)
    return folder / "script"


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_is_valid_for_its_shell(shell: str, tmp_path: Path) -> None:
    script = script_of(shell, tmp_path)
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in script.read_text()
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([program, "-n", str(script)], check=True, timeout=PATIENCE_S)


@pytest.mark.slow
def test_completion_in_bash_completes_option(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    script = script_of("bash", tmp_path)
    typed = f"""
        source {script}
        COMP_WORDS=({PROGRAM} transcribe --skip-e) COMP_CWORD=2
        _whisper_hailo_completion {PROGRAM}
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        [bash, "--norc", "-c", typed], capture_output=True, text=True, check=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stdout.split() == ["--skip-existing"]


def cue_texts(srt: str) -> list[str]:
    return [" ".join(cue.splitlines()[2:]) for cue in srt.strip().split("\n\n")]


@pytest.mark.parametrize("words", [(), ("--window", "10")])
def test_transcribe_text_is_the_same_in_all_formats(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*MICRO, *words, str(DEMO)]
    assert run([*command, "--format", "txt"]) == 0
    alone = capsys.readouterr().out
    assert (
        run([*command, "--format", "txt,srt,json", "--output-dir", str(tmp_path)]) == 0
    )
    txt, srt, facts = (tmp_path / f"demo.{fmt}" for fmt in ("txt", "srt", "json"))
    assert txt.read_text(encoding="utf-8").split() == alone.split()
    found = json.loads(facts.read_text(encoding="utf-8"))
    text = " ".join(alone.split())
    assert found["text"] == text != ""
    assert "".join(segment["text"] for segment in found["segments"]).strip() == text
    assert " ".join(cue_texts(srt.read_text(encoding="utf-8"))) == text


def test_transcribe_json_is_the_same_beside_subtitles(tmp_path: Path) -> None:
    """Subtitles need the times of words, which move those of segments."""
    alone = tmp_path / "alone"
    beside = tmp_path / "beside"
    command = [*MICRO, str(DEMO), "--output-dir"]
    assert run([*command, str(alone), "--format", "json"]) == 0
    assert run([*command, str(beside), "--format", "json,srt"]) == 0
    texts = [
        (folder / "demo.json").read_text(encoding="utf-8") for folder in (alone, beside)
    ]
    assert texts[0] == texts[1]


def test_transcribe_segments_are_timed_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without timestamps from the model, and without words that nobody asked for."""
    assert run([*MICRO, str(DEMO), "--format", "json"]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    assert len(segments) > 1
    for segment, following in pairwise(segments):
        assert re.search(r"[.?!]$", segment["text"])
        assert 0 <= segment["start"] < segment["end"] <= following["start"]
        assert segment["end"] - segment["start"] <= 10
        assert not segment.get("words")
