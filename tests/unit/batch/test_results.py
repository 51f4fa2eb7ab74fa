"""What is written of each item."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from tests.unit.batch.made_up import segment
from whisper_hailo.batch.manifest import Failure, Item, PieceResult
from whisper_hailo.batch.results import (
    ItemResult,
    item_files,
    item_result,
    join_pieces,
    parquet_schema,
    render_part,
    shift_segments,
    to_parquet,
)
from whisper_hailo.batch.store import Folder
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript
from whisper_hailo.text.outputs import JSON_VERSION, json_schema
from whisper_hailo.text.subtitles import Layout

SETTINGS = Settings("toy", "onnx-fp32", "cached", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1)
BAD = Failure("AudioError", "bad")
ARCHIVES = Path(__file__).parents[3] / "docs" / "archives.md"


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def rows(data: bytes) -> list[dict[str, Any]]:
    found = [without_nulls(row) for row in parquet.read_table(io.BytesIO(data)).to_pylist()]
    return [row | {"metadata": json.loads(row["metadata"])} for row in found]


def joined(*pieces: PieceResult, item: Item | None = None) -> ItemResult:
    return item_result(item or Item("a", "/a.wav"), join_pieces(pieces), SETTINGS, "translate")


def said(text: str, start_s: float = 0.0) -> tuple[Segment, ...]:
    return shift_segments((segment(text),), start_s)


def test_times_of_a_piece_become_those_of_the_recording() -> None:
    (one,) = shift_segments([segment("word", 2.0)], 300.25)
    assert (one.start_s, one.end_s, one.window_start_s) == (302.25, 303.25, 302.25)
    (word,) = one.words
    assert (word.start_s, word.end_s, word.text) == (302.5, 302.75, "word")
    assert replace(one, start_s=2.0, end_s=3.0, window_start_s=2.0, words=()) == replace(
        segment("word", 2.0), words=()
    )


def test_times_are_told_to_the_millisecond() -> None:
    """299.98 and a fifth are 300.18, and not 300.18000000000001 as the sum of floats is."""
    one = segment("word")
    word = replace(one.words[0], start_s=0.2, end_s=0.2)
    one = replace(one, start_s=0.2, end_s=0.2, window_start_s=0.2, words=(word,))
    for start_s, expected in ((299.98, 300.18), (299.98025, 300.18), (300.0234, 300.223)):
        (moved,) = shift_segments([one], start_s)
        times = (moved.start_s, moved.end_s, moved.window_start_s)
        assert times == (expected, expected, expected)
        assert (moved.words[0].start_s, moved.words[0].end_s) == (expected, expected)


def test_a_piece_that_is_a_whole_recording_keeps_its_times() -> None:
    one = replace(segment("word"), start_s=0.12345)
    assert shift_segments([one], 0.0) == (one,)


def test_a_recording_s_pieces_follow_one_another() -> None:
    result = joined(
        PieceResult(0, 300.0, "en", said("one")),
        PieceResult(0, 450.5, "en", said("two", 300.0)),
    )
    transcript = result.transcript
    assert transcript is not None
    assert [(s.text, s.start_s) for s in transcript.segments] == [("one", 0.0), ("two", 300.0)]
    assert (transcript.duration_s, transcript.audio, transcript.task) == (450.5, "a", "translate")
    assert transcript.settings == SETTINGS
    assert result.duration_s == 450.5


def test_the_language_is_that_of_most_of_the_text() -> None:
    result = joined(
        PieceResult(0, 1.0, "de", said("kurz")),
        PieceResult(0, 2.0, "en", (*said("not so"), *said(" short"))),
        PieceResult(0, 3.0, "de", said("kurz")),
    )
    assert result.transcript is not None
    assert result.transcript.language == "en"  # 12 letters, and 4 and 4 of the other
    texts = [one.text for one in result.transcript.segments]
    assert texts == ["kurz", "not so", " short", "kurz"]


def test_item_without_pieces_has_failed() -> None:
    assert joined().record()["error"] == {"kind": "Internal", "message": "nothing came of it"}
    assert joined().duration_s == 0.0


def test_a_recording_of_which_any_piece_failed_has_failed() -> None:
    """What was heard of it would be taken for all of it."""
    fine = PieceResult(0, 300.0, "en", said("one"))
    failed = PieceResult(0, 300.0, failure=BAD)
    for pieces in ((fine, failed), (fine, failed, fine), (failed, fine), (fine, fine, failed)):
        result = joined(*pieces)
        assert (result.transcript, result.failure) == (None, BAD)


def test_a_record_has_the_fields_that_the_page_on_archives_names() -> None:
    item = Item("a", "/a.wav", None, {"show": "news"})
    record = joined(PieceResult(0, 1.0, "en", said("word")), item=item).record()
    assert list(record) == [
        *("version", "id", "audio", "task", "language", "duration", "text", "segments", "metadata")
    ]
    assert (record["version"], record["id"], record["audio"]) == (JSON_VERSION, "a", "/a.wav")
    assert (record["text"], record["duration"], record["metadata"]) == ("word", 1.0, item.metadata)
    failed = joined(PieceResult(0, 0.0, failure=BAD), item=item).record()
    assert failed == {
        "version": JSON_VERSION, "id": "a", "audio": "/a.wav", "metadata": {"show": "news"},
        "error": {"kind": "AudioError", "message": "bad"},
    }  # fmt: skip


@pytest.mark.parametrize("language", ["de", None])
def test_a_failure_is_a_line_of_a_manifest(language: str | None) -> None:
    item = Item("ä", "/ä.wav", language, {"n": 1})
    line = ItemResult(item, None, BAD).failure_line()
    assert "ä" in line
    assert line.endswith("}\n")
    expected = {
        "id": "ä", "audio": "/ä.wav", "metadata": {"n": 1},
        "error": {"kind": "AudioError", "message": "bad"},
    }  # fmt: skip
    assert json.loads(line) == (expected | {"language": language} if language else expected)


def test_file_of_results_is_line_for_each_that_any_program_reads() -> None:
    names = ["ä", "b", "\udcff"]  # the last is no text: a name that is no UTF-8
    results = [ItemResult(Item(name, f"/{name}.wav"), None, BAD) for name in names]
    lines = render_part(results, "jsonl").decode().splitlines(keepends=True)
    assert [json.loads(line)["id"] for line in lines] == names
    assert all(line.endswith("}\n") for line in lines)
    assert '"id": "ä"' in lines[0]


def test_what_is_no_number_in_json_is_not_written() -> None:
    nan = float("nan")
    transcript = Transcript("a", nan, "en", "transcribe", (), Timings(), SETTINGS)
    with pytest.raises(ValueError, match="not JSON compliant"):
        render_part([ItemResult(Item("a", "/a.wav"), transcript)], "jsonl")


def test_item_has_file_of_each_format_but_none_where_it_failed() -> None:
    result = joined(PieceResult(0, 1.0, "en", said("two words")), item=Item("b/a", "/a.wav"))
    found = dict(item_files(result, ("txt", "srt"), Layout(highlight_words=True)))
    assert list(found) == ["txt/b/a.txt", "srt/b/a.srt"]
    assert found["txt/b/a.txt"] == b"two words\n"
    assert b"<u>two words</u>" in found["srt/b/a.srt"]
    assert item_files(ItemResult(Item("a", "/a.wav"), None, BAD), ("txt",), Layout()) == []


def test_a_name_that_is_no_text_has_its_files(tmp_path: Path) -> None:
    result = joined(PieceResult(0, 1.0, "en", said("word")), item=Item("\udcff", "/\udcff"))
    ((name, data),) = item_files(result, ("json",), Layout())
    assert name == "json/\udcff.json"
    assert json.loads(data)["audio"] == "\udcff"
    Folder(tmp_path).write(name, data)
    assert Folder(tmp_path).read(name) == data


def test_a_record_of_a_recording_and_of_a_failure_come_back() -> None:
    word = {"word": " a", "start": 0.25, "end": 0.5, "probability": 0.5}
    segment = {"id": 0, "seek": 100, "start": 0.25, "end": 1.0, "text": " a", "tokens": [1, 2],
               "temperature": 0.0, "words": [word]}  # fmt: skip
    head = {"version": 1, "id": "ä", "audio": "/ä.wav", "metadata": {"z": [1, None], "a": "ä"}}
    heard = {"task": "transcribe", "language": "en", "duration": 1.5, "text": "a"}
    error = {"kind": "AudioError", "message": "bad"}
    records = [head | heard | {"segments": [segment]}, head | {"error": error}]
    data = to_parquet(records)
    assert rows(data) == records
    group = parquet.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    assert {group.column(n).compression for n in range(group.num_columns)} == {"ZSTD"}
    assert '{"a": "ä", "z": [1, null]}' in str(parquet.read_table(io.BytesIO(data))["metadata"])


def test_a_name_that_is_no_text_is_written_as_in_json() -> None:
    record = {"version": 1, "id": "\udcff", "audio": "/\udcff", "metadata": {"\udcff": "a"}}
    assert rows(to_parquet([record])) == [record | {"id": r"\udcff", "audio": r"/\udcff"}]


def test_segments_and_words_have_fields_of_schema_of_transcripts() -> None:
    segment = json_schema()["$defs"]["transcript"]["properties"]["segments"]["items"]
    own = parquet_schema().field("segments").type.value_type
    assert {field.name for field in own} == segment["properties"].keys()
    words = segment["properties"]["words"]["items"]
    word = own.field("words").type.value_type
    assert {field.name for field in word} == words["properties"].keys()


def test_the_page_on_archives_names_every_column_with_its_type() -> None:
    table = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", ARCHIVES.read_text(encoding="utf-8"), re.M)
    kinds = {"int32": "whole number", "string": "text", "double": "number"}
    named = {field.name: kinds.get(str(field.type), "nested") for field in parquet_schema()}
    assert dict(table) == named
