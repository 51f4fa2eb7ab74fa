"""Progress of a run: speed, the rest, and counts of failures and warnings."""

from __future__ import annotations

from collections import Counter

import pytest

from whisper_hailo.batch import run
from whisper_hailo.batch.run import Progress
from whisper_hailo.batch.shard_work import ShardReport


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which a test sets."""
    seconds = [100.0]
    monkeypatch.setattr(run, "monotonic", lambda: seconds[0])
    return seconds


def test_progress_at_the_start_has_no_speed_or_rest(now: list[float]) -> None:
    progress = Progress(n_items=10, begin_s=now[0])
    assert (progress.seconds, progress.speed, progress.left_s) == (0.0, 0.0, None)
    now[0] += 5.0
    assert (progress.seconds, progress.speed, progress.left_s) == (5.0, 0.0, None)


def test_progress_rest_follows_finished_items(now: list[float]) -> None:
    progress = Progress(n_items=10, begin_s=now[0])
    now[0] += 20.0
    progress.n_done = 4
    progress.audio_s = 300.0
    assert (progress.speed, progress.left_s) == (15.0, 30.0)


def test_progress_of_uncounted_manifest_has_no_rest() -> None:
    assert Progress(n_done=4).left_s is None


def test_progress_add_counts_failures_and_warnings() -> None:
    progress = Progress()
    for number in range(2):
        failed = Counter(audio=1, access=number)
        progress.add(ShardReport(number, 3, failed=failed, warned=Counter(truncated=1)))
    assert progress.failed == {"audio": 2, "access": 1}
    assert progress.warned == {"truncated": 2}
