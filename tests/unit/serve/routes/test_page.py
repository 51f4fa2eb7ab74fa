"""The page's own routes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile
from starlette.testclient import TestClient

from tests.fakes.micro_service import DEMO, DEMO_TEXT, MicroService, client, transcribe
from tests.fakes.voices_of_tones import tone_diarizer, whistle
from whisper_hailo.core.errors import HubError
from whisper_hailo.serve.model_memory import ModelMemory
from whisper_hailo.speakers.diarization import SpeakerDiarizer
from whisper_hailo.speakers.finder import SpeakerFinder
from whisper_hailo.speakers.models import EMBEDDING, FOLDER_VARIABLE, SEGMENTATION

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def web(micro: MicroService) -> Iterator[TestClient]:
    with client(micro) as opened:
        yield opened


@pytest.fixture
def _two_voices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let two people whistle during every recording, one after the other."""
    duration_s = soundfile.info(DEMO).duration
    audio = whistle([(1, duration_s / 2), (0, duration_s / 2)])
    with tone_diarizer() as diarizer:
        diarize = diarizer.diarize
        monkeypatch.setattr(
            SpeakerDiarizer, "diarize", lambda _, __, count: diarize([audio], count)
        )
        monkeypatch.setattr(SpeakerFinder, "load", lambda _: diarizer)
        yield


def read_events(web: TestClient, **fields: str) -> list[dict[str, Any]]:
    """Return the events of a transcript of the demo."""
    answer = transcribe(web, DEMO, "/page/transcripts", model="micro", **fields)
    assert answer.status_code == 200
    return [
        json.loads(line.removeprefix("data: "))
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]


def file_texts(done: dict[str, Any]) -> dict[str, str]:
    """Return the files of the last event by their suffix."""
    return {file["suffix"]: file["text"] for file in done["files"]}


def test_page_transcript_offers_files_of_formats(web: TestClient) -> None:
    begin, *_, done = read_events(web)
    assert not begin["speakers"]
    files = {file["suffix"]: file for file in done["files"]}
    assert [(file["label"], file["media_type"]) for file in files.values()] == [
        ("Text", "text/plain"),
        ("SubRip", "application/x-subrip"),
        ("WebVTT", "text/vtt"),
        ("JSON", "application/json"),
    ]
    assert " ".join(files["txt"]["text"].split()) == DEMO_TEXT
    assert files["vtt"]["text"].startswith("WEBVTT\n\n")


@pytest.mark.usefixtures("_two_voices")
def test_page_transcript_with_speakers_names_them_everywhere(web: TestClient) -> None:
    begin, *segments, done = read_events(web, speakers="auto")
    assert begin["speakers"]
    names = [segment["speaker"] for segment in segments]
    assert names == sorted(names)
    assert set(names) == {"Speaker 1", "Speaker 2"}
    text = " ".join(segment["text"] for segment in segments)
    assert text == DEMO_TEXT
    files = file_texts(done)
    for name in ("Speaker 1", "Speaker 2"):
        assert f"{name}: " in files["txt"]
        assert f"\n{name}: " in files["srt"]
        assert f"<v {name}>" in files["vtt"]
    speakers = [entry["speaker"] for entry in json.loads(files["json"])["segments"]]
    assert set(speakers) == {0, 1}


@pytest.mark.usefixtures("_two_voices")
def test_page_transcript_with_names_has_them_in_order(web: TestClient) -> None:
    _, *segments, done = read_events(web, speakers="2", speaker_names="Anna, Ben")
    assert {segment["speaker"] for segment in segments} == {"Anna", "Ben"}
    assert segments[0]["speaker"] == "Anna"
    assert "<v Ben>" in file_texts(done)["vtt"]


@pytest.mark.parametrize(
    "fields",
    [{"speakers": "many"}, {"speakers": "auto", "speaker_names": "<b>"}],
    ids=["count", "name"],
)
def test_page_transcript_refuses_wrong_speakers(
    web: TestClient, fields: dict[str, str]
) -> None:
    answer = transcribe(web, DEMO, "/page/transcripts", model="micro", **fields)
    assert answer.status_code == 400


def test_page_transcript_without_speaker_models_ends_with_an_error(
    web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: SpeakerFinder) -> None:
        raise HubError("cannot fetch the speaker models")

    monkeypatch.setattr(SpeakerFinder, "load", load)
    begin, end = read_events(web, speakers="auto")
    assert begin["type"] == "begin"
    assert end["error"]["message"]


def test_page_offers_speakers_if_their_models_are_there(
    web: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))

    def offers_speakers() -> bool:
        return bool(web.get("/page/about.json").json()["speakers"])

    assert not offers_speakers()
    for model in (SEGMENTATION, EMBEDDING):
        (tmp_path / model.names[0]).write_bytes(b"graph")
    assert offers_speakers()
    monkeypatch.setattr(ModelMemory, "fits", lambda _self, _model: False)
    assert not offers_speakers()
