"""What is typed as a word is taken as it is, and what is not typed costs nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperOption
from typer.main import get_command
from typer.testing import CliRunner

from whisper_hailo.cli.help import Command, take_as_typed
from whisper_hailo.core.errors import ExitCode

WORDS = """
import sys
from whisper_hailo.cli.app import run
code = run(["transcribe", "--model", "micro", "--language", "en", "-t", "1", "no-such-file.wav"])
print(int(code), *{"pydantic"} & sys.modules.keys())
"""


def test_a_command_of_words_starts_without_pydantic() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORDS], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout.split() == [str(int(ExitCode.AUDIO))], done.stderr


def _told(value: str | None) -> str:
    return f"<{value}>"


def _app() -> typer.Typer:
    """A small command."""
    app = typer.Typer()

    @app.command(cls=Command)
    def ask(
        names: Annotated[list[str], typer.Argument()],
        *,
        number: Annotated[int | None, typer.Option()] = None,
        word: Annotated[str | None, typer.Option()] = None,
        many: Annotated[list[str] | None, typer.Option()] = None,
        few: Annotated[int, typer.Option(max=3)] = 1,
        loud: Annotated[str | None, typer.Option(parser=str.upper)] = None,
        called: Annotated[str | None, typer.Option(callback=_told)] = None,
    ) -> None:
        typer.echo(repr((names, number, word, list(many or ()), loud, called)))

    return app


def _asked(*words: str) -> tuple[int, str]:
    """Exit code and output of that command."""
    result = CliRunner().invoke(_app(), list(words))
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a b", (["a", "b"], None, None, [], None, "<None>")),
        ("a --number 3 --word w", (["a"], 3, "w", [], None, "<None>")),
        ("a --many x --many y --called c", (["a"], None, None, ["x", "y"], None, "<c>")),
        ("a --loud w", (["a"], None, None, [], "W", "<None>")),
        ("a --word 3", (["a"], None, "3", [], None, "<None>")),
    ],
)
def test_options_have_their_values_and_callbacks_are_asked(words: str, expected: object) -> None:
    code, output = _asked(*words.split())
    assert code == 0, output
    assert output.strip() == repr(expected)


@pytest.mark.parametrize(
    "words", ["", "a --number three", "a --number 1e3", "--word w", "a --few 4"]
)
def test_what_is_missing_or_no_number_is_refused(words: str) -> None:
    code, _ = _asked(*words.split())
    assert code == int(ExitCode.USAGE)


def test_what_is_a_word_is_not_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the process that other tests run in Pydantic is there already."""

    def convert(_self: object, _context: object, value: object) -> object:
        pytest.fail(f"{value!r} is converted")

    monkeypatch.setattr(TyperOption, "process_value", convert)
    command: Any = get_command(_app())
    params = {one.name: one for one in take_as_typed(command.params)}
    for name, value, taken in (
        ("word", "w", "w"), ("word", None, None), ("number", "3", 3), ("number", None, None),
        ("many", None, ()), ("many", ("x", "y"), ["x", "y"]), ("called", "c", "<c>"),
        ("called", None, "<None>"), ("loud", None, None), ("few", None, None),
    ):  # fmt: skip
        assert params[name].process_value(None, value) == taken
    for name, value in (("number", "1" * 10), ("number", "x"), ("few", "1"), ("loud", "w")):
        with pytest.raises(pytest.fail.Exception, match="is converted"):
            params[name].process_value(None, value)
    before = [one.process_value for one in command.params]
    take_as_typed(command.params)
    assert [one.process_value for one in command.params] == before, "once is enough"
