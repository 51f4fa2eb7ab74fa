"""Results as Parquet: the records of the JSON lines, in columns. Only this file knows pyarrow."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whisper_hailo.core.strict_json import without_halves

if TYPE_CHECKING:
    import pyarrow as pa


def schema() -> pa.Schema:
    """Of every file of results, whatever it holds; `docs/archives.md` tells what the columns are.

    Only `metadata` is not as in the JSON lines: a text of JSON, since its shape is the manifest's.
    """
    import pyarrow as pa

    word = pa.struct({
        "word": pa.string(), "start": pa.float64(), "end": pa.float64(),
        "probability": pa.float64(),
    })  # fmt: skip
    segment = pa.struct({
        "id": pa.int32(), "seek": pa.int64(), "start": pa.float64(), "end": pa.float64(),
        "text": pa.string(), "tokens": pa.list_(pa.int32()), "temperature": pa.float64(),
        "avg_logprob": pa.float64(), "compression_ratio": pa.float64(),
        "no_speech_prob": pa.float64(), "language": pa.string(), "runaway": pa.bool_(),
        "words": pa.list_(word), "speaker": pa.int32(),
    })  # fmt: skip
    return pa.schema({
        "version": pa.int32(), "id": pa.string(), "audio": pa.string(), "task": pa.string(),
        "language": pa.string(), "duration": pa.float64(), "text": pa.string(),
        "segments": pa.list_(segment), "metadata": pa.string(),
        "error": pa.struct({"kind": pa.string(), "message": pa.string()}),
    })  # fmt: skip


def as_parquet(records: Sequence[dict[str, Any]]) -> bytes:
    """A whole file: the same bytes for the same records and the same version of pyarrow.

    Args:
        records: of `ItemResult.record`; what one lacks is null.
    """
    import pyarrow as pa
    from pyarrow import parquet

    rows = [record | _texts(record) for record in records]
    file = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema())
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def _texts(record: dict[str, Any]) -> dict[str, str]:
    """Of a record: what is other text here."""
    metadata = json.dumps(record["metadata"], ensure_ascii=False, sort_keys=True)
    texts = {"id": record["id"], "audio": record["audio"], "metadata": metadata}
    return {name: without_halves(text) for name, text in texts.items()}
