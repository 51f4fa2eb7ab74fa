"""The journal of a running shard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.batch_jobs import segment
from whisper_hailo.batch.journal import Journal
from whisper_hailo.batch.tasks import Failure, Outcome, PieceResult
from whisper_hailo.core.errors import OutputError

BAD = Failure("audio", "AudioError", "bad")
FIRST = Outcome(3, (PieceResult(0, 0.0, 1, 1.0, "en", (segment("ä"),)),), 0.5, 1.0)
SECOND = Outcome(3, (PieceResult(1, 0.0, 1, 0.0, failure=BAD),))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path))
    return tmp_path / "shards"


def test_journal_returns_what_was_written() -> None:
    with Journal("job") as journal:
        assert list(journal.read()) == []
        journal.write(FIRST)
        journal.write(SECOND)
    with Journal("job") as journal:
        assert list(journal.read()) == [FIRST, SECOND]
    with Journal("other") as journal:
        assert list(journal.read()) == []


def test_journal_drops_a_broken_line(cache: Path) -> None:
    with Journal("job") as journal:
        journal.write(FIRST)
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes() + b'{"shard": 3, "resu')
    with Journal("job") as journal:
        assert list(journal.read()) == [FIRST]
        journal.write(SECOND)
    with Journal("job") as journal:
        assert list(journal.read()) == [FIRST, SECOND]


def test_journal_is_removed(cache: Path) -> None:
    with Journal("job") as journal:
        journal.write(FIRST)
        journal.remove()
    assert list(cache.iterdir()) == []


def test_journal_of_another_process_is_refused() -> None:
    with Journal("job"), pytest.raises(OutputError):
        Journal("job").open()
