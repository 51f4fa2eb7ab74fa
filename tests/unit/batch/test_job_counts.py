"""How far a job is, what failed in it, and what it is told twice; with a store in memory."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from tests.unit.batch.made_up import Clock, Shelf
from whisper_hailo.batch import job as job_module
from whisper_hailo.batch import results, run_log, status
from whisper_hailo.batch.job import BatchJob, JobSettings
from whisper_hailo.batch.records import Failure, Item, Outcome, PieceResult
from whisper_hailo.batch.status import read_status
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Settings

ITEMS = [Item(f"{n}.wav", f"/{n}.wav") for n in range(33)]
"""Three groups; the last, of one item, in a file of its own."""
SETTINGS = Settings("toy", "onnx-fp32", "cached", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1)
JOB = JobSettings("micro", SETTINGS)
BAD = Failure("AudioError", "bad")


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """A store; files of results have two groups."""
    for module in (job_module, results, status):
        monkeypatch.setattr(module, "SHARD_GROUPS", 2)
    return Shelf()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(run_log, "monotonic", made)
    return made


def job(shelf: Shelf, settings: JobSettings = JOB) -> BatchJob:
    return BatchJob(shelf, settings, ITEMS)


def outcome(group: int, *, failed: bool = False, end_s: float = 0.0625) -> Outcome:
    """All of a group."""
    n_items = 1 if group == 2 else 16
    made = [PieceResult(place, end_s, "en") for place in range(n_items)]
    if failed:
        made[0] = PieceResult(0, 0.0, failure=BAD)
    return Outcome(group, 0, True, tuple(made), 2.0, 5.0)


def finish(one: BatchJob) -> None:
    for group in one.groups():
        one.take(outcome(group.index))


def test_what_is_done_is_counted_wherever_it_is(shelf: Shelf) -> None:
    with job(shelf) as one:
        assert (one.n_items, one.n_done) == (33, 0)
        one.take(outcome(1, failed=True))
        assert one.n_done == 16
        one.take(outcome(2))  # a whole file
        assert one.n_done == 17
        assert not one.is_done
        finish(one)
        assert one.n_done == 33
        assert one.is_done
    with job(shelf) as again:
        assert again.n_done == 33
        assert again.is_done
        assert list(again.groups()) == []


def test_what_is_left_takes_as_long_as_what_this_run_did(shelf: Shelf, clock: Clock) -> None:
    with job(shelf) as first:
        first.log._begin_s = clock.now_s
        assert first.left_s is None
        clock.now_s += 8.0
        first.take(outcome(0))
        assert first.left_s == 8.0 * 17 / 16
    with job(shelf) as second:
        second.log._begin_s = clock.now_s
        clock.now_s += 4.0
        assert second.left_s is None  # what the first one did tells nothing of this one
        second.take(outcome(1))
        assert second.left_s == 4.0 * 1 / 16
        finish(second)
        assert second.left_s == 0.0


def test_a_task_that_two_did_is_counted_once(shelf: Shelf) -> None:
    half = replace(outcome(1), is_last=False)
    with job(shelf) as one:
        for _ in range(2):
            one.take(half)
            one.take(outcome(0))
            one.take(outcome(2))
        record = one.log.record
        assert (record.tasks, record.audio_s, record.worker_s) == (3, 15.0, 6.0)
        assert one.n_done == 17


def test_a_second_outcome_of_a_task_does_not_replace_the_first(shelf: Shelf) -> None:
    with job(shelf) as one:
        one.take(outcome(2))
        one.take(outcome(2, failed=True))
        one.take(replace(outcome(0), is_last=False))
        one.take(outcome(0, failed=True))
        one.take(Outcome(0, 1, True, ()))
        finish(one)
        assert one.failures == []


def test_failures_are_in_the_order_of_the_manifest_whichever_file_is_whole_first(
    shelf: Shelf,
) -> None:
    with job(shelf) as one:
        one.take(outcome(2, failed=True))
        assert [json.loads(line)["id"] for line in one.failures] == ["32.wav"]
        one.take(outcome(1, failed=True))
        one.take(outcome(0, failed=True))
    expected = ["0.wav", "16.wav", "32.wav"]
    assert [json.loads(line)["id"] for line in shelf.files["failures.jsonl"].splitlines()] == (
        expected
    )
    told = read_status(shelf)
    assert (told.done, told.failed, told.remaining) == (30, 3, 0)


def test_what_nothing_came_of_has_failed(shelf: Shelf) -> None:
    with job(shelf) as one:
        one.take(Outcome(2, 0, True, ()))
        (line,) = one.failures
    assert json.loads(line)["error"]["kind"] == "Internal"


def test_what_a_killed_run_had_written_but_not_yet_forgotten_is_counted_once(
    shelf: Shelf,
) -> None:
    with job(shelf) as one:
        finish(one)
    shelf.files["ledger/z-000000.jsonl"] = _line(outcome(0, failed=True)) + _line(outcome(2))
    before = {name: data for name, data in shelf.files.items() if not name.startswith("runs")}
    with job(shelf) as again:
        assert (again.n_done, again.failures) == (33, [])
        assert list(again.groups()) == []
    assert read_status(shelf).done == 33
    assert {k: v for k, v in shelf.files.items() if not k.startswith("runs")} == before


def test_a_job_that_was_not_opened_has_nothing_to_give_back(shelf: Shelf) -> None:
    job(shelf).close()
    assert shelf.files == {}


def test_a_job_without_failures_has_no_list_of_them(shelf: Shelf) -> None:
    with job(shelf) as one:
        finish(one)
        # Of what is written nothing is kept in memory: an archive may have millions.
        assert not any((*one._outcomes.values(), *one._results.values()))
    assert "failures.jsonl" not in shelf.files
    assert shelf.names("ledger") == []


def test_a_whole_file_tells_how_much_audio_it_has(shelf: Shelf) -> None:
    with job(shelf) as one:
        one.take(outcome(2, end_s=1.0625))
        one.take(outcome(0, end_s=0.0001))
        one.take(outcome(1, failed=True, end_s=1.5))
    # 16 of 0.1 ms and 15 of 1.5 s; what failed has none.
    assert json.loads(shelf.files["shards/part-00000.json"])["audio_s"] == 22.502
    assert json.loads(shelf.files["shards/part-00001.json"])["audio_s"] == 1.062
    assert json.loads(shelf.files["shards/part-00000.json"])["items"] == 32


def test_results_are_there_before_what_says_that_they_are(shelf: Shelf) -> None:
    """And the ledger goes last: a run may be killed between any two of these."""
    with job(shelf, replace(JOB, formats=("txt", "srt"))) as one:
        shelf.written.clear()
        removed: list[str] = []
        shelf.remove = lambda name: removed.append(name) or shelf.written.append(f"no {name}")  # type: ignore[method-assign,func-returns-value]
        one.take(outcome(2))
        one.close()
    names = [name for name in shelf.written if not name.startswith("runs")]
    assert names[:4] == [
        *("txt/32.wav.txt", "srt/32.wav.srt", "transcripts/part-00001.jsonl"),
        "shards/part-00001.json",
    ]
    (ledger,) = removed
    assert names.index(f"no {ledger}") > 3


def test_items_are_there_before_the_job_is_one(shelf: Shelf) -> None:
    with job(shelf):
        assert shelf.written[:2] == ["items.jsonl", "job.json"]
    assert shelf.files["job.json"].startswith(b'{\n  "version": 1,\n  "identity": "micro",\n')
    head = json.loads(shelf.files["job.json"])
    assert (head["items"], head["identity"]) == (33, "micro")


def test_a_job_whose_items_are_gone_or_others_is_not_gone_on_with(shelf: Shelf) -> None:
    with job(shelf):
        pass
    for items in (b"", shelf.files["items.jsonl"] + b"\n", None):
        shelf.files.pop("items.jsonl", None)
        if items is not None:
            shelf.files["items.jsonl"] = items
        with pytest.raises(OptionError, match="shelf holds a job of other recordings; give the"):
            BatchJob(shelf, JOB, None).open()
    renamed = [*ITEMS[:-1], Item("32.wav", "/other.wav")]
    with pytest.raises(OptionError, match="other recordings"):
        BatchJob(shelf, JOB, renamed).open()


@pytest.mark.parametrize(
    "change", [{"identity": "other"}, {"formats": ("txt",)}, {"results": "parquet"}]
)
def test_a_job_of_other_settings_is_not_gone_on_with(
    shelf: Shelf, change: dict[str, object]
) -> None:
    with job(shelf):
        pass
    before = dict(shelf.files)
    with pytest.raises(OptionError, match="another model, other options or another version"):
        job(shelf, replace(JOB, **change)).open()  # type: ignore[arg-type]
    assert shelf.files == before


def test_what_is_in_no_file_of_results_yet_outlives_that_of_another_s(shelf: Shelf) -> None:
    """A run that is killed then has lost nothing."""
    with job(shelf) as one:
        one.take(outcome(0))
        one.take(Outcome(1, 0, False, ()))
        one.take(outcome(2))  # a whole file
        killed = dict(shelf.files)
    shelf.files = killed
    with job(shelf) as again:
        assert [(group.index, group.done) for group in again.groups()] == [(1, {0})]
        assert again.n_done == 17


def test_a_file_of_results_whose_summary_is_missing_is_made_of_the_ledger_again(
    shelf: Shelf,
) -> None:
    """As after a power cut between the two: nothing is asked for again, nothing is lost."""
    with job(shelf) as one:
        one.take(outcome(2))
        one.take(outcome(0))
        one._ledger.flush()
        last = dict(shelf.files)
        one.take(outcome(1))
    whole = dict(shelf.files)
    last["ledger/z-000000.jsonl"] = _line(outcome(1))
    shelf.files = last
    with job(shelf) as again:
        assert again.is_done
        assert list(again.groups()) == []
    results = ("transcripts", "shards")
    assert {k: v for k, v in shelf.files.items() if k.startswith(results)} == {
        k: v for k, v in whole.items() if k.startswith(results)
    }
    assert shelf.names("ledger") == []


def _line(one: Outcome) -> bytes:
    return json.dumps(asdict(one)).encode() + b"\n"
