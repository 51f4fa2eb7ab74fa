"""What clients of OpenAI's API take for granted: names, defaults, methods, keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.unit.serve.house import GERMAN, OPTIONS, SHORT, House
from tests.unit.serve.web import TRANSCRIPTIONS, client, transcribe
from whisper_hailo.serve.errors import UnknownModelError
from whisper_hailo.serve.options import LimitOptions, SafetyOptions
from whisper_hailo.serve.request import Choices, RequestDefaults
from whisper_hailo.serve.service import TranscriptionService


@pytest.fixture(scope="module")
def web(house: House) -> Iterator[TestClient]:
    with client(house) as opened:
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
def test_model_names_of_openai_are_accepted(web: TestClient, model: str) -> None:
    assert transcribe(web, model=model).status_code == 200


def test_missing_model_uses_the_default(web: TestClient) -> None:
    with SHORT.open("rb") as file:
        assert web.post(TRANSCRIPTIONS, files={"file": file}).status_code == 200


def test_alias_is_added_to_whisper_1(house: House) -> None:
    (model,) = house.service.models
    models = TranscriptionService([model], house.metrics, LimitOptions(), ("mine",))
    assert list(models.listed) == ["micro", "whisper-1", "mine"]
    for name in (*models.listed, None, "gpt-4o-transcribe", "gpt-4o-transcribe-diarize"):
        assert models.find_model(name) is model
    for name in ("gpt-4o", "gpt-4o-transcribe-large"):
        with pytest.raises(UnknownModelError):
            models.find_model(name)


def test_languages_list_of_one_sets_the_language(web: TestClient) -> None:
    fields = {"languages[]": "en", "response_format": "verbose_json"}
    assert transcribe(web, GERMAN[0], **fields).json()["language"] == "english"


def test_languages_list_of_several_is_detected_among_them(web: TestClient) -> None:
    fields = {"languages[]": ["en", "de"], "response_format": "verbose_json"}
    answer = transcribe(web, GERMAN[0], **fields).json()
    assert answer["language"] == "german"
    assert answer["languages"] == ["de"]


def test_languages_list_with_unknown_code_is_400(web: TestClient) -> None:
    assert transcribe(web, **{"languages[]": "xx"}).status_code == 400


def test_translation_is_in_english(web: TestClient) -> None:
    answer = transcribe(web, GERMAN[0], "/v1/audio/translations", response_format="verbose_json")
    assert answer.json()["language"] == "english"


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/models", "/"])
def test_head_is_answered_as_get_is(web: TestClient, path: str) -> None:
    assert web.head(path).status_code == web.get(path).status_code == 200


def test_long_prompt_is_cut_to_its_end() -> None:
    options, _ = RequestDefaults(OPTIONS).with_choices(Choices(prompt="word " * 200_000 + "end"))
    prompt = options.prompts.initial_prompt
    assert prompt is not None
    assert len(prompt) < 10_000
    assert prompt.endswith("end")


def test_key_file_comments_are_no_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# for the kitchen\nsecret\n")
    assert SafetyOptions(api_key_file=file).keys() == ("secret",)
