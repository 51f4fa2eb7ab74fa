"""OpenAI's API: model names, defaults, methods and keys that clients rely on."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.fakes.http_client import TRANSCRIPTIONS, client, transcribe
from tests.fakes.micro_service import GERMAN, SHORT, MicroService
from whisper_hailo.serve.errors import UnknownModelError
from whisper_hailo.serve.forms import MAX_JSON_BYTES
from whisper_hailo.serve.options import LimitOptions, SafetyOptions
from whisper_hailo.serve.service import TranscriptionService


@pytest.fixture(scope="module")
def web(micro: MicroService) -> Iterator[TestClient]:
    with client(micro) as opened:
        yield opened


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
