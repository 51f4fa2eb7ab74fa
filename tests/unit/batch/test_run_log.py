"""The log of a run, one file per thousand shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.batch.run_log import RUNS, RunLog
from whisper_hailo.batch.shard_work import ShardReport
from whisper_hailo.batch.storage import Storage


def test_run_log_starts_new_file_at_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.batch.run_log._MOST_LINES", 3)
    storage = Storage(str(tmp_path))
    log = RunLog(storage)
    for number in range(5):
        log.write(ShardReport(number, 1))
    contents = [storage.read(f"{RUNS}/{name}") for name in storage.list_names(RUNS)]
    assert sorted((content or b"").count(b"\n") for content in contents) == [2, 3, 3]
