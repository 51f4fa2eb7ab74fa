"""A job's folder: the same results whatever came in between."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.unit.batch.made_up import Shelf
from whisper_hailo.batch.job import BatchJob, JobSettings
from whisper_hailo.batch.records import Failure, Group, Item, Outcome, PieceResult
from whisper_hailo.batch.results import SHARD_GROUPS, later
from whisper_hailo.batch.status import read_status
from whisper_hailo.batch.store import Folder
from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo.core.types import Segment, Settings, Word
from whisper_hailo.text.subtitles import Layout

ITEMS = [Item(f"{n:03}.wav", f"/{n:03}.wav", metadata={"n": n}) for n in range(16 * 17 + 3)]
SETTINGS = Settings("toy", "onnx-fp32", "cached", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1)
JOB = JobSettings("micro, greedy", SETTINGS, formats=("txt",))
POISON = 40


def job(
    folder: Path, settings: JobSettings = JOB, items: Iterable[Item] | None = ITEMS
) -> BatchJob:
    return BatchJob(Folder(folder), settings, items)


def segment(text: str) -> Segment:
    return Segment(0.0, 1.0, text, (1, 2), -0.1, 0.0, words=(Word(0.1, 0.5, text, 0.9, (1,)),))


def outcomes(group: Group) -> list[Outcome]:
    """Two tasks a group; its second item is in both."""
    half = len(group.items) // 2
    results = [
        PieceResult(place, 1.125, "en", (segment(item.id),))
        for place, item in enumerate(group.items)
    ]
    if group.index == POISON // 16:
        results[POISON % 16] = PieceResult(POISON % 16, 0.0, failure=Failure("AudioError", "bad"))
    more = PieceResult(half, 2.0, "en", later((segment("more"),), 1.0))
    return [
        Outcome(group.index, 0, False, tuple(results[: half + 1]), 1.0, 8.0),
        Outcome(group.index, 1, True, (more, *results[half + 1 :]), 1.0, 8.0),
    ]


def content(folder: Path) -> dict[str, bytes]:
    """All results, and nothing of how they came about."""
    found = (path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path for path in found}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if not name.startswith(("runs", "ledger", ".lock"))
    }


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("straight")
    with job(folder) as straight:
        for group in straight.groups():
            for outcome in outcomes(group):
                straight.take(outcome)
        assert straight.is_done
    return content(folder)


def test_results_are_in_the_order_of_the_manifest(straight: dict[str, bytes]) -> None:
    parts = [name for name in sorted(straight) if name.startswith("transcripts")]
    lines = [json.loads(line) for name in parts for line in straight[name].splitlines()]
    assert [line["id"] for line in lines] == [item.id for item in ITEMS]
    assert len(straight[parts[0]].splitlines()) == 16 * SHARD_GROUPS
    assert [line["metadata"]["n"] for line in lines] == list(range(len(ITEMS)))
    assert lines[8]["text"] == "008.wav more"
    assert lines[8]["duration"] == 2.0
    assert [s["start"] for s in lines[8]["segments"]] == [0.0, 1.0]
    assert lines[8]["segments"][1]["words"][0]["start"] == 1.1
    assert lines[POISON]["error"] == {"kind": "AudioError", "message": "bad"}
    assert straight["txt/008.wav.txt"] == b"008.wav\nmore\n"
    assert f"txt/{POISON:03}.wav.txt" not in straight
    summary = json.loads(straight["shards/part-00000.json"])
    # Sixteen times fifteen items of 1.125 s and one of 2 s; one of the latter failed.
    assert (summary["items"], summary["audio_s"]) == (256, 16 * 15 * 1.125 + 15 * 2.0)
    (failed,) = straight["failures.jsonl"].splitlines()
    assert json.loads(failed)["id"] == ITEMS[POISON].id


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_any_order_and_any_number_of_interruptions_give_the_same_bytes(
    tmp_path: Path, straight: dict[str, bytes], seed: int
) -> None:
    chance = Random(seed)
    n_runs = 0
    while True:
        n_runs += 1
        with job(tmp_path) as one:
            left = [
                outcome
                for group in one.groups()
                for outcome in outcomes(group)
                if outcome.index not in group.done
            ]
            if not left:
                break
            chance.shuffle(left)
            for outcome in left[: chance.randrange(1, 12)]:
                one.take(outcome)
                one.take(outcome)  # two workers did it
    assert n_runs > 2
    assert content(tmp_path) == straight
    assert list((tmp_path / "ledger").iterdir()) == []


def test_what_is_done_is_not_asked_for_again(tmp_path: Path) -> None:
    with job(tmp_path) as first:
        groups = list(first.groups())
        for group in groups[:3]:
            for outcome in outcomes(group):
                first.take(outcome)
        first.take(outcomes(groups[5])[1])
    with job(tmp_path) as second:
        left = {group.index: group.done for group in second.groups()}
    assert set(left) == set(range(18)) - {0, 1, 2}
    assert left[5] == {1}
    assert left[4] == frozenset()


def test_a_job_of_other_options_or_recordings_is_refused(tmp_path: Path) -> None:
    with job(tmp_path):
        pass
    other = JobSettings("micro, beam", SETTINGS, formats=("txt",))
    with pytest.raises(OptionError, match="another model, other options"):
        job(tmp_path, other).open()
    with pytest.raises(OptionError, match="another model, other options"):
        job(tmp_path, JobSettings("micro, greedy", SETTINGS, formats=("srt",))).open()
    wider = replace(JOB, layout=Layout(max_line_width=42))
    with pytest.raises(OptionError, match="another model, other options"):
        job(tmp_path, wider).open()  # some of its subtitles would be set otherwise
    with pytest.raises(OptionError, match="other recordings"):
        job(tmp_path, items=ITEMS[:-1]).open()
    with job(tmp_path, items=None) as known:
        assert known.n_items == len(ITEMS)
    with pytest.raises(OptionError, match="holds no job"):
        job(tmp_path / "empty", items=None).open()


def test_only_one_run_works_on_a_job(tmp_path: Path) -> None:
    with job(tmp_path), pytest.raises(OutputError, match="another run works on"):
        job(tmp_path).open()
    with job(tmp_path):
        pass


def test_what_says_that_others_are_whole_is_written_behind_them() -> None:
    """A run may be killed behind any of it; what led to results goes when they are there."""
    shelf = Shelf()
    shelf.remove = lambda name: shelf.written.append(f"no more {name}")  # type: ignore[method-assign]
    with BatchJob(shelf, JOB, ITEMS[:2]) as one:
        (group,) = one.groups()
        for outcome in outcomes(group):
            one.take(outcome)
        ledger = f"ledger/{one.log.run}-000000.jsonl"
    assert shelf.written[:-1] == [  # how long it took comes last
        *("items.jsonl", "job.json", "txt/000.wav.txt", "txt/001.wav.txt"),
        *("transcripts/part-00000.jsonl", "shards/part-00000.json", ledger, f"no more {ledger}"),
    ]


class Full(Folder):
    """A disk that is full now and then."""

    full = False

    def write(self, name: str, data: bytes) -> None:
        if self.full:
            raise OutputError("No space left on device")
        super().write(name, data)


def test_a_disk_that_fills_loses_nothing(tmp_path: Path, straight: dict[str, bytes]) -> None:
    store = Full(tmp_path)
    with BatchJob(store, JOB, ITEMS) as one:
        groups = list(one.groups())
        for outcome in (outcome for group in groups[:15] for outcome in outcomes(group)):
            one.take(outcome)
        one.take(outcomes(groups[15])[0])
        store.full = True
        with pytest.raises(OutputError, match="No space left"):
            one.take(outcomes(groups[15])[1])  # with the last group of a file of results
        store.full = False
    with job(tmp_path) as again:
        for group in again.groups():
            for outcome in outcomes(group):
                again.take(outcome)
    assert content(tmp_path) == straight


def test_the_state_is_told_while_others_work(tmp_path: Path) -> None:
    with job(tmp_path) as one:
        groups = list(one.groups())
        for group in groups[:16]:
            for outcome in outcomes(group):
                one.take(outcome)
        one.take(outcomes(groups[16])[0])
        one._ledger.flush()
        status = read_status(Folder(tmp_path))
        assert (status.items, status.done, status.failed) == (275, 16 * 16 - 1 + 8, 1)
        assert status.remaining == 275 - 16 * 16 - 8
        assert status.failures == {"AudioError": 1}
    with ExitStack() as held:
        Folder(tmp_path).hold(held)
        later_on = read_status(Folder(tmp_path))
    assert later_on.speed > 0
    assert later_on.left_s is not None
    with pytest.raises(OptionError, match="holds no job"):
        read_status(Folder(tmp_path / "elsewhere"))


def test_a_damaged_ledger_says_what_to_do(tmp_path: Path) -> None:
    with job(tmp_path) as one:
        group = next(iter(one.groups()))
        one.take(outcomes(group)[0])
    (part,) = (tmp_path / "ledger").iterdir()
    part.write_bytes(b"{}\n")
    with pytest.raises(OutputError, match=r"is damaged .*; remove it: what it told is done again"):
        job(tmp_path).open()
