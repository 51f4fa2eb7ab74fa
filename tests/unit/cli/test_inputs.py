"""Inputs of a command: files, folders, standard input and addresses."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from tests.fakes.denied_folder import deny
from whisper_hailo.cli import inputs as module
from whisper_hailo.cli.inputs import Input, check_input, find_inputs
from whisper_hailo.core.errors import ExitCode


def faults(inputs: list[Input]) -> list[str]:
    return [str(entry.fault) for entry in inputs if entry.fault]


def test_find_inputs_lists_files_and_folders(tmp_path: Path) -> None:
    for name in ("b.wav", "a/c.FLAC", "a/notes.txt", "z.mp3"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    named = str(tmp_path / "a" / "notes.txt")
    inputs = find_inputs([str(tmp_path), named])
    assert [entry.path for entry in inputs] == [
        tmp_path / "a" / "c.FLAC", tmp_path / "b.wav", tmp_path / "z.mp3", Path(named),
    ]  # fmt: skip
    assert [str(entry.stem) for entry in inputs] == ["a/c", "b", "z", "notes"]
    assert [entry.source() for entry in inputs] == [entry.path for entry in inputs]


def test_find_inputs_expands_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.wav").touch()
    (entry,) = find_inputs(["~/a.wav"])
    assert entry.path == tmp_path / "a.wav"
    (tmp_path / "~").mkdir()
    (tmp_path / "~" / "a.wav").touch()
    (literal,) = find_inputs(["~/a.wav"])
    assert literal.path == Path("~/a.wav"), "what is there by that name is meant"


def stems_of(*words: Path) -> dict[str, str]:
    return {
        str(entry.path): str(entry.stem)
        for entry in find_inputs([str(w) for w in words])
    }


def come(path: Path) -> None:
    """Create a file that is younger than those before."""
    path.parent.mkdir(exist_ok=True)
    path.touch()
    time.sleep(0.02)  # clocks of file systems tick slowly


@pytest.mark.parametrize(
    ("first", "second"), [("new.mp3", "new.wav"), ("new.wav", "new.mp3")]
)
def test_find_inputs_equal_stems_keep_earlier_name(
    tmp_path: Path, first: str, second: str
) -> None:
    come(tmp_path / first)
    assert stems_of(tmp_path) == {str(tmp_path / first): "new"}
    come(tmp_path / second)
    expected = {str(tmp_path / first): "new", str(tmp_path / second): second}
    assert stems_of(tmp_path) == expected
    assert stems_of(tmp_path / "new.mp3", tmp_path / "new.wav") == expected


def test_find_inputs_equal_names_get_folder(tmp_path: Path) -> None:
    for name in ("a/x.wav", "b/x.wav", "b/x.mp3", "c/b/x.wav"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        come(path)
    expected = {
        str(tmp_path / "a/x.wav"): "x",
        str(tmp_path / "b/x.wav"): "b/x",
        str(tmp_path / "b/x.mp3"): "b/x.mp3",
        str(tmp_path / "c/b/x.wav"): "b/x.wav",
    }
    folders = [tmp_path / name for name in ("a", "b", "c/b")]
    assert stems_of(*folders) == expected
    assert stems_of(*map(Path, expected)) == expected


def test_find_inputs_repeated_file_has_one_stem(tmp_path: Path) -> None:
    come(tmp_path / "a.wav")
    first, second = find_inputs([str(tmp_path / "a.wav")] * 2)
    assert first.stem == second.stem == Path("a")


def test_find_inputs_broken_link_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "a.wav").symlink_to("nowhere")
    assert [entry.name for entry in find_inputs([str(tmp_path)])] == [
        str(tmp_path / "a.wav")
    ]


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "nul\0", "missing.wav"])
def test_find_inputs_impossible_name_is_an_input(name: str) -> None:
    (entry,) = find_inputs([name])
    assert entry.name == name
    assert entry.fault is entry.id is None


def test_find_inputs_empty_name_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.wav").touch()
    monkeypatch.chdir(tmp_path)
    (entry,) = find_inputs([""])
    (fault,) = faults([entry])
    assert fault.startswith("''")
    with pytest.raises(type(entry.fault), match="''"):  # type: ignore[arg-type]
        entry.source()
    assert [str(entry.path) for entry in find_inputs(["."])] == ["a.wav"]


def test_find_inputs_empty_folder_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    (tmp_path / "empty").mkdir()
    empty, whole = find_inputs([str(tmp_path / "empty"), str(tmp_path / "a.wav")])
    assert str(tmp_path / "empty") in str(empty.fault)
    assert whole.fault is None


def test_find_inputs_hidden_files_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ".recordings"
    for name in ("a.wav", "._a.wav", "b/._c.MP3", ".Trash/d.wav", ".DS_Store"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [entry.path for entry in find_inputs([str(folder)])] == [folder / "a.wav"]
    assert "3 hidden files" in capsys.readouterr().err
    (named,) = find_inputs([str(folder / "._a.wav")])
    assert named.path == folder / "._a.wav"


def test_find_inputs_closed_folder_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.wav").touch()
    deny(monkeypatch, "closed")
    for words in ([str(tmp_path)], [str(tmp_path / "closed"), str(tmp_path / "open")]):
        inputs = find_inputs(words)
        (fault,) = faults(inputs)
        assert f"{tmp_path}/closed" in fault
        assert os.strerror(errno.EACCES) in fault
        assert [e.path for e in inputs if not e.fault] == [tmp_path / "open" / "a.wav"]


def test_find_inputs_closed_stdin_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert "standard input" in faults(find_inputs(["-"]))[0]


@pytest.mark.parametrize(
    ("name", "datum", "code"),
    [
        ("missing.wav", "missing.wav", ExitCode.AUDIO),
        ("empty.wav", "empty.wav is empty", ExitCode.AUDIO),
        ("film.mkv", "PyAV", ExitCode.AUDIO),
        ("film.MKV", "PyAV", ExitCode.AUDIO),
        (
            "http://a.b/c.mp3",
            "curl -LO http://a.b/c.mp3",
            ExitCode.USAGE,
        ),
        ("HTTPS://A.B/C.MP3", "HTTPS://A.B/C.MP3", ExitCode.USAGE),
        (
            "rtsp://a.b/c",
            "whisper-hailo caption",
            ExitCode.USAGE,
        ),
        ("x" * 300, os.strerror(errno.ENAMETOOLONG), ExitCode.AUDIO),
        ("nul\0", r"nul\x00", ExitCode.AUDIO),
        ("whole.wav", "", None),
    ],
)
def test_check_input_finds_faults(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    datum: str,
    code: int | None,
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.wav").touch()
    for whole in ("film.mkv", "film.MKV", "whole.wav"):
        (tmp_path / whole).write_text("some sound")
    (entry,) = map(check_input, find_inputs([name]))
    assert datum in str(entry.fault or "")
    assert getattr(entry.fault, "exit_code", None) == code


def test_check_input_does_not_open_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    (entry,) = map(check_input, find_inputs([str(tmp_path / "pipe.wav")]))
    assert entry.fault is None


def test_check_input_keeps_earlier_fault(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for entry in find_inputs([str(tmp_path / "empty"), ""]):
        assert entry.fault is not None
        assert check_input(entry) is entry
        assert entry.id is None


def test_check_input_reads_no_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.wav").write_text("some sound")
    with open(tmp_path / "a.wav", encoding="utf-8") as given:
        monkeypatch.setattr("sys.stdin", given)
        entry, file = find_inputs(["-", str(tmp_path / "a.wav")])
        assert (entry.name, entry.path, str(entry.stem)) == ("stdin", None, "stdin")
        assert check_input(entry) is entry
        assert entry.source() is given.buffer
        assert entry.id == file.id is not None


def test_find_inputs_links_share_their_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.wav").write_text("some sound")
    (tmp_path / "b.wav").symlink_to("a.wav")
    (tmp_path / "c.wav").write_text("other sound")
    monkeypatch.chdir(tmp_path)
    same, link, other = (
        entry.id for entry in find_inputs(["./a.wav", "b.wav", "c.wav"])
    )
    assert same == link != other


def test_check_input_file_named_like_address_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ftp:").mkdir()
    (tmp_path / "ftp:" / "a.wav").write_text("some sound")
    (entry,) = map(check_input, find_inputs(["ftp://a.wav"]))
    assert entry.fault is None
