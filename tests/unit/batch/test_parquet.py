"""Results as Parquet are the records of the JSON lines."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyarrow import parquet

from tests.unit.batch.test_job import ITEMS, JOB, job, outcomes, straight  # noqa: F401 - a fixture
from whisper_hailo.batch.parquet import as_parquet, schema
from whisper_hailo.core.errors import OptionError
from whisper_hailo.text.outputs import json_schema

PARQUET = replace(JOB, results="parquet")
ARCHIVES = Path(__file__).parents[3] / "docs" / "archives.md"


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def rows(data: bytes) -> list[dict[str, Any]]:
    found = [without_nulls(row) for row in parquet.read_table(io.BytesIO(data)).to_pylist()]
    return [row | {"metadata": json.loads(row["metadata"])} for row in found]


def run(folder: Path, chance: Random) -> dict[str, bytes]:
    """A job whose outcomes come in some order, with a run that is cut short."""
    for share in (0.5, 1.0):
        with job(folder, PARQUET) as one:
            left = [
                outcome
                for group in one.groups()
                for outcome in outcomes(group)
                if outcome.index not in group.done
            ]
            chance.shuffle(left)
            for outcome in left[: round(share * len(left))]:
                one.take(outcome)
    return {path.name: path.read_bytes() for path in (folder / "transcripts").iterdir()}


@pytest.mark.slow
def test_the_records_are_those_of_the_json_lines_in_any_order_with_the_same_bytes(
    tmp_path: Path,
    straight: dict[str, bytes],  # noqa: F811
) -> None:
    files = run(tmp_path / "one", Random(1))
    assert run(tmp_path / "other", Random(2)) == files
    assert sorted(files) == ["part-00000.parquet", "part-00001.parquet"]
    for name, data in files.items():
        lines = straight[f"transcripts/{name.removesuffix('.parquet')}.jsonl"].splitlines()
        assert rows(data) == [json.loads(line) for line in lines]
    assert sum(len(rows(data)) for data in files.values()) == len(ITEMS)


def test_a_record_of_a_recording_and_of_a_failure_come_back() -> None:
    word = {"word": " a", "start": 0.25, "end": 0.5, "probability": 0.5}
    segment = {"id": 0, "seek": 100, "start": 0.25, "end": 1.0, "text": " a", "tokens": [1, 2],
               "temperature": 0.0, "words": [word]}  # fmt: skip
    head = {"version": 1, "id": "ä", "audio": "/ä.wav", "metadata": {"z": [1, None], "a": "ä"}}
    heard = {"task": "transcribe", "language": "en", "duration": 1.5, "text": "a"}
    error = {"kind": "AudioError", "message": "bad"}
    records = [head | heard | {"segments": [segment]}, head | {"error": error}]
    data = as_parquet(records)
    assert rows(data) == records
    group = parquet.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    assert {group.column(n).compression for n in range(group.num_columns)} == {"ZSTD"}
    assert '{"a": "ä", "z": [1, null]}' in str(parquet.read_table(io.BytesIO(data))["metadata"])


def test_a_name_that_is_no_text_is_written_as_in_json() -> None:
    record = {"version": 1, "id": "\udcff", "audio": "/\udcff", "metadata": {"\udcff": "a"}}
    assert rows(as_parquet([record])) == [record | {"id": r"\udcff", "audio": r"/\udcff"}]


def test_a_job_of_json_lines_is_not_gone_on_with_in_parquet(tmp_path: Path) -> None:
    with job(tmp_path):
        pass
    with pytest.raises(OptionError, match="other options"):
        job(tmp_path, PARQUET).open()


def test_segments_and_words_have_the_fields_of_the_schema_of_transcripts() -> None:
    segment = json_schema()["$defs"]["transcript"]["properties"]["segments"]["items"]
    own = schema().field("segments").type.value_type
    assert {field.name for field in own} == segment["properties"].keys()
    words = segment["properties"]["words"]["items"]
    word = own.field("words").type.value_type
    assert {field.name for field in word} == words["properties"].keys()


def test_the_page_on_archives_names_every_column_with_its_type() -> None:
    table = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", ARCHIVES.read_text(encoding="utf-8"), re.M)
    kinds = {"int32": "whole number", "string": "text", "double": "number"}
    named = {field.name: kinds.get(str(field.type), "nested") for field in schema()}
    assert dict(table) == named
