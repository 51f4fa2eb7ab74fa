"""Routes of media servers: Bazarr's and whisper.cpp's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
from starlette.testclient import TestClient

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    GERMAN,
    LONG,
    OPTIONS,
    MicroService,
    client,
    transcribe,
)
from tests.fakes.speech_clients import read_pcm
from whisper_hailo import Transcriber
from whisper_hailo.text.formats import render
from whisper_hailo.text.transcript_json import openai_json, verbose_json

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def web(micro: MicroService) -> Iterator[TestClient]:
    with client(micro) as opened:
        yield opened


def ask(web: TestClient, url: str, content: bytes, **params: Any) -> Any:
    return web.post(url, params=params, files={"audio_file": content})


def as_wav(path: Path, folder: Path) -> Path:
    file = folder / "a.wav"
    soundfile.write(
        file, memoryview(read_pcm(path)).cast("h"), 16_000, subtype="PCM_16"
    )
    return file


def test_asr_raw_samples_give_the_command_s_subtitles(
    web: TestClient, transcriber: Transcriber, tmp_path: Path
) -> None:
    asked = {"task": "transcribe", "language": "en", "output": "srt", "encode": "false"}
    answer = ask(web, "/asr", read_pcm(LONG[0]), **asked)
    options = replace(OPTIONS, language="en", word_timestamps=True)
    alone = transcriber.transcribe(as_wav(LONG[0], tmp_path), options)
    assert answer.text == render(alone, "srt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"].endswith('.srt"')


@pytest.mark.parametrize("output", ["txt", "vtt", "tsv", "json"])
def test_asr_output_formats_equal_the_command_s(
    web: TestClient, transcriber: Transcriber, output: str
) -> None:
    answer = ask(web, "/asr", DEMO.read_bytes(), output=output)
    alone = transcriber.transcribe(
        DEMO, replace(OPTIONS, word_timestamps=output == "vtt")
    )
    if output == "json":
        assert answer.json() == verbose_json(alone)
    else:
        assert answer.text == render(alone, output)


def test_asr_translation_and_prompt_are_honoured(
    web: TestClient, transcriber: Transcriber
) -> None:
    answer = ask(
        web, "/asr", GERMAN[0].read_bytes(), task="translate", initial_prompt="Yes."
    )
    prompts = replace(OPTIONS.prompts, initial_prompt="Yes.")
    alone = transcriber.transcribe(
        GERMAN[0], replace(OPTIONS, task="translate", prompts=prompts)
    )
    assert answer.text == render(alone, "txt")


@pytest.mark.parametrize(
    ("path", "code", "name"), [(DEMO, "en", "english"), (GERMAN[0], "de", "german")]
)
def test_detect_language_route_finds_the_language(
    web: TestClient, path: Path, code: str, name: str
) -> None:
    for content, encode in ((path.read_bytes(), "true"), (read_pcm(path), "false")):
        answer = ask(web, "/detect-language", content, encode=encode).json()
        assert answer["language_code"] == code
        assert answer["detected_language"] == name
        assert 0.5 < answer["confidence"] <= 1


@pytest.mark.parametrize("url", ["/asr", "/detect-language"])
def test_asr_empty_upload_is_400(web: TestClient, url: str) -> None:
    answer = ask(web, url, b"", encode="false")
    assert answer.status_code == 400
    assert "the samples" in answer.json()["error"]["message"]


def test_asr_file_name_stays_within_its_header(web: TestClient) -> None:
    files = {"audio_file": ('a"\r\nX-Bad: 1.flac', DEMO.read_bytes())}
    answer = web.post("/asr", files=files)
    assert answer.status_code == 200
    assert "x-bad" not in answer.headers


def test_inference_formats_equal_whisper_cpp_s(
    web: TestClient, transcriber: Transcriber
) -> None:
    url = "/inference"
    assert transcribe(web, DEMO, url).json() == {"text": DEMO_TEXT}
    timed = transcriber.transcribe(DEMO, OPTIONS)
    answer = transcribe(
        web, DEMO, url, response_format="verbose_json", temperature_inc="0.2"
    )
    assert answer.json() == openai_json(timed)
    with_words = transcriber.transcribe(DEMO, replace(OPTIONS, word_timestamps=True))
    for layout in ("srt", "vtt"):
        answer = transcribe(web, DEMO, url, response_format=layout)
        assert answer.text == render(with_words, layout)
    lines = render(timed, "txt")
    assert transcribe(web, DEMO, url, response_format="text").text == lines
    german = transcribe(web, GERMAN[0], url, language="de", prompt="Ja.").json()["text"]
    prompts = replace(OPTIONS.prompts, initial_prompt="Ja.")
    alone = transcriber.transcribe(
        GERMAN[0], replace(OPTIONS, language="de", prompts=prompts)
    )
    assert german == alone.text
