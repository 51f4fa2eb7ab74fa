"""The page's own routes."""

from __future__ import annotations

import json

import pytest

from tests.fakes.http_application import client, transcribe
from tests.fakes.micro_service import DEMO, DEMO_TEXT, MicroService

pytestmark = pytest.mark.slow


def test_page_transcript_offers_files_of_formats(micro: MicroService) -> None:
    with client(micro) as web:
        answer = transcribe(web, DEMO, "/page/transcripts", model="micro")
    _, _, done = answer.text.rpartition("data: ")
    files = {file["suffix"]: file for file in json.loads(done)["files"]}
    assert [(file["label"], file["media_type"]) for file in files.values()] == [
        ("Text", "text/plain"),
        ("SubRip", "application/x-subrip"),
        ("WebVTT", "text/vtt"),
        ("JSON", "application/json"),
    ]
    assert " ".join(files["txt"]["text"].split()) == DEMO_TEXT
    assert files["vtt"]["text"].startswith("WEBVTT\n\n")
