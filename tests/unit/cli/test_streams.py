"""Standard output and standard error that nobody reads, that are full, or closed."""

from __future__ import annotations

import errno
import os
import re
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from whisper_hailo.cli import streams
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.core.errors import OutputError

PROGRAM = """
import os, sys
from whisper_hailo.cli.streams import prepare_streams
prepare_streams()
opened = os.open(sys.argv[1], os.O_RDONLY)
print("told", file=sys.stderr)
print("done", opened, sys.stdin is None)
"""


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [
        ("", "done 3 False\n", "told\n"),
        ("2>&-", "done 3 False\n", ""),
        (">&-", "", "told\n"),
        ("<&-", "done 3 True\n", "told\n"),
        ("<&- 2>&-", "done 3 True\n", ""),
        ("<&- >&- 2>&-", "", ""),
    ],
)
def test_prepare_streams_reserves_closed_descriptors(
    closed: str, out: str, err: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("whole")
    command = ["sh", "-c", f'"$0" -c "$1" "$2" {closed}', sys.executable, PROGRAM]
    command.append(str(tmp_path / "file"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, out, err)


def test_note_stream_drops_what_it_cannot_write() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "wb") as full, open(writing, "wb") as left:
        for file in (full, left):
            notes = streams.open_text_stream(streams.NoteStream, file.fileno(), None)
            print("a note", file=notes)
            notes.flush()


def test_note_stream_full_pipe_does_not_block() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, "rb"), open(writing, "wb") as file:
        while select.select([], [file], [], 0)[1]:
            os.write(writing, b"." * 4096)
        notes = streams.open_text_stream(streams.NoteStream, file.fileno(), None)
        print("a note", file=notes)
        notes.close()


def test_result_stream_full_disk_raises_once() -> None:
    with open("/dev/full", "wb") as full:
        results = streams.open_text_stream(streams.ResultStream, full.fileno(), None)
        with pytest.raises(OutputError, match=os.strerror(errno.ENOSPC)):
            print("a result", file=results)
        print("another", file=results)
        results.close()


def test_result_stream_closed_pipe_raises_once() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as left:
        results = streams.open_text_stream(streams.ResultStream, left.fileno(), None)
        with pytest.raises(ReaderGoneError):
            print("a result", file=results)
        print("another", file=results)
        results.close()


def test_result_stream_waits_for_nonblocking_pipe() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    text = "a long result\n" * 50_000
    with open(reading, encoding="utf-8") as reader, open(writing, "wb") as file:
        results = streams.open_text_stream(streams.ResultStream, file.fileno(), None)
        while select.select([], [file], [], 0)[1]:
            os.write(writing, b"." * 4096)
        got: list[str] = []
        thread = threading.Thread(target=lambda: got.append(reader.read()))
        thread.start()
        print(text, end="", file=results)
        results.close()
        file.close()
        thread.join()
    assert got[0].lstrip(".") == text


PATIENT = """
import sys
from whisper_hailo.cli import streams
from whisper_hailo.cli.streams import patient_results, prepare_streams
streams.MAX_WAITING_BYTES = int(sys.argv[1])
prepare_streams()
with patient_results():
    for number in range(20_000):
        print(number, "of many lines", flush=True)
    print("written", file=sys.stderr, flush=True)
"""


def test_patient_results_slow_reader_does_not_block() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PATIENT, "9999999"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "written\n"  # while nobody has read a line
        out, _ = process.communicate()
    assert out.splitlines() == [f"{number} of many lines" for number in range(20_000)]
    assert process.returncode == 0


def test_patient_results_lost_output_is_an_error() -> None:
    command = [sys.executable, "-c", PATIENT, "1000"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert "OutputError" in done.stderr
    # A buffer would take what comes behind the line, which is looked at below.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"written\n"
        out, err = process.communicate()
    assert re.search(rb"lost \d+ bytes", err)
    numbers = [int(line.split()[0]) for line in out.splitlines()]
    assert numbers == list(range(len(numbers))), "whole lines, none of them twice"
