"""Speakers of uploads, as OpenAI's clients ask for them."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from openai.types.audio import TranscriptionDiarized
from starlette.testclient import TestClient

from tests.fakes.micro_service import DEMO, MicroService, client, transcribe
from tests.fakes.voices_of_tones import tone_diarizer, whistle
from whisper_hailo.core.errors import HubError, OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Word
from whisper_hailo.serve.audio import AudioDecoders
from whisper_hailo.serve.errors import BusyError
from whisper_hailo.serve.model_memory import ModelMemory
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.speakers import (
    SpeakerModels,
    UploadSpeakers,
    label_speakers,
    parse_known_speakers,
)
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.diarization import SpeakerDiarizer
from whisper_hailo.speakers.finder import SpeakerFinder

_WORDS = (Word(0.5, 1, " we", 1.0), Word(6, 7, " agree", 1.0))


@pytest.fixture(scope="module")
def web(micro: MicroService) -> Iterator[TestClient]:
    with client(micro) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _tones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tone_diarizer() as diarizer:
        monkeypatch.setattr(SpeakerFinder, "load", lambda _: diarizer)
        yield


def _sample(person: int, seconds: float) -> str:
    """Return a data URL with a person who whistles."""
    file = io.BytesIO()
    soundfile.write(file, whistle([(person, seconds)]), SAMPLE_RATE_HZ, format="WAV")
    return "data:audio/wav;base64," + base64.b64encode(file.getvalue()).decode()


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recording in which two people whistle, and say a word each in any segment."""
    audio = whistle([(1, 4.0), (None, 0.5), (0, 4.0)])
    diarize = SpeakerDiarizer.diarize
    monkeypatch.setattr(
        SpeakerDiarizer, "diarize", lambda self, _: diarize(self, [audio])
    )
    attribute = SpeakerAttribution.attribute
    said = Segment(0.5, 7, "we agree", (), -0.1, 0.1, words=_WORDS, language="en")
    monkeypatch.setattr(
        SpeakerAttribution, "attribute", lambda self, _: attribute(self, said)
    )
    return DEMO


def test_diarized_json_is_what_openai_s_client_reads(web: TestClient) -> None:
    answer = transcribe(
        web, DEMO, response_format="diarized_json", model="gpt-4o-transcribe"
    )
    assert answer.status_code == 200
    parsed = TranscriptionDiarized.model_validate(answer.json())
    assert parsed.segments
    assert parsed.text == " ".join(segment.text for segment in parsed.segments)


def _speakers(answer: list[dict[str, object]]) -> list[object]:
    return [segment["speaker"] for segment in answer[:2]]


def test_diarized_json_letters_are_in_order_of_appearance(
    web: TestClient, talk: Path
) -> None:
    answer = transcribe(web, talk, response_format="diarized_json").json()
    assert _speakers(answer["segments"]) == ["A", "B"]


def test_diarized_json_known_speakers_have_their_names(
    web: TestClient, talk: Path
) -> None:
    fields = {
        "known_speaker_names[]": ["agent", "customer"],
        "known_speaker_references[]": [_sample(0, 3.0), _sample(2, 2.0)],
    }
    answer = transcribe(web, talk, response_format="diarized_json", **fields).json()
    assert _speakers(answer["segments"]) == ["A", "agent"]


def test_diarized_json_takes_large_samples(web: TestClient, talk: Path) -> None:
    fields = {
        "known_speaker_names[]": ["agent"],
        "known_speaker_references[]": [_sample(1, 10.0)],
    }
    answer = transcribe(web, talk, response_format="diarized_json", **fields).json()
    assert _speakers(answer["segments"]) == ["agent", "A"]


def test_diarized_json_streams_segments_with_speakers(
    web: TestClient, talk: Path
) -> None:
    answer = transcribe(web, talk, response_format="diarized_json", stream="true")
    events = [
        json.loads(line.removeprefix("data: "))
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]
    segments = [event for event in events if event["type"] == "transcript.text.segment"]
    assert _speakers(segments) == ["A", "B"]
    assert events[0] == {
        "type": "transcript.text.delta",
        "delta": "we",
        "segment_id": segments[0]["id"],
    }
    assert events[-1]["type"] == "transcript.text.done"


@pytest.mark.parametrize(
    "fields",
    [
        {"known_speaker_names[]": ["agent"]},
        {
            "known_speaker_names[]": ["agent"],
            "known_speaker_references[]": ["agent.wav"],
        },
        {
            "known_speaker_names[]": [" "],
            "known_speaker_references[]": [_sample(0, 3.0)],
        },
        {
            "known_speaker_names[]": ["a"],
            "known_speaker_references[]": [_sample(0, 1.0)],
        },
        {
            "known_speaker_names[]": ["a"],
            "known_speaker_references[]": [_sample(0, 11.0)],
        },
        {"include[]": "logprobs"},
    ],
    ids=["alone", "no-url", "blank", "short", "long", "logprobs"],
)
def test_diarized_json_refuses_wrong_known_speakers(
    web: TestClient, talk: Path, fields: dict[str, object]
) -> None:
    answer = transcribe(web, talk, response_format="diarized_json", **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_known_speakers_need_diarized_json(web: TestClient, talk: Path) -> None:
    fields = {
        "known_speaker_names[]": ["a"],
        "known_speaker_references[]": [_sample(0, 3.0)],
    }
    assert transcribe(web, talk, **fields).status_code == 400


def test_diarized_json_without_models_fails_alone(
    web: TestClient, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: SpeakerFinder) -> None:
        raise HubError("cannot fetch the speaker models")

    monkeypatch.setattr(SpeakerFinder, "load", load)
    assert transcribe(web, talk, response_format="diarized_json").status_code >= 500
    assert transcribe(web, talk).status_code == 200


def test_translations_have_no_diarized_json(web: TestClient, talk: Path) -> None:
    url = "/v1/audio/translations"
    assert transcribe(web, talk, url, response_format="diarized_json").status_code in (
        400,
        422,
    )


def test_parse_known_speakers_refuses_more_than_four() -> None:
    with pytest.raises(OptionError):
        parse_known_speakers(list("abcde"), [_sample(0, 2.0)] * 5)


def test_label_speakers_skips_letters_that_are_names() -> None:
    assert label_speakers([None, 0, None], ["B"]) == ["A", "B", "C"]


def test_label_speakers_continues_after_z() -> None:
    labels = label_speakers([None] * 28, [])
    assert labels[0] == "A"
    assert labels[25] == "Z"
    assert labels[26] == "AA"
    assert labels[27] == "AB"


class _LoadedModel(SpeakerModels):
    """A model that is in use, of 100 MiB."""

    name = "base"
    needed_mib = 100


@pytest.mark.parametrize("most_mib", [None, 215, 214, 114])
def test_speaker_models_count_as_memory(
    most_mib: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a limit they are loaded for one recording, if the models in use leave room."""
    closed: list[SpeakerFinder] = []

    def close(finder: SpeakerFinder) -> None:
        closed.append(finder)

    monkeypatch.setattr(SpeakerFinder, "close", close)
    memory = ModelMemory(most_mib)
    finder = SpeakerFinder()
    upload = UploadSpeakers(finder, AudioDecoders(LimitOptions()), memory)
    silence = np.zeros(16_000, np.float32)

    def find() -> None:
        with memory.hold_memory(_LoadedModel()):
            asyncio.run(upload.find(silence, [], []))

    if most_mib is None or most_mib >= 215:
        find()
        assert closed == ([] if most_mib is None else [finder])
        return
    with pytest.raises(BusyError if most_mib >= 115 else OptionError):
        find()
    assert not closed
