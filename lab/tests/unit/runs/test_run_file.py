"""Run files: written at once, resumed on the same hardware, read in any state."""

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


def write_run(path: Path, run: RunRecords = RUN) -> Path:
    with RunWriter(path, run.header) as writer:
        for record in (*run.files, *run.cases, *run.comparisons):
            writer.write(record)
    return path


def test_read_run_equals_the_written_run(tmp_path: Path) -> None:
    assert read_run(write_run(tmp_path / "run.jsonl")) == RUN


def test_read_run_keeps_line_separators(tmp_path: Path) -> None:
    """Python would split lines at these characters."""
    odd = FileResult(
        "a", "x", reference="one\u2028two", hypothesis="one\x85two\x0b\r\n"
    )
    assert read_run(
        write_run(tmp_path / "run.jsonl", replace(RUN, files=(odd,)))
    ).files == (odd,)


def test_run_writer_first_line_has_the_version(tmp_path: Path) -> None:
    lines = write_run(tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["run", *["file"] * 6, "case", "case", "comparison"]
    assert json.loads(lines[0])["version"] == 1
    assert json.loads(lines[0])["machine"]["cpu"] == "Test CPU"


def test_run_writer_appends_to_a_run_of_the_same_machine(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.jsonl")
    with RunWriter(path, replace(HEADER, created="later"), append=True) as writer:
        writer.write(FileResult("more", "x"))
    assert read_run(path).header == HEADER
    assert read_run(path).files[-1].case == "more"


def test_read_run_repeated_results_count_once(tmp_path: Path) -> None:
    """A run killed after its second file, and the same command again."""
    path = tmp_path / "run.jsonl"
    interrupted = [
        FileResult("a", "one", hypothesis="cut"),
        FileResult("a", "two", hypothesis="off"),
    ]
    whole = [FileResult("a", name, hypothesis=name) for name in ("one", "two", "three")]
    cases = [replace(RUN.cases[0], name="a", load_ms=ms) for ms in (1.0, 2.0)]
    with RunWriter(path, HEADER) as writer:
        for record in (
            *interrupted,
            FileResult("b", "one"),
            cases[0],
            *whole,
            cases[1],
        ):
            writer.write(record)
    found = read_run(path)
    assert found.cases == (cases[1],)
    assert found.files_of("a") == tuple(whole)
    assert found.files_of("b") == (FileResult("b", "one"),)


def test_run_writer_append_on_other_hardware_raises(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.jsonl")
    other = replace(HEADER, machine=replace(MACHINE, board="Raspberry Pi 5"))
    with pytest.raises(OptionError, match="hardware"):
        RunWriter(path, other, append=True)
    newer_kernel = replace(HEADER, machine=replace(MACHINE, system="Linux 7.0"))
    RunWriter(path, newer_kernel, append=True).close()


def test_run_writer_writes_results_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with RunWriter(path, HEADER) as writer:
        for n_written in range(1, 4):
            writer.write(FileResult("a", str(n_written)))
            ids = [file.id for file in read_run(path).files]
            assert ids == ["1", "2", "3"][:n_written]


def test_read_run_drops_an_incomplete_line(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.jsonl")
    path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    assert read_run(path) == replace(RUN, comparisons=())
    with RunWriter(path, HEADER, append=True) as writer:
        writer.write(FileResult("more", "x"))
    more = (*RUN.files, FileResult("more", "x"))
    assert read_run(path) == replace(RUN, files=more, comparisons=())


@pytest.mark.parametrize(
    ("content", "datum"),
    [
        ("", r"run\.jsonl"),
        ("hello\nworld\n", r"run\.jsonl:1"),
        (to_line(RUN.files[0]) + "\n", r"run\.jsonl"),
        (to_line(HEADER).replace('"version": 1', '"version": 99') + "\n", "99"),
        (to_line(HEADER) + '\n{"kind": "file"}\n' + to_line(RUN.files[0]), ":2"),
    ],
)
def test_read_run_other_content_raises(
    tmp_path: Path, content: str, datum: str
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(OptionError, match=datum):
        read_run(path)


def test_read_run_of_pipe_or_device_raises(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(OptionError, match=str(path)):
            read_run(path)


def test_read_run_ignores_unknown_fields(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    line = json.loads(to_line(RUN.files[0])) | {"colour": "blue"}
    path.write_text(f"{to_line(HEADER)}\n{json.dumps(line)}\n", encoding="utf-8")
    assert read_run(path).files == (RUN.files[0],)


def test_run_writer_at_unwritable_path_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="--out"):
        RunWriter(tmp_path / "file" / "run.jsonl", HEADER)


def test_to_line_drops_folders_of_the_machine() -> None:
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


def test_to_line_rounds_times_to_the_nanosecond() -> None:
    """Milliseconds have six digits, also in nested fields."""
    record = FileResult("a", "x", total_ms=1.23456789, stages_ms={"mel": 0.00000149})
    fields = json.loads(to_line(record))
    assert fields["total_ms"] == 1.234568
    assert fields["stages_ms"] == {"mel": 0.000001}


def test_to_line_keeps_paths_in_texts() -> None:
    reference = "It lies in /usr/share/words."
    assert (
        json.loads(to_line(FileResult("ours", "x", reference=reference)))["reference"]
        == reference
    )
