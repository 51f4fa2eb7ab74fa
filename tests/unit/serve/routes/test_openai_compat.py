"""OpenAI's API: model names, defaults, methods and keys that clients rely on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.unit.serve.http_client import TRANSCRIPTIONS, client, transcribe
from tests.unit.serve.micro_service import GERMAN, OPTIONS, SHORT, MicroService
from whisper_hailo.serve.errors import UnknownModelError
from whisper_hailo.serve.options import LimitOptions, SafetyOptions
from whisper_hailo.serve.request import Choices, RequestDefaults
from whisper_hailo.serve.service import TranscriptionService


@pytest.fixture(scope="module")
def web(micro: MicroService) -> Iterator[TestClient]:
    with client(micro) as opened:
        yield opened


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o-transcribe",
        "gpt-4o-mini-transcribe",
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
    for name in (
        *models.listed,
        None,
        "gpt-4o-transcribe",
        "gpt-4o-transcribe-diarize",
    ):
        assert models.find_model(name) is model
    for name in ("gpt-4o", "gpt-4o-transcribe-large"):
        with pytest.raises(UnknownModelError):
            models.find_model(name)


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


def test_with_choices_long_prompt_keeps_its_end() -> None:
    options, _ = RequestDefaults(OPTIONS).with_choices(
        Choices(prompt="word " * 200_000 + "end")
    )
    prompt = options.prompts.initial_prompt
    assert prompt is not None
    assert len(prompt) < 10_000
    assert prompt.endswith("end")


def test_keys_comments_in_file_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# for the kitchen\nsecret\n")
    assert SafetyOptions(api_key_file=file).keys() == ("secret",)
