"""A job's place: a folder and a bucket do the same."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.unit.batch.made_up import Files
from whisper_hailo.batch.store import LEDGER_FILE, Bucket, Folder, Store, open_recording, open_store
from whisper_hailo.core.errors import AudioError, OptionError, OutputError


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, files: Files) -> Store:
    del files
    return open_store(str(tmp_path / "job") if request.param == "folder" else "made://bucket/job")


def test_what_is_written_is_read_and_replaced(store: Store) -> None:
    assert store.read("job.json") is None
    assert store.read("ledger/a.jsonl") is None
    store.write("ledger/a.jsonl", b"one")
    store.write("ledger/b.jsonl", b"two")
    store.write("ledger/a.jsonl", b"three")
    assert store.read("ledger/a.jsonl") == b"three"
    assert store.read("ledger/b.jsonl") == b"two"
    assert store.read("ledger/c.jsonl") is None


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Folder(tmp_path)
    store.write("shards/a", b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OutputError, match=r"\(No space left on device\); free some space, or"):
            store.write("shards/a", b"new")
    assert store.read("shards/a") == b"old"
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["a"]


def test_what_no_folder_can_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.json").mkdir()
    with pytest.raises(OutputError, match=r"job.json cannot be read \(it is no plain file\)"):
        Folder(tmp_path).read("job.json")


def test_what_system_says_of_file_is_told_without_its_path_twice(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.touch()

    class Locked(type(file)):  # type: ignore[misc]
        def open(self, *_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied", str(self))

    with pytest.raises(OutputError, match=r"job.json cannot be read \(Permission denied\); free"):
        Folder(Locked(tmp_path)).read("job.json")


def test_a_folder_is_made_where_there_is_none_and_held_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "job"
    with ExitStack() as first:
        Folder(folder).hold(first)
        with ExitStack() as second, pytest.raises(OutputError, match="another run works on"):
            Folder(folder).hold(second)
    with ExitStack() as third:
        Folder(folder).hold(third)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with ExitStack() as held, pytest.raises(OutputError, match=r"cannot write .*file/job"):
        Folder(tmp_path / "file" / "job").hold(held)


def test_ledger_of_folder_is_its_own_file(tmp_path: Path) -> None:
    with ExitStack() as resources:
        assert Folder(tmp_path).ledger(resources) == tmp_path / LEDGER_FILE
    assert Folder(tmp_path).is_local


def test_ledger_of_bucket_is_a_copy_for_a_while(files: Files) -> None:
    bucket = Bucket("made://bucket/job")
    with ExitStack() as resources:
        assert not bucket.ledger(resources).exists()
    files.content[f"bucket/job/{LEDGER_FILE}"] = b"tables"
    with ExitStack() as resources:
        path = bucket.ledger(resources)
        assert path.read_bytes() == b"tables"
    assert not path.exists()
    assert not bucket.is_local


def test_a_store_is_called_what_it_was_called(tmp_path: Path, files: Files) -> None:
    del files
    assert open_store(str(tmp_path)).name == str(tmp_path)
    assert Bucket("made://bucket/job/").name == "made://bucket/job"


def test_a_bucket_may_be_held_by_several(files: Files) -> None:
    del files
    with ExitStack() as held:
        Bucket("made://bucket/job").hold(held)
        Bucket("made://bucket/job").hold(held)


@pytest.mark.parametrize("error", [RuntimeError, PermissionError])
@pytest.mark.parametrize("what", ["read", "write"])
def test_a_bucket_that_cannot_be_reached_is_said(
    files: Files, what: str, error: type[Exception]
) -> None:
    """What it holds is not known then: not that it holds nothing."""
    bucket = Bucket("made://bucket/job")
    files.error = error("no way " + "x" * 500)
    acts = {
        "read": lambda: bucket.read("a/b"),
        "write": lambda: bucket.write("a/b", b""),
    }
    with pytest.raises(OutputError) as caught:
        acts[what]()
    said = str(caught.value)
    assert said.startswith(f"cannot {what} made://bucket/job/a/b (no way x")
    assert said.endswith("see that it can be reached, and run the same command again")
    assert "x" * 150 in said
    assert "x" * 250 not in said


def test_an_address_of_a_kind_that_nobody_knows_says_what_to_add() -> None:
    with pytest.raises(OptionError, match=r"other://bucket needs a library .*; pip install"):
        open_store("other://bucket")


def test_a_path_is_opened_by_whoever_reads_it(tmp_path: Path) -> None:
    with open_recording(str(tmp_path / "a.wav")) as source:
        assert source == tmp_path / "a.wav"


def test_what_is_behind_an_address_is_read_and_closed(files: Files) -> None:
    files.content["bucket/a.wav"] = b"RIFF"
    with open_recording("made://bucket/a.wav") as source:
        assert not isinstance(source, Path)
        assert source.read() == b"RIFF"
    assert source.closed


@pytest.mark.parametrize("address", ["made://bucket/none.wav", "other://bucket/a.wav"])
def test_a_recording_that_cannot_be_reached_is_an_error_of_it(
    files: Files,
    address: str,
) -> None:
    del files
    with (
        pytest.raises(AudioError, match=r"a?.wav cannot be opened \(.*\); check the address"),
        open_recording(address),
    ):
        pass
