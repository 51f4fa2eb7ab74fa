"""An interrupted measurement goes on, and only on what it was about."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lab.tests.unit.small_run import HEADER, MACHINE, RUN
from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo_lab.runs.records import FileResult, RunRecords
from whisper_hailo_lab.runs.run_file import RunWriter, read_run, to_line


def write(path: Path, run: RunRecords = RUN) -> Path:
    with RunWriter(path, run.header) as writer:
        for record in (*run.files, *run.cases, *run.comparisons):
            writer.write(record)
    return path


def test_run_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_run(write(tmp_path / "run.jsonl")) == RUN


def test_any_letter_comes_back(tmp_path: Path) -> None:
    """Also those at which Python would part lines."""
    odd = FileResult(
        "a", "x", reference="one\u2028two", hypothesis="one\x85two\x0b\r\n"
    )
    assert read_run(
        write(tmp_path / "run.jsonl", replace(RUN, files=(odd,)))
    ).files == (odd,)


def test_every_line_is_json_and_the_first_names_the_version(tmp_path: Path) -> None:
    lines = write(tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["run", *["file"] * 6, "case", "case", "comparison"]
    assert json.loads(lines[0])["version"] == 1
    assert json.loads(lines[0])["machine"]["cpu"] == "Test CPU"


def test_appending_to_a_run_of_the_same_machine(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl")
    with RunWriter(path, replace(HEADER, created="later"), append=True) as writer:
        writer.write(FileResult("more", "x"))
    assert read_run(path).header == HEADER
    assert read_run(path).files[-1].case == "more"


def test_what_was_measured_again_counts_once_and_as_it_was_last(tmp_path: Path) -> None:
    """A run that was killed behind its second file, and the same command once more."""
    path = tmp_path / "run.jsonl"
    begun = [
        FileResult("a", "one", hypothesis="cut"),
        FileResult("a", "two", hypothesis="off"),
    ]
    whole = [FileResult("a", name, hypothesis=name) for name in ("one", "two", "three")]
    cases = [replace(RUN.cases[0], name="a", load_ms=ms) for ms in (1.0, 2.0)]
    with RunWriter(path, HEADER) as writer:
        for record in (*begun, FileResult("b", "one"), cases[0], *whole, cases[1]):
            writer.write(record)
    found = read_run(path)
    assert found.cases == (cases[1],)
    assert found.files_of("a") == tuple(whole)
    assert found.files_of("b") == (FileResult("b", "one"),)


def test_runs_of_different_hardware_do_not_merge(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl")
    other = replace(HEADER, machine=replace(MACHINE, board="Raspberry Pi 5"))
    with pytest.raises(OptionError, match="hardware"):
        RunWriter(path, other, append=True)
    newer_kernel = replace(HEADER, machine=replace(MACHINE, system="Linux 7.0"))
    RunWriter(path, newer_kernel, append=True).close()


def test_what_was_measured_is_on_the_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with RunWriter(path, HEADER) as writer:
        for n_written in range(1, 4):
            writer.write(FileResult("a", str(n_written)))
            assert [one.id for one in read_run(path).files] == ["1", "2", "3"][
                :n_written
            ]


def test_run_that_was_killed_keeps_its_whole_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl")
    path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    assert read_run(path) == replace(RUN, comparisons=())
    with RunWriter(path, HEADER, append=True) as writer:
        writer.write(FileResult("more", "x"))
    more = (*RUN.files, FileResult("more", "x"))
    assert read_run(path) == replace(RUN, files=more, comparisons=())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "does not begin with a run line"),
        ("hello\nworld\n", "is not a line of a run file"),
        (to_line(RUN.files[0]) + "\n", "does not begin with a run line"),
        (
            to_line(HEADER).replace('"version": 1', '"version": 99') + "\n",
            "format version 99",
        ),
        (
            to_line(HEADER) + '\n{"kind": "file"}\n' + to_line(RUN.files[0]),
            ":2 is not a line",
        ),
    ],
)
def test_what_is_no_run_file(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(OptionError, match=message):
        read_run(path)


def test_what_nobody_may_ever_write_to_or_has_no_end_is_not_read(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(OptionError, match="regular file"):
            read_run(path)


def test_fields_of_newer_programs_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    line = json.loads(to_line(RUN.files[0])) | {"colour": "blue"}
    path.write_text(f"{to_line(HEADER)}\n{json.dumps(line)}\n", encoding="utf-8")
    assert read_run(path).files == (RUN.files[0],)


def test_unwritable_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="--out"):
        RunWriter(tmp_path / "file" / "run.jsonl", HEADER)


def test_case_names_files_without_the_folders_of_its_machine() -> None:
    case = replace(
        RUN.cases[0],
        model="/data/models/tiny",
        heard_as={
            "reasons": ["encoder: /var/cache/tiny/encoder.onnx is given"],
            "window_s": 10.0,
        },
        error="see https://example.org/docs/run.html and ./build/run.jsonl",
    )
    line = json.loads(to_line(case))
    assert line["model"] == "tiny"
    assert line["heard_as"] == {
        "reasons": ["encoder: encoder.onnx is given"],
        "window_s": 10.0,
    }
    assert line["error"] == case.error


def test_times_are_kept_to_the_nanosecond() -> None:
    """Of milliseconds six digits, also where they lie deeper."""
    record = FileResult("a", "x", total_ms=1.23456789, stages_ms={"mel": 0.00000149})
    told = json.loads(to_line(record))
    assert (told["total_ms"], told["stages_ms"]) == (1.234568, {"mel": 0.000001})


def test_what_was_said_is_left_as_it_is() -> None:
    said = "It lies in /usr/share/words."
    assert (
        json.loads(to_line(FileResult("ours", "x", reference=said)))["reference"]
        == said
    )
