"""Aliases of other programs in commands with fewer options, and as switches that are off."""

from __future__ import annotations

import pytest

from tests.fakes.messages import missing_data
from tests.unit.cli.commands.test_transcribe_options import (
    Listener,
    listener,
    recordings,
)
from whisper_hailo.cli.app import run

__all__ = ["listener", "recordings"]


@pytest.mark.parametrize(
    "words", ["-osrt", "-nf", "-mc -1", "-tp 0.2", "-tpi 1", "-bs 5", "-bo 2"]
)
def test_compat_caption_refuses_aliases_of_transcribe(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "a.wav", "--model", "no-model", *words.split()]) == 2
    assert words.split(maxsplit=1)[0] in capsys.readouterr().err


def test_compat_serve_refuses_ml(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["serve", "-ml", "40"]) == 2
    assert "-ml" in capsys.readouterr().err


def test_compat_serve_address_option_names_replacement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["serve", "--uri", "udp://0.0.0.0:10300"]) == 2
    assert "--wyoming" in capsys.readouterr().err
    assert run(["serve", "--host", "192.0.2.1"]) == 2
    assert "--http HOST:PORT" in capsys.readouterr().err


def test_compat_caption_accepts_its_aliases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--device cuda` is answered as elsewhere; `-tr` is `--task translate`."""
    assert run(["caption", "a.wav", "--device", "cuda"]) == 2
    assert "--device cuda" in capsys.readouterr().err
    assert run(["caption", "a.wav", "-m", "tiny.en", "-tr"]) == 2
    assert not missing_data(capsys.readouterr().err, "--task translate tiny.en")


@pytest.mark.parametrize(
    "words", ["--translate False", "--vad-filter False", "-nf False"]
)
def test_compat_switch_false_is_off(listener: Listener, words: str) -> None:
    assert run(["transcribe", *words.split(), "a.wav"]) == 0
    options, long, _ = listener.asked[0]
    assert (options.task, long.strategy) == ("transcribe", "auto")
    assert options.search.temperatures == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
