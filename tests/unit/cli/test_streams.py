"""Standard output and standard error: results, slow and missing readers, full disks."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.cli import streams
from whisper_hailo.cli.streams import ReaderGoneError, emit, emit_json, patient_results
from whisper_hailo.core import timing
from whisper_hailo.core.errors import OutputError

PROGRAM = """
import os, sys
from whisper_hailo.cli.streams import prepare_streams
prepare_streams()
opened = os.open(sys.argv[1], os.O_RDONLY)
print("told", file=sys.stderr)
print("done", opened, sys.stdin is None)
"""
LINES = [f"{number} of many lines" for number in range(20_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


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


class Pipe:
    """A pipe whose one end is our standard output.

    Attributes:
        got: bytes that were read.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.out = streams.open_text_stream(streams.ResultStream, self._writing, None)
        self.got = b""
        self._reader: threading.Thread | None = None

    @property
    def patience(self) -> Any:
        return self.out.buffer.raw.retries  # type: ignore[attr-defined]

    @contextmanager
    def patient(self) -> Iterator[None]:
        """A block in which it is `sys.stdout`."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", self.out)
            with patient_results():
                yield

    def begin_to_read(self) -> None:
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while part := os.read(self._reading, 1 << 16):
            self.got += part

    def leave(self) -> None:
        """The reader is gone."""
        os.close(self._reading)
        self._reading = -1

    def end(self) -> bytes:
        """Close the pipe and return the bytes that were read."""
        if self._writing >= 0:
            self.out.close()
            os.close(self._writing)
            self._writing = -1
        if self._reader is not None:
            self._reader.join()
        if self._reading >= 0:
            self.leave()
        return self.got


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.end()


def say_all() -> None:
    for line in LINES:
        emit(f"{line}\n")


def test_patient_results_late_reader_gets_all(pipe: Pipe) -> None:
    with pipe.patient():
        say_all()
        assert pipe.patience.waiting, "more than a pipe holds, and nobody has read"
        pipe.begin_to_read()
    pipe.out.write("afterwards\n")
    assert pipe.end() == TEXT + b"afterwards\n"


def test_patient_results_buffer_is_bounded(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING_BYTES", 1000)
    block = pipe.patient()
    block.__enter__()
    say_all()
    assert 950 < len(pipe.patience.waiting) <= 1000
    pipe.begin_to_read()
    with pytest.raises(OutputError, match=r"lost \d+ bytes") as caught:
        block.__exit__(None, None, None)
    got = pipe.end()
    assert TEXT.startswith(got)
    assert got.endswith(b"\n")
    assert f" {len(TEXT) - len(got)} bytes" in str(caught.value)


def test_patient_results_buffer_holds_exactly_its_limit(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pipe.patient():
        pipe.patience.backoff.fail()
        monkeypatch.setattr(streams, "MAX_WAITING_BYTES", 10)
        emit("12345\n")
        emit("789\n")
        assert pipe.patience.n_lost == 0
        assert bytes(pipe.patience.waiting) == b"12345\n789\n"
        pipe.begin_to_read()
    assert pipe.end() == b"12345\n789\n"


def test_patient_results_closed_pipe_warns_once(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    pipe.leave()
    with pipe.patient():
        say_all()
        assert not pipe.patience.waiting
    (message,) = caplog.messages
    assert "standard output" in message


def test_patient_results_full_disk_retries_then_raises(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with open("/dev/full", "wb") as full:
        out = streams.open_text_stream(streams.ResultStream, full.fileno(), None)
        monkeypatch.setattr(sys, "stdout", out)
        now = [0.0]
        monkeypatch.setattr(timing, "Backoff", partial(timing.Backoff, lambda: now[0]))
        block = patient_results()
        block.__enter__()
        patience: Any = out.buffer.raw.retries  # type: ignore[attr-defined]
        for _ in range(100):
            emit("a line\n")
        assert patience.backoff.n_failures == 1, "it is not tried again at once"
        now[0] = 1.0
        emit("a line\n")
        assert patience.backoff.n_failures == 2
        assert bytes(patience.waiting) == b"a line\n" * 101
        with pytest.raises(OutputError, match=os.strerror(errno.ENOSPC)):
            block.__exit__(None, None, None)
        out.close()
    (message,) = caplog.messages
    assert os.strerror(errno.ENOSPC) in message


def test_patient_results_freed_disk_gets_waiting_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each time that it is full again is told."""
    with open(tmp_path / "file", "wb") as file, open("/dev/full", "wb") as full:
        out = streams.open_text_stream(streams.ResultStream, file.fileno(), None)
        monkeypatch.setattr(sys, "stdout", out)
        kept = os.dup(file.fileno())
        now = [0.0]
        monkeypatch.setattr(timing, "Backoff", partial(timing.Backoff, lambda: now[0]))
        with patient_results():
            for at in range(2):
                os.dup2(full.fileno(), file.fileno())
                emit(f"full {at}\n")
                os.dup2(kept, file.fileno())
                now[0] += 10
                emit(f"room {at}\n")
        os.close(kept)
        out.close()
    assert (tmp_path / "file").read_text() == "full 0\nroom 0\nfull 1\nroom 1\n"
    assert len(caplog.messages) == 2


def test_patient_results_keep_other_streams(capsys: pytest.CaptureFixture[str]) -> None:
    with patient_results():
        emit("a line\n")
    assert capsys.readouterr().out == "a line\n"


def test_prepare_streams_uses_descriptors_1_and_2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the terminal's encoding; letters that it lacks are escaped, each line is out at once."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, Written("ascii"))
    streams.prepare_streams()
    assert (sys.stdout.fileno(), sys.stderr.fileno()) == (1, 2)
    for made in (sys.stdout, sys.stderr):
        assert (made.encoding, made.errors, made.line_buffering) == (
            "ascii", "backslashreplace", True,
        )  # fmt: skip
    monkeypatch.setattr(sys, "stdout", None)
    streams.prepare_streams()
    assert sys.stdout.encoding == "utf-8"


class Written:
    """A stream of which only its encoding is known."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding


def test_patient_results_write_at_most_pipe_buf(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that has room for some of it would have the captions wait for its reader."""
    sizes: list[int] = []
    write = streams.ResultStream.write_some

    def noted(out: Any, data: bytes) -> int:
        sizes.append(len(data))
        return write(out, data)

    monkeypatch.setattr(streams.ResultStream, "write_some", noted)
    with pipe.patient():
        emit("x" * 9999 + "\n")
    assert sum(sizes) == 10_000
    assert max(sizes) <= select.PIPE_BUF


def test_emit_flushes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With any buffer of standard output: a pipe's reader reads lines as they come."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(raw)))  # type: ignore[arg-type]
    emit("a line")
    assert raw.getvalue() == b"a line"


def test_emit_json_writes_ascii_object_per_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit_json({"text": "Grüße.\n\u2028"})
    emit_json({"a": [1]}, indent=2)
    first, rest = capsys.readouterr().out.split("\n", 1)
    assert first.isascii()
    assert json.loads(first) == {"text": "Grüße.\n\u2028"}
    assert json.loads(rest) == {"a": [1]}
    assert rest == '{\n  "a": [\n    1\n  ]\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        emit_json({"a": math.nan})
