"""The record of a recording."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.batch_jobs import JOB, segment
from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.records import (
    join_pieces,
    make_failure_line,
    make_record,
    read_record,
    render_files,
)
from whisper_hailo.batch.tasks import Failure, PieceResult
from whisper_hailo.batch.workers import shift_segment
from whisper_hailo.core.types import Segment, UntranscribedSpeech
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.text.transcript_json import JSON_VERSION

ARCHIVES = Path(__file__).parents[3] / "docs" / "archives.md"
BAD = Failure("audio", "AudioError", "bad")
ITEM = Item("a", "/a.wav", None, {"show": "news"})
RESULT = PieceResult(0, 0.0, 1, 1.0, "en", (segment("word"),))


def heard(end_s: float, language: str, *segments: Segment) -> PieceResult:
    return PieceResult(0, 0.0, 0, end_s, language, segments)


def test_join_pieces_keeps_their_order() -> None:
    later = shift_segment(segment("two"), 300.0)
    pieces = [heard(300.0, "en", segment("one")), heard(450.5, "en", later)]
    result = join_pieces(pieces)
    assert [(part.text, part.start_s) for part in result.segments] == [
        ("one", 0.0),
        ("two", 300.0),
    ]
    assert (result.end_s, result.language, result.failure) == (450.5, "en", None)


def test_join_pieces_takes_the_language_of_most_text() -> None:
    short = heard(1.0, "de", segment("kurz"))
    more = heard(2.0, "en", segment("not so"), segment(" short"))
    assert join_pieces([short, more, short]).language == "en"


def test_join_pieces_fails_where_one_failed() -> None:
    fine = heard(300.0, "en", segment("one"))
    failed = PieceResult(0, 0.0, 0, 1.0, failure=BAD)
    for pieces in ((fine, failed), (fine, failed, fine), (failed, fine)):
        assert join_pieces(pieces).failure == BAD


def test_record_has_the_fields_that_the_page_names() -> None:
    record = json.loads(make_record(ITEM, RESULT, replace(JOB, task="translate")))
    assert list(record) == [
        *("version", "id", "audio", "task", "language", "duration", "text", "segments"),
        *("languages", "untranscribed", "warnings", "metadata"),
    ]
    assert (record["version"], record["text"]) == (JSON_VERSION, "word")
    assert record["metadata"] == ITEM.metadata
    failed = json.loads(make_record(ITEM, replace(RESULT, failure=BAD), JOB))
    assert failed["error"] == {"kind": "audio", "type": "AudioError", "message": "bad"}
    page = ARCHIVES.read_text(encoding="utf-8")
    names = set(re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE))
    assert names >= record.keys() | failed.keys()


def test_record_warns_of_lost_speech_and_broken_recordings() -> None:
    lost = UntranscribedSpeech(1.0, 2.5, "unlikely")
    result = replace(RESULT, untranscribed=(lost,), warnings=("breaks off",))
    warnings = json.loads(make_record(ITEM, result, JOB))["warnings"]
    assert [warning["kind"] for warning in warnings] == ["truncated", "untranscribed"]
    assert "1.5 s" in warnings[1]["message"]


@pytest.mark.parametrize("has_words", [True, False])
def test_read_record_is_the_inverse(has_words: bool) -> None:
    lost = (
        UntranscribedSpeech(1.0, 2.5, "unlikely"),
        UntranscribedSpeech(3.0, 4.0, "left_out", "de"),
    )
    whole = replace(RESULT, untranscribed=lost, warnings=("breaks off",))
    text = make_record(ITEM, whole, replace(JOB, has_words=has_words))
    item, result = read_record(json.loads(text))
    assert item.id == ITEM.id
    assert make_record(replace(item, metadata=ITEM.metadata), result, JOB) == text


def test_record_shows_no_credentials() -> None:
    item = replace(ITEM, audio="https://me:secret@host/a.wav?sign=secret")
    assert "secret" not in make_record(item, RESULT, JOB)


@pytest.mark.parametrize("language", ["de", None])
def test_failure_record_is_a_manifest_line(language: str | None) -> None:
    item = replace(ITEM, id="ä", language=language)
    record: dict[str, Any] = json.loads(make_failure_line(item, BAD))
    assert record.get("language") == language
    assert (record["id"], record["audio"]) == ("ä", "/a.wav")
    assert record["error"]["kind"] == "audio"


def test_result_files_are_named_by_id_and_format() -> None:
    layout = Layout(highlight_words=True)
    settings = replace(JOB, formats=("txt", "srt", "json"), layout=layout)
    files = dict(render_files(replace(ITEM, id="b/c"), RESULT, settings))
    assert set(files) == {"txt/b/c.txt", "srt/b/c.srt", "json/b/c.json"}
    assert "<u>word</u>" in files["srt/b/c.srt"]
    assert json.loads(files["json/b/c.json"])["audio"] == "b/c"
