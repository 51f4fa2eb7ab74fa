"""How far a job is, from what lies in its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import pytest

from tests.unit.batch.made_up import Shelf
from whisper_hailo.batch.job_files import FileSummary, Head, read_head, read_summaries
from whisper_hailo.batch.ledger import Ledger
from whisper_hailo.batch.manifest import written
from whisper_hailo.batch.records import Failure, Item, Outcome, PieceResult
from whisper_hailo.batch.status import Status, read_status
from whisper_hailo.core.errors import OptionError

BAD = Failure("AudioError", "bad")
WORSE = Failure("Crash", "worse")


def shelf(n_items: int) -> Shelf:
    """A job that has just begun."""
    made = Shelf()
    head = Head(1, "micro", n_items, "00")
    made.files["job.json"] = json.dumps(asdict(head)).encode()
    items = (Item(f"{n}.wav", f"/{n}.wav") for n in range(n_items))
    made.files["items.jsonl"] = written(items)
    return made


def summary(made: Shelf, number: int, items: int, audio_s: float, *failures: str) -> None:
    data = json.dumps(asdict(FileSummary(items, audio_s, failures)))
    made.files[f"shards/part-{number:05}.json"] = data.encode()


def line(kind: str) -> str:
    return json.dumps({"id": "a", "error": {"kind": kind, "message": "said"}}) + "\n"


def told(made: Shelf, *outcomes: Outcome) -> Status:
    """The state with some outcomes in the ledger."""
    ledger = Ledger(made, "run")
    for outcome in outcomes:
        ledger.add(outcome)
    ledger.flush()
    return read_status(made)


def outcome(
    index: int,
    results: Sequence[int | tuple[int, Failure]],
    *,
    group: int = 0,
    last: bool = False,
) -> Outcome:
    """What came of pieces, by their items' places; a task has eight seconds."""
    made = tuple(
        PieceResult(one, 1.0) if isinstance(one, int) else PieceResult(one[0], 0.0, failure=one[1])
        for one in results
    )
    return Outcome(group, index, last, made, 1.0, 8.0)


def run(
    made: Shelf, name: str, begin: str, seconds: float, audio_s: float, *, tasks: int = 1
) -> None:
    record = {"begin": begin, "seconds": seconds, "audio_s": audio_s, "tasks": tasks}
    made.files[f"runs/{name}.json"] = json.dumps(record).encode()


def test_of_a_job_that_has_just_begun_all_is_left() -> None:
    status = read_status(shelf(20))
    assert status == Status(20)
    assert (status.done, status.failed, status.remaining) == (0, 0, 20)
    assert (status.audio_s, status.speed, status.left_s) == (0.0, 0.0, None)


def test_files_of_results_and_the_ledger_add_up() -> None:
    made = shelf(16 * 16 + 16 + 3)
    summary(made, 0, 256, 1000.0044, line("AudioError"), line("Crash"), line("AudioError"))
    status = told(
        made,
        outcome(0, [0, 1, (2, BAD)], group=16),
        outcome(1, [3, (4, WORSE), 5], group=16),
        outcome(0, [0, 1, 2], group=17, last=True),
    )
    # Of group 16 item 5 may go on in the next task; group 17 is whole.
    assert (status.items, status.done, status.failed) == (275, 253 + 3 + 3, 3 + 2)
    assert status.remaining == 275 - 256 - 5 - 3
    assert status.failures == {"AudioError": 3, "Crash": 2}
    assert list(status.failures) == ["AudioError", "Crash"]
    assert status.audio_s == 1024.004


def test_kinds_of_failures_are_in_order_of_their_names() -> None:
    made = shelf(256)
    summary(made, 0, 256, 0.0, line("Internal"), line("AudioError"), "no JSON", '{"id": "a"}')
    summary(made, 1, 0, 0.0, '{"error": {}}', "[]")
    assert list(read_status(made).failures.items()) == [
        ("AudioError", 1), ("Internal", 1), ("unknown", 4),
    ]  # fmt: skip


def test_what_is_in_a_file_of_results_is_not_counted_again_from_the_ledger() -> None:
    made = shelf(300)
    summary(made, 0, 256, 100.0)
    whole = outcome(0, range(16), group=15, last=True)
    status = told(made, whole, outcome(0, range(16), group=16, last=True))
    assert (status.done, status.audio_s) == (272, 108.0)


def test_an_outcome_that_two_runs_noted_counts_once() -> None:
    made = shelf(16)
    told(made, outcome(0, [0, 1, 2]))
    other = Ledger(made, "other")
    other.add(outcome(0, [0, 1, 2]))
    other.flush()
    assert (read_status(made).done, read_status(made).audio_s) == (2, 8.0)


def test_what_a_run_writes_meanwhile_is_counted_once() -> None:
    """It goes from the ledger to a file of results between two looks at the folder."""

    class Moving(Shelf):
        def names(self, folder: str) -> list[str]:
            found = super().names(folder)
            self.files.pop("ledger/run-000000.jsonl", None)
            summary(self, 0, 16, 8.0)
            return found

    made, before = Moving(), shelf(16)
    told(before, outcome(0, range(16), last=True))
    made.files = before.files
    status = read_status(made)
    assert (status.done, status.remaining, status.audio_s) == (16, 0, 8.0)


@pytest.mark.parametrize(
    ("outcomes", "done", "failed"),
    [
        pytest.param([outcome(0, [0])], 0, 0, id="may go on"),
        pytest.param([outcome(0, [0, 1])], 1, 0, id="one is behind it"),
        pytest.param([outcome(0, [0]), outcome(1, [0, 1])], 1, 0, id="over two tasks"),
        pytest.param([outcome(1, [1, 2])], 0, 0, id="the first is missing"),
        pytest.param([outcome(0, [0, 1]), outcome(2, [5, 6])], 1, 0, id="one between is missing"),
        pytest.param(
            [outcome(0, [0, 1]), outcome(2, [4, 5]), outcome(3, [5, 6])], 1, 0, id="two behind it"
        ),
        pytest.param([outcome(1, [4, 5, 6, 7], last=True)], 0, 0, id="only the last"),
        pytest.param(
            [outcome(0, [0, 1]), outcome(2, [4, 5, 6, 7], last=True)], 1, 0, id="not whole"
        ),
        pytest.param(
            [outcome(0, [0, 1, 2, 3]), outcome(1, [4, 5, 6, 7], last=True)], 8, 0, id="whole"
        ),
        pytest.param([outcome(0, [(0, BAD), 1])], 0, 1, id="failed"),
        pytest.param([outcome(0, [0, (1, BAD)])], 1, 0, id="fails, but is not over"),
        pytest.param(
            [outcome(0, [0, (0, BAD), 1]), outcome(1, [(1, BAD), (1, BAD), 2])], 0, 2, id="in bits"
        ),
        pytest.param([outcome(0, [*range(7), (7, BAD)], last=True)], 7, 1, id="the last one"),
        pytest.param([outcome(0, [0, 1], group=5, last=True)], 0, 0, id="of no group"),
    ],
)
def test_an_item_is_done_when_the_next_one_has_begun(
    outcomes: list[Outcome], done: int, failed: int
) -> None:
    status = told(shelf(8), *outcomes)
    assert (status.done, status.failed, status.remaining) == (done, failed, 8 - done - failed)


def test_the_speed_is_that_of_the_run_that_began_last() -> None:
    made = shelf(20)
    run(made, "a", "2026-01-03", 10.0, 50.0)
    run(made, "b", "2026-01-02", 10.0, 20.0)
    run(made, "c", "2026-01-04", 10.0, 990.0, tasks=0)  # it did nothing yet
    made.files["runs/d.json"] = b"damaged"
    made.files["runs/e.json"] = b"{}"
    assert read_status(made).speed == 5.0
    run(made, "f", "2026-01-05", 3.0, 1.0)
    assert read_status(made).speed == 0.333


def test_what_is_left_takes_as_long_as_what_was_done() -> None:
    made = shelf(20)
    summary(made, 0, 8, 800.0, line("AudioError"), line("AudioError"), line("AudioError"))
    assert read_status(made).left_s is None
    run(made, "a", "2026-01-01", 10.0, 70.0)
    # 12 are left, of 160 s each as the 5 that are done, at 7 seconds in a second.
    status = read_status(made)
    assert (status.done, status.failed, status.remaining, status.speed) == (5, 3, 12, 7.0)
    assert status.left_s == 274.3
    nothing = shelf(20)
    run(nothing, "a", "2026-01-01", 10.0, 70.0)
    assert read_status(nothing).left_s is None


def test_a_job_whose_items_are_gone_is_as_large_as_it_was() -> None:
    made = shelf(20)
    summary(made, 0, 16, 8.0)
    del made.files["items.jsonl"]
    assert (read_status(made).done, read_status(made).remaining) == (16, 4)


def test_where_there_is_no_job_it_is_said() -> None:
    with pytest.raises(OptionError, match="shelf holds no job, expected the folder of one"):
        read_status(Shelf())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", r"shelf/job.json is no job of this program \(version is missing\)"),
        (b"no", "shelf/job.json is no job of this program"),
        (
            b'{"version": 2, "identity": "a", "items": 1, "items_sha256": "00"}',
            "shelf holds a job of layout 2, expected 1",
        ),
        (
            b'{"version": 0, "identity": "a", "items": 1, "items_sha256": "00"}',
            "shelf holds a job of layout 0, expected 1",
        ),
    ],
)
def test_a_folder_of_something_else_is_refused(content: bytes, message: str) -> None:
    made = Shelf()
    made.files["job.json"] = content
    with pytest.raises(OptionError, match=message):
        read_head(made)


def test_a_job_of_jsonl_needs_not_say_so() -> None:
    """As those did that were begun before there was another layout."""
    made = Shelf()
    made.files["job.json"] = b'{"version": 1, "identity": "a", "items": 1, "items_sha256": "00"}'
    assert read_head(made) == Head(1, "a", 1, "00", (), "jsonl")


def test_a_summary_that_is_damaged_is_as_if_it_were_not_there() -> None:
    made = Shelf()
    summary(made, 0, 256, 1.0)
    made.files["shards/part-00001.json"] = b'{"items": 2'
    made.files["shards/notes.txt"] = b'{"items": 2, "audio_s": 1.0}'
    summary(made, 12, 3, 0.5, "line\n")
    assert read_summaries(made) == {
        0: FileSummary(256, 1.0),
        12: FileSummary(3, 0.5, ("line\n",)),
    }
    made.read = lambda _: None  # type: ignore[method-assign, assignment]
    assert read_summaries(made) == {}
