import pytest

from whisper_hailo.cli.app import COMMANDS, _app, run


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_found_by_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", command, "--help"]) == 0
    assert f"whisper-hailo {command}" in " ".join(capsys.readouterr().out.split())


def test_only_the_command_that_is_called_is_loaded() -> None:
    assert [one.name for one in _app(["--quiet", "check", "g.onnx"]).registered_commands] == [
        "check"
    ]


@pytest.mark.parametrize("words", [[], ["--help"], ["chekc"]])
def test_help_and_unknown_words_see_all_commands(words: list[str]) -> None:
    assert [one.name for one in _app(words).registered_commands] == list(COMMANDS)


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
