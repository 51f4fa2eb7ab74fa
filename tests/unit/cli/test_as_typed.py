"""What is typed as a word is taken as it is, and what is not typed costs nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from whisper_hailo.cli.help import Command
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


def _asked(*words: str) -> tuple[int, str]:
    """Exit code and output of a small command."""
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

    result = CliRunner().invoke(app, list(words))
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
