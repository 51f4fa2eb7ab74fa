"""Outcomes on their way to the results: none is lost, none is kept for ever."""

from __future__ import annotations

import pytest

from tests.unit.batch.made_up import Clock, Shelf, segment
from whisper_hailo.batch import ledger
from whisper_hailo.batch.ledger import Ledger
from whisper_hailo.batch.records import Failure, Outcome, PieceResult
from whisper_hailo.core.errors import OutputError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(ledger, "monotonic", made)
    return made


@pytest.fixture
def shelf(clock: Clock) -> Shelf:
    del clock
    return Shelf()


def outcome(group: int, index: int = 0) -> Outcome:
    return Outcome(group, index, False, (), 1.0, 2.0)


def begun(shelf: Shelf) -> Ledger:
    return Ledger(shelf, "run", _since_s=1000.0)


def test_what_is_written_is_what_was_told(shelf: Shelf) -> None:
    told = Outcome(
        3,
        1,
        True,
        (
            PieceResult(0, 2.5, "en", (segment("é", 1.0),)),
            PieceResult(1, 0.5, failure=Failure("AudioError", "bad")),
        ),
        1.25,
        7.5,
    )
    first = begun(shelf)
    first.add(told)
    first.flush()
    assert list(shelf.files) == ["ledger/run-000000.jsonl"]
    assert list(Ledger(shelf).read()) == [told]


def test_runs_have_names_of_their_own(shelf: Shelf) -> None:
    names = {Ledger(shelf).run for _ in range(20)}
    assert len(names) == 20
    assert {len(name) for name in names} == {12}


def test_outcomes_wait_for_256_of_them(shelf: Shelf) -> None:
    one = begun(shelf)
    for n in range(255):
        one.add(outcome(n))
    assert shelf.files == {}
    one.add(outcome(255))
    one.add(outcome(256))
    assert [line.group for line in Ledger(shelf).read()] == list(range(256))
    assert one.parts == {"ledger/run-000000.jsonl": set(range(256))}
    one.flush()
    one.flush()
    assert list(shelf.files) == ["ledger/run-000000.jsonl", "ledger/run-000001.jsonl"]
    assert [line.group for line in Ledger(shelf).read()] == list(range(257))


def test_none_waits_for_longer_than_five_seconds(shelf: Shelf, clock: Clock) -> None:
    one = begun(shelf)
    clock.now_s += 4.5
    one.add(outcome(0))
    assert shelf.files == {}
    clock.now_s += 0.5
    one.add(outcome(1))
    assert [line.group for line in Ledger(shelf).read()] == [0, 1]
    clock.now_s += 4.5
    one.add(outcome(2))
    assert len(shelf.files) == 1
    clock.now_s += 0.5
    one.add(outcome(3))
    assert [line.group for line in Ledger(shelf).read()] == [0, 1, 2, 3]


def test_what_cannot_be_written_waits_on(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OutputError("No space left on device")

    one = begun(shelf)
    one.add(outcome(0))
    with monkeypatch.context() as patch:
        patch.setattr(shelf, "write", full)
        with pytest.raises(OutputError, match="No space left"):
            one.flush()
    one.add(outcome(1))
    one.flush()
    assert [line.group for line in Ledger(shelf).read()] == [0, 1]


def test_a_file_goes_when_all_that_it_tells_of_is_written(shelf: Shelf) -> None:
    one = begun(shelf)
    for groups in ((0, 1), (1, 2), (3,)):
        for group in groups:
            one.add(outcome(group))
        one.flush()
    one.add(outcome(4))
    written = {0, 2, 3}
    one.forget(written.__contains__)
    names = [f"ledger/run-00000{n}.jsonl" for n in range(4)]
    assert list(shelf.files) == [names[0], names[1], names[3]]  # what waited is there, too
    written = {0, 1, 2, 3}
    one.forget(written.__contains__)
    assert list(shelf.files) == [names[3]]
    one.add(outcome(5))
    one.flush()  # in a file of its own, whatever has gone
    assert list(shelf.files) == [names[3], "ledger/run-000004.jsonl"]


def test_a_file_that_has_gone_is_not_removed_again(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(shelf, "remove", removed.append)
    one = begun(shelf)
    one.add(outcome(0))
    one.forget(lambda _: True)
    one.forget(lambda _: True)
    assert removed == ["ledger/run-000000.jsonl"]


def test_files_of_earlier_runs_go_too(shelf: Shelf) -> None:
    first = begun(shelf)
    for group in (0, 1):
        first.add(outcome(group))
    first.flush()
    second = Ledger(shelf, "second")
    assert len(list(second.read())) == 2
    second.forget({0}.__contains__)
    assert len(shelf.files) == 1
    second.forget({0, 1}.__contains__)
    assert shelf.files == {}


def test_a_file_that_is_gone_when_it_is_read_tells_nothing(shelf: Shelf) -> None:
    """Another run's status: the file was listed, and forgotten then."""
    shelf.files["ledger/a"] = b""
    shelf.read = lambda _: None  # type: ignore[method-assign, assignment]
    assert list(Ledger(shelf).read()) == []


def test_what_is_no_number_in_json_is_not_written(shelf: Shelf) -> None:
    """The next run could not read it."""
    one = begun(shelf)
    one.add(Outcome(0, 0, True, (PieceResult(0, float("nan")),)))
    with pytest.raises(ValueError, match="not JSON compliant"):
        one.flush()
    assert shelf.files == {}


def test_a_line_that_none_of_ours_wrote_is_said_with_its_file(shelf: Shelf) -> None:
    one = begun(shelf)
    one.add(outcome(0))
    one.flush()
    shelf.files["ledger/run-000000.jsonl"] += b"{}\n"
    with pytest.raises(OutputError, match=r"shelf/ledger/run-000000.jsonl is damaged \(group is"):
        list(Ledger(shelf).read())
