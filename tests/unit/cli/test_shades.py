"""Words in colours that say how sure the model was."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.unit.cli.commands.test_transcribe_options import Listener, listener, recordings, said
from whisper_hailo.cli.app import run
from whisper_hailo.cli.transcribe_options import in_shades, shaded
from whisper_hailo.core.types import Word

__all__ = ["listener", "recordings"]

RED, YELLOW, GREEN, RESET = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"


@pytest.mark.parametrize(
    ("probability", "colour"),
    [(0.0, RED), (0.49, RED), (0.5, YELLOW), (0.8, GREEN), (1.0, GREEN), (None, GREEN)],
)
def test_a_word_has_the_colour_of_its_probability(probability: float | None, colour: str) -> None:
    assert shaded(" Good", probability) == f" {colour}Good{RESET}"


def test_a_segment_is_its_words_in_their_colours() -> None:
    words = (Word(0.0, 1.0, " Good", 0.9), Word(1.0, 2.0, " morning.", 0.4))
    segment = replace(said().segments[0], text="Good morning.", words=words)
    assert in_shades(segment).text == f"{GREEN}Good{RESET} {RED}morning.{RESET}"
    assert in_shades(replace(segment, words=())).text == "Good morning."


@pytest.mark.parametrize("words", ["--colour", "--color", "-pc", "--print_colors True"])
def test_transcribe_shades_words_on_a_terminal(
    words: str, listener: Listener, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["transcribe", "a.wav", *words.split()]) == 0
    assert f"{GREEN}Good{RESET} {GREEN}morning{RESET}" in capsys.readouterr().out
    assert listener.asked[-1][0].words is not None


@pytest.mark.usefixtures("listener")
def test_a_pipe_gets_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["transcribe", "a.wav", "--colour"]) == 0
    assert "\x1b" not in capsys.readouterr().out
