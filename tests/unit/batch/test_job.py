"""A job's folder: the same results whatever came in between."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.unit.batch.made_up import Clock
from tests.unit.batch.made_up import segment as said
from whisper_hailo.batch import job as job_module
from whisper_hailo.batch.job import (
    PART_ITEMS,
    BatchJob,
    JobSettings,
    join_pieces,
    read_status,
)
from whisper_hailo.batch.ledger import LEDGER_FILE
from whisper_hailo.batch.manifest import Candidate, Item
from whisper_hailo.batch.tasks import Failure, Group, Outcome, PieceResult
from whisper_hailo.batch.workers import shift_segment
from whisper_hailo.core.errors import AudioError, OptionError, OutputError
from whisper_hailo.core.types import Segment, Settings, Word
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.turns import SpeakerTurn, SpeakerTurns
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.text.transcript_json import JSON_VERSION

ITEMS = [
    Item(f"{n:03}.wav", f"/{n:03}.wav", metadata={"n": n}) for n in range(16 * 17 + 3)
]
ARCHIVES = Path(__file__).parents[3] / "docs" / "archives.md"
SETTINGS = Settings("toy", "onnx-fp32", "cached", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1)
JOB = JobSettings("micro, greedy", SETTINGS, formats=("txt",))
POISON = 40
BAD = Failure("AudioError", "bad")


def job(
    folder: Path,
    settings: JobSettings = JOB,
    items: Iterable[Item] = ITEMS,
    found: str = "",
) -> BatchJob:
    """A job; `found` is the folder that its recordings were found in."""
    return BatchJob(folder, settings, [Candidate(item, found) for item in items])


def test_find_speakers_names_segments_of_joined_pieces(tmp_path: Path) -> None:
    turns = (SpeakerTurn(0, 0.9, 0), SpeakerTurn(0.9, 2, 1))
    found = SpeakerTurns(turns, np.eye(2, 192, dtype=np.float32))
    asked = []

    def find(audio: str) -> SpeakerAttribution:
        asked.append(audio)
        if audio == ITEMS[0].audio:
            raise AudioError("it has gone")
        return SpeakerAttribution(found, ("Anna",))

    candidates = [Candidate(item) for item in ITEMS[:2]]
    with BatchJob(tmp_path, JOB, candidates, find_speakers=find) as running:
        (group,) = running.groups()
        for outcome in outcomes(group):
            running.record_outcome(outcome)
    assert asked == [item.audio for item in ITEMS[:2]]
    file = tmp_path / "transcripts" / "part-00000.jsonl"
    first, second = [json.loads(line) for line in file.read_text().splitlines()]
    assert first["error"]["kind"] == "AudioError"
    assert [part["speaker"] for part in second["segments"]] == ["Anna", 1]


def segment(text: str) -> Segment:
    return Segment(
        0.0, 1.0, text, (1, 2), -0.1, 0.0, words=(Word(0.1, 0.5, text, 0.9, (1,)),)
    )


def outcomes(group: Group) -> list[Outcome]:
    """Two tasks a group; its second item is in both."""
    half = len(group.items) // 2
    results = [
        PieceResult(place, int(place != half), 1.125, "en", (segment(item.id),))
        for place, item in enumerate(group.items)
    ]
    if group.index == POISON // 16:
        results[POISON % 16] = PieceResult(POISON % 16, 0, 0.0, failure=BAD)
    more = PieceResult(half, 2, 2.0, "en", (shift_segment(segment("more"), 1.0),))
    return [
        Outcome(group.index, 0, tuple(results[: half + 1]), 1.0, 8.0),
        Outcome(group.index, 1, (more, *results[half + 1 :]), 1.0, 8.0),
    ]


def content(folder: Path) -> dict[str, bytes]:
    """All results, and nothing of how they came about."""
    found = (path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path for path in found}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if not name.startswith((LEDGER_FILE, ".lock"))
    }


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("straight")
    with job(folder) as straight:
        for group in straight.groups():
            for outcome in outcomes(group):
                straight.record_outcome(outcome)
        assert straight.n_done == straight.n_items
    return content(folder)


def test_results_are_in_the_order_of_the_manifest(straight: dict[str, bytes]) -> None:
    parts = [name for name in sorted(straight) if name.startswith("transcripts")]
    lines = [json.loads(line) for name in parts for line in straight[name].splitlines()]
    assert [line["id"] for line in lines] == [item.id for item in ITEMS]
    assert len(straight[parts[0]].splitlines()) == PART_ITEMS
    assert [line["metadata"]["n"] for line in lines] == list(range(len(ITEMS)))
    assert lines[8]["text"] == "008.wav more"
    assert lines[8]["duration"] == 2.0
    assert [s["start"] for s in lines[8]["segments"]] == [0.0, 1.0]
    assert lines[8]["segments"][1]["words"][0]["start"] == 1.1
    assert lines[POISON]["error"] == {"kind": "AudioError", "message": "bad"}
    assert straight["txt/008.wav.txt"] == b"008.wav\nmore\n"
    assert f"txt/{POISON:03}.wav.txt" not in straight
    (failed,) = straight["failures.jsonl"].splitlines()
    assert json.loads(failed)["id"] == ITEMS[POISON].id


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_interruptions_in_any_order_give_the_same_bytes(
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
                one.record_outcome(outcome)
                one.record_outcome(outcome)  # two workers did it
    assert n_runs > 2
    assert content(tmp_path) == straight
    names = {path.name for path in tmp_path.glob(f"{LEDGER_FILE}*")}
    assert names == {LEDGER_FILE}, "one plain file is left"


def test_what_is_done_is_not_asked_for_again(tmp_path: Path) -> None:
    with job(tmp_path) as first:
        groups = list(first.groups())
        for group in groups[:3]:
            for outcome in outcomes(group):
                first.record_outcome(outcome)
        first.record_outcome(outcomes(groups[5])[1])
    with job(tmp_path) as second:
        left = {group.index: group.done for group in second.groups()}
    assert set(left) == set(range(18)) - {0, 1, 2}
    assert left[5] == {1}
    assert left[4] == frozenset()


@pytest.mark.parametrize(
    "change",
    [{"identity": "beam"}, {"layout": Layout(max_line_width=42)}],
    ids=str,
)
def test_job_of_other_settings_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    with job(tmp_path):
        pass
    with pytest.raises(OptionError, match="other options"):
        job(tmp_path, replace(JOB, **change)).open()


def test_job_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="holds no job"):
        job(tmp_path, items=()).open()
    with job(tmp_path):
        pass
    with job(tmp_path, items=()) as known:
        assert known.n_items == len(ITEMS)


def finish(one: BatchJob) -> None:
    for group in one.groups():
        for outcome in outcomes(group):
            one.record_outcome(outcome)


def lines(folder: Path) -> list[dict[str, Any]]:
    parts = sorted((folder / "transcripts").iterdir())
    return [
        json.loads(line) for path in parts for line in path.read_text().splitlines()
    ]


def test_job_grows_by_one_file(tmp_path: Path) -> None:
    """What is done is not done again, and keeps its place."""
    few = ITEMS[:51]
    with job(tmp_path, items=few) as one:
        finish(one)
    before = lines(tmp_path)
    new = Item("000-new.wav", "/000-new.wav")
    with job(tmp_path, items=[new, *few]) as grown:
        (group,) = grown.groups()
        assert group == Group(4, (new,))
        assert grown.n_done < grown.n_items
        finish(grown)
        assert grown.n_done == grown.n_items
    assert lines(tmp_path)[:-1] == before
    assert lines(tmp_path)[-1]["id"] == "000-new.wav"
    assert (tmp_path / "txt" / "000-new.wav.txt").exists()


def test_job_grows_across_files_of_results(tmp_path: Path) -> None:
    with job(tmp_path, items=ITEMS[:250]) as one:
        finish(one)
    with job(tmp_path) as grown:
        assert [group.index for group in grown.groups()] == [16, 17]
        finish(grown)
    assert [line["id"] for line in lines(tmp_path)] == [item.id for item in ITEMS]
    sizes = [
        len(path.read_bytes().splitlines())
        for path in (tmp_path / "transcripts").iterdir()
    ]
    assert sorted(sizes) == [19, 256]


def test_job_grows_by_a_format_without_new_work(tmp_path: Path) -> None:
    few = ITEMS[:3]
    with job(tmp_path, items=few) as one:
        finish(one)
    with job(tmp_path, replace(JOB, formats=("srt",)), few) as grown:
        assert list(grown.groups()) == []
    assert {path.name for path in (tmp_path / "srt").iterdir()} == {
        f"{i.id}.srt" for i in few
    }
    more = [*few, ITEMS[3]]
    with job(tmp_path, replace(JOB, formats=()), more) as again:
        finish(again)
    assert {path.name for path in (tmp_path / "srt").iterdir()} == {
        f"{i.id}.srt" for i in more
    }


def test_equal_names_of_two_folders_get_distinct_outputs(tmp_path: Path) -> None:
    first = Item("a.wav", "/talks/a.wav")
    second, third = Item("a.wav", "/more/a.wav"), Item("a.wav", "/old/more/a.wav")
    with job(tmp_path, items=[first], found="talks") as one:
        finish(one)
    for _ in range(2):
        with job(tmp_path, items=[second, third], found="more") as two:
            finish(two)
    with job(tmp_path, items=[first], found="talks") as three:
        assert list(three.groups()) == []
    assert [(line["id"], line["audio"]) for line in lines(tmp_path)] == [
        ("a.wav", "/talks/a.wav"),
        ("more/a.wav", "/more/a.wav"),
        ("more-2/a.wav", "/old/more/a.wav"),
    ]


def test_recording_found_through_two_folders_is_one(tmp_path: Path) -> None:
    with job(tmp_path, items=[Item("sub/a.wav", "/talks/sub/a.wav")], found="talks"):
        pass
    with job(tmp_path, items=[Item("a.wav", "/talks/sub/a.wav")], found="sub") as one:
        assert one.n_items == 1
    with job(tmp_path, items=[Item("again", "/talks/sub/a.wav")]) as named:
        assert named.n_items == 2, "a manifest may ask for it twice"


@pytest.mark.parametrize(
    "other",
    [
        Item("a", "/b.wav"),
        Item("a", "/a.wav", "de"),
        Item("a", "/a.wav", metadata={"n": 1}),
    ],
)
def test_id_of_another_recording_is_refused(tmp_path: Path, other: Item) -> None:
    with job(tmp_path, items=[Item("a", "/a.wav")]):
        pass
    with pytest.raises(OptionError, match="the id a,"):
        job(tmp_path, items=[Item("b", "/b.wav"), other]).open()
    with job(tmp_path, items=()) as known:
        assert known.n_items == 1


def test_only_one_run_works_on_a_job(tmp_path: Path) -> None:
    with job(tmp_path), pytest.raises(OutputError, match="another run works on"):
        job(tmp_path).open()
    with job(tmp_path):
        pass


def test_ids_that_are_no_text_are_kept(tmp_path: Path) -> None:
    items = [Item("\udcff.wav", "/\udcff.wav", metadata={"t": "\ud800 \\udcff ä"})]
    for _ in range(2):
        with job(tmp_path, items=items) as one:
            assert [item for group in one.groups() for item in group.items] == items


def test_full_disk_loses_nothing(
    tmp_path: Path, straight: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with job(tmp_path) as one:
        groups = list(one.groups())
        for outcome in (
            outcome for group in groups[:15] for outcome in outcomes(group)
        ):
            one.record_outcome(outcome)
        one.record_outcome(outcomes(groups[15])[0])
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(
                OutputError, match=r"No space left on device\); free some space, or"
            ):
                one.record_outcome(
                    outcomes(groups[15])[1]
                )  # with the last group of a file of results
    with job(tmp_path) as again:
        assert again.n_done == 256
        finish(again)
    assert content(tmp_path) == straight


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot write .*file/job"):
        job(tmp_path / "file" / "job").open()


def test_full_disk_of_ledger_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, connect = [], sqlite3.connect

    def connected(*given: Any, **named: Any) -> sqlite3.Connection:
        opened.append(connect(*given, **named))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connected)
    with job(tmp_path, items=ITEMS[:16]) as one:
        (ledger,) = opened
        ledger.execute("PRAGMA max_page_count = 1")
        (group,) = one.groups()
        with pytest.raises(OutputError, match="full"):
            one.record_outcome(
                Outcome(0, 0, tuple(_long(place) for place in range(16)))
            )
        ledger.execute("PRAGMA max_page_count = 100000")
        finish(one)
        assert one.n_done == one.n_items
    assert group.done == frozenset()


def _long(place: int) -> PieceResult:
    tokens = tuple(Random(place).sample(range(50_000), 5000))
    return PieceResult(
        place, 1, 1.0, "en", (Segment(0.0, 1.0, "a", tokens, -0.1, 0.0),)
    )


def test_ledger_that_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    with job(tmp_path):
        pass
    (tmp_path / LEDGER_FILE).write_bytes(b"no tables" * 100)
    for act in (lambda: job(tmp_path).open(), lambda: read_status(tmp_path)):
        with pytest.raises(OutputError, match="damaged"):
            act()


def test_job_of_another_layout_is_refused(tmp_path: Path) -> None:
    with job(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / LEDGER_FILE)) as ledger:
        ledger.execute("PRAGMA user_version = 2")
    with pytest.raises(OptionError, match="layout 2, expected 4"):
        job(tmp_path).open()


def test_second_outcome_of_a_task_changes_nothing(tmp_path: Path) -> None:
    with job(tmp_path, items=ITEMS[:16]) as one:
        (group,) = one.groups()
        first, second = outcomes(group)
        for outcome in (
            first,
            replace(first, results=()),
            second,
            replace(second, results=()),
        ):
            one.record_outcome(outcome)
        assert (one.record.tasks, one.record.audio_s, one.record.worker_s) == (
            2,
            16.0,
            2.0,
        )
        assert one.failures == []
        assert one.n_done == 16


def test_job_that_was_not_opened_writes_nothing(tmp_path: Path) -> None:
    job(tmp_path / "job").close()
    with pytest.raises(ValueError, match="bad manifest"):
        BatchJob(tmp_path / "job", JOB, _bad()).open()
    assert list(tmp_path.iterdir()) == []


def _bad() -> Iterator[Candidate]:
    yield Candidate(ITEMS[0])
    raise ValueError("bad manifest")


def test_time_left_follows_what_this_run_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(job_module, "monotonic", clock)
    for n_left, seconds in ((17, 8.0), (1, 4.0)):
        with job(tmp_path, items=ITEMS[:33]) as one:
            group, *_ = one.groups()
            assert one.left_s is None, "earlier runs tell nothing of this one"
            first, second = outcomes(group)
            one.record_outcome(first)
            clock.now_s += seconds
            one.record_outcome(second)
            assert one.record.seconds == seconds
            assert one.left_s == seconds * n_left / 16


def test_status_is_read_while_others_work(tmp_path: Path) -> None:
    with job(tmp_path) as one:
        groups = list(one.groups())
        for group in groups[:16]:
            for outcome in outcomes(group):
                one.record_outcome(outcome)
        one.record_outcome(outcomes(groups[16])[0])
        status = read_status(tmp_path)
        assert (status.items, status.done, status.failed) == (275, 16 * 16 - 1 + 8, 1)
        assert status.remaining == 275 - 16 * 16 - 8
        assert status.failures == {"AudioError": 1}
        assert status.audio_s == 33 * 8.0
    later_on = read_status(tmp_path)
    assert later_on.speed > 0
    assert later_on.left_s is not None
    with pytest.raises(OptionError, match="holds no job"):
        read_status(tmp_path / "elsewhere")


def piece(place: int, n_pieces: int = 1, failure: Failure | None = None) -> PieceResult:
    return PieceResult(place, n_pieces, 1.0, failure=failure)


@pytest.mark.parametrize(
    ("tasks", "done", "failed"),
    [
        pytest.param({0: [piece(0, 0)]}, 0, 0, id="goes on"),
        pytest.param({0: [piece(0), piece(1, 0)]}, 1, 0, id="one of two"),
        pytest.param(
            {0: [piece(0, 0)], 1: [piece(0, 2), piece(1)]}, 2, 0, id="over two tasks"
        ),
        pytest.param(
            {1: [piece(0, 2), piece(1)], 0: [piece(0, 0)]}, 2, 0, id="last comes first"
        ),
        pytest.param({1: [piece(1, 2), piece(2)]}, 1, 0, id="the first is missing"),
        pytest.param(
            {0: [piece(0, 0)], 2: [piece(0, 3)]}, 0, 0, id="one between is missing"
        ),
        pytest.param({0: [piece(0, 0), piece(0, 2)]}, 1, 0, id="both in one task"),
        pytest.param({0: [piece(0, 1, BAD), piece(1)]}, 1, 1, id="failed"),
        pytest.param(
            {0: [piece(0, 0, BAD)], 1: [piece(0, 2), piece(1, 1, BAD)]},
            0,
            2,
            id="in bits",
        ),
    ],
)
def test_item_is_done_when_all_of_its_pieces_are(
    tmp_path: Path, tasks: dict[int, list[PieceResult]], done: int, failed: int
) -> None:
    with job(tmp_path, items=ITEMS[:8]) as one:
        for index, pieces in tasks.items():
            one.record_outcome(Outcome(0, index, tuple(pieces), 1.0, 8.0))
        status = read_status(tmp_path)
        assert (status.done, status.failed) == (done, failed)
        assert one.n_done == done + failed


def heard(end_s: float, language: str, *segments: Segment) -> PieceResult:
    return PieceResult(0, 0, end_s, language, segments)


def test_a_recording_s_pieces_follow_one_another() -> None:
    later = shift_segment(said("two"), 300.0)
    result = join_pieces([heard(300.0, "en", said("one")), heard(450.5, "en", later)])
    assert [(s.text, s.start_s) for s in result.segments] == [
        ("one", 0.0),
        ("two", 300.0),
    ]
    assert (result.end_s, result.language, result.failure) == (450.5, "en", None)


def test_the_language_is_that_of_most_of_the_text() -> None:
    short, more = (
        heard(1.0, "de", said("kurz")),
        heard(2.0, "en", said("not so"), said(" short")),
    )
    result = join_pieces([short, more, short])
    assert result.language == "en"  # 12 letters, and 4 and 4 of the other
    assert [one.text for one in result.segments] == ["kurz", "not so", " short", "kurz"]


def test_a_recording_of_which_any_piece_failed_has_failed() -> None:
    """What was heard of it would be taken for all of it."""
    fine, failed = heard(300.0, "en", said("one")), piece(0, 0, BAD)
    for pieces in (
        (fine, failed),
        (fine, failed, fine),
        (failed, fine),
        (fine, fine, failed),
    ):
        result = join_pieces(pieces)
        assert (result.segments, result.failure) == ((), BAD)


def written(
    folder: Path, item: Item, result: PieceResult, settings: JobSettings = JOB
) -> dict[str, Any]:
    """The record of a job's only item."""
    with job(folder, settings, [item]) as one:
        one.record_outcome(Outcome(0, 0, (result,), 1.0, 8.0))
    (line,) = (
        (folder / "transcripts" / "part-00000.jsonl")
        .read_text()
        .splitlines(keepends=True)
    )
    assert line.endswith("}\n")
    record: dict[str, Any] = json.loads(line)
    return record


def test_a_record_has_the_fields_that_the_page_on_archives_names(
    tmp_path: Path,
) -> None:
    item = Item("a", "/a.wav", None, {"show": "news"})
    result = PieceResult(0, 1, 1.0, "en", (said("word"),))
    record = written(tmp_path / "a", item, result, replace(JOB, task="translate"))
    assert list(record) == [
        *("version", "id", "audio", "task", "language", "duration", "text", "segments"),
        *("languages", "untranscribed", "metadata"),
    ]
    assert (record["version"], record["id"], record["audio"]) == (
        JSON_VERSION,
        "a",
        "/a.wav",
    )
    assert (record["text"], record["duration"], record["metadata"]) == (
        "word",
        1.0,
        item.metadata,
    )
    assert record["task"] == "translate"
    failed = written(tmp_path / "b", item, piece(0, 1, BAD))
    assert failed == {
        "version": JSON_VERSION, "id": "a", "audio": "/a.wav", "metadata": {"show": "news"},
        "error": {"kind": "AudioError", "message": "bad"},
    }  # fmt: skip
    page = ARCHIVES.read_text(encoding="utf-8")
    assert (
        set(re.findall(r"^\| `(\w+)` \| ", page, re.M)) >= record.keys() | failed.keys()
    )


@pytest.mark.parametrize("language", ["de", None])
def test_a_failure_is_a_line_of_a_manifest(
    tmp_path: Path, language: str | None
) -> None:
    item = Item("ä", "/ä.wav", language, {"n": 1})
    written(tmp_path, item, piece(0, 1, BAD))
    (line,) = (tmp_path / "failures.jsonl").read_text().splitlines()
    assert "ä" in line
    expected = {
        "id": "ä", "audio": "/ä.wav", "metadata": {"n": 1},
        "error": {"kind": "AudioError", "message": "bad"},
    }  # fmt: skip
    assert json.loads(line) == (
        expected | {"language": language} if language else expected
    )


def test_item_has_file_of_each_format_but_none_where_it_failed(tmp_path: Path) -> None:
    layout = Layout(highlight_words=True)
    settings = replace(JOB, formats=("txt", "srt", "json"), layout=layout)
    result = PieceResult(0, 1, 1.0, "en", (said("two words"),))
    record = written(tmp_path / "a", Item("b/\udcff", "/a.wav"), result, settings)
    assert record["id"] == "b/\udcff"  # a name that is no text
    assert (tmp_path / "a" / "txt" / "b" / "\udcff.txt").read_bytes() == b"two words\n"
    assert (
        "<u>two words</u>" in (tmp_path / "a" / "srt" / "b" / "\udcff.srt").read_text()
    )
    text = (tmp_path / "a" / "json" / "b" / "\udcff.json").read_text()
    assert json.loads(text)["audio"] == "b/\udcff"
    written(tmp_path / "b", Item("a", "/a.wav"), piece(0, 1, BAD), settings)
    assert {path.name for path in (tmp_path / "b").iterdir() if path.is_dir()} == {
        "transcripts"
    }
