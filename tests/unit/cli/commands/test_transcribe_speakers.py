"""Speakers on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.transcribe_command import Many, many, stereo
from whisper_hailo.cli.app import run
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.speakers.models import EMBEDDING, FOLDER_VARIABLE, SEGMENTATION
from whisper_hailo.speakers.options import SpeakerOptions

__all__ = ["many", "stereo"]


@pytest.fixture(autouse=True)
def folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a folder with files of both models, which the variable names."""
    path = tmp_path_factory.mktemp("speaker-models")
    for model in (SEGMENTATION, EMBEDDING):
        (path / model.names[0]).write_bytes(b"graph")
    monkeypatch.setenv(FOLDER_VARIABLE, str(path))
    return path


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


def test_speakers_of_several_recordings_decoded_together(many: Many) -> None:
    assert run(["transcribe", "a.wav", "b.wav", "--batch-size", "4", "--speakers"]) == 0
    assert many.speakers == SpeakerOptions("auto")


@pytest.mark.usefixtures("many")
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


@pytest.mark.usefixtures("many")
def test_speakers_without_models_are_refused_first(many: Many, tmp_path: Path) -> None:
    typed = ["transcribe", "a.wav", "--speakers", "--speaker-models", str(tmp_path)]
    assert run(typed) == ExitCode.MODEL
    assert many.opened == []
