"""Caption files as SRT, WebVTT and text, events as JSON Lines, and pipes to them."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from tests.unit.live.outputs.test_growing_file import Disk, Lines
from whisper_hailo.audio import open_audio
from whisper_hailo.core.errors import OptionError, OutputError
from whisper_hailo.live.events import (
    CaptionWord,
    Completed,
    Event,
    Lost,
    Partial,
    Started,
)
from whisper_hailo.live.outputs.files import CUES, CaptionFile, EventFile, FlacRecording
from whisper_hailo.live.sources.source import Block
from whisper_hailo.text.subtitles import Layout

FILLED = replace(CUES, cues="segments")
"""Lines are filled word by word."""


def word(text: str, probability: float | None = 0.123456) -> CaptionWord:
    return CaptionWord(f" {text}", probability)


EVENTS: list[Event] = [
    Started(segment_id=0, start_s=0.0, heard_s=0.3, at_s=0.1),
    Partial(
        segment_id=0,
        start_s=0.0,
        end_s=0.5,
        committed=(word("One"),),
        tentative=(word("too"),),
        heard_s=0.5,
        at_s=0.2,
    ),
    Completed(
        segment_id=0,
        start_s=0.0,
        end_s=1.25,
        words=(word("One"), word("two", None)),
        reason="silence",
        heard_s=1.5,
        at_s=0.3,
    ),
    Started(segment_id=1, start_s=2.0, heard_s=2.3, at_s=0.4),
    Completed(
        segment_id=1,
        start_s=2.0,
        end_s=2.5,
        words=(),
        reason="silence",
        heard_s=2.6,
        at_s=0.5,
    ),
    Lost(start_s=2.6, end_s=3000.0, heard_s=3000.0, at_s=0.55),
    Started(segment_id=2, start_s=3661.0, heard_s=3661.3, at_s=0.6),
    Completed(
        segment_id=2,
        start_s=3661.0,
        end_s=3662.5,
        words=(word("a"), word("-->"), word("b")),
        reason="end",
        heard_s=3662.5,
        at_s=0.7,
    ),
]


def write_events(path: Path) -> str:
    with CaptionFile(path, layout=FILLED) as file:
        for event in EVENTS:
            file.put(event)
    return path.read_text(encoding="utf-8")


def test_caption_file_srt_has_numbered_cues(tmp_path: Path) -> None:
    assert write_events(tmp_path / "a.srt") == (
        "1\n00:00:00,000 --> 00:00:01,250\nOne two\n\n2\n01:01:01,000 --> 01:01:02,500\na -> b\n\n"
    )


def test_caption_file_vtt_has_heading_and_escapes(tmp_path: Path) -> None:
    assert write_events(tmp_path / "a.vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.250\nOne two\n\n"
        "01:01:01.000 --> 01:01:02.500\na -&gt; b\n\n"
    )


LONG_TEXT = (
    "Ladies and gentlemen, I am very glad that so many of you have come tonight. We shall begin "
    "with the report of the treasurer, who has waited long enough."
)


def make_long_segment(*, timed: bool) -> Completed:
    words = [
        CaptionWord(f" {text}", 1.0, *((10.0 + at / 2, 10.4 + at / 2) if timed else ()))
        for at, text in enumerate(LONG_TEXT.split())
    ]
    return Completed(
        segment_id=0,
        start_s=9.9,
        end_s=25.0,
        words=tuple(words),
        reason="silence",
        heard_s=25.0,
        at_s=1.0,
    )


@pytest.mark.parametrize("timed", [True, False])
def test_caption_file_long_segment_is_split_at_clauses(
    tmp_path: Path, timed: bool
) -> None:
    with CaptionFile(tmp_path / "a.srt", layout=FILLED) as file:
        file.put(make_long_segment(timed=timed))
        file.put(EVENTS[-1])
    blocks = [
        block.split("\n")
        for block in (tmp_path / "a.srt").read_text().strip().split("\n\n")
    ]
    assert [block[0] for block in blocks] == [str(n) for n in range(1, len(blocks) + 1)]
    cues = [block[2:] for block in blocks[:-1]]
    assert " ".join(" ".join(cue) for cue in cues) == LONG_TEXT
    assert max(len(line) for cue in cues for line in cue) <= 42
    assert max(map(len, cues)) == 2
    assert cues[0][-1].endswith("come tonight.")
    times = [block[1].split(" --> ") for block in blocks[:-1]]
    assert times[0][0] == "00:00:09,900"
    assert times[-1][1] == "00:00:25,000"
    assert [end for _, end in times[:-1]] == [begin for begin, _ in times[1:]]
    if timed:  # "We" is the 16th word
        assert times[1][0] == "00:00:17,500"


def test_caption_file_cues_are_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    with CaptionFile(path) as file:
        file.put(make_long_segment(timed=True))
        blocks = [block.split("\n") for block in path.read_text().strip().split("\n\n")]
    cues = [block[2:] for block in blocks]
    assert " ".join(" ".join(cue) for cue in cues) == LONG_TEXT
    assert max(map(len, cues)) == 2
    assert blocks[0][1].startswith("00:00:10,000 ")


def test_caption_file_not_live_waits_for_whole_cues(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    whole = make_long_segment(timed=True)
    half = len(whole.words) // 2
    with CaptionFile(path, is_live=False) as file:
        file.put(replace(whole, words=whole.words[:half], end_s=17.0))
        assert path.read_text() == ""
        file.put(replace(whole, words=whole.words[half:], start_s=17.0, segment_id=1))
    with CaptionFile(tmp_path / "b.srt", is_live=False) as file:
        file.put(whole)
    assert path.read_text() == (tmp_path / "b.srt").read_text()


def test_caption_file_layout_limits_line_width(tmp_path: Path) -> None:
    layout = Layout(max_line_width=20, max_line_count=1)
    with CaptionFile(tmp_path / "a.vtt", layout=layout) as file:
        file.put(make_long_segment(timed=True))
    _, *blocks = (tmp_path / "a.vtt").read_text().strip().split("\n\n")
    assert all(len(block.split("\n")) == 2 for block in blocks)
    assert max(len(block.split("\n")[1]) for block in blocks) <= 20


def test_caption_file_txt_has_a_line_per_segment(tmp_path: Path) -> None:
    assert write_events(tmp_path / "deep" / "er" / "a.txt") == "One two\na --> b\n"


def test_caption_file_txt_has_translation_below_text(tmp_path: Path) -> None:
    segment = Completed(
        segment_id=0,
        start_s=0.0,
        end_s=1.0,
        words=(word("One"), word("two")),
        reason="end",
        heard_s=1.0,
        at_s=0.1,
    )
    with CaptionFile(tmp_path / "a.txt") as file:
        file.put(replace(segment, translation="Een twee"))
        file.put(segment)
    assert (tmp_path / "a.txt").read_text() == "One two\nEen twee\nOne two\n"


def test_caption_file_segment_is_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    with CaptionFile(path) as file:
        for event in EVENTS[:3]:
            file.put(event)
        assert path.read_text().endswith("One two\n\n")


def test_event_file_has_one_json_object_per_line(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    with EventFile(path) as file:
        for event in EVENTS:
            file.put(event)
    run, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert run["event"] == "run"
    assert len(run["run"]) == 16
    assert datetime.fromisoformat(run["at"]).tzinfo is not None
    assert re.search(r":\d\d\.\d{3}[+-]\d\d:\d\d$", run["at"]), (
        "as precise as events are"
    )
    assert [line["event"] for line in lines[:3]] == ["started", "partial", "completed"]
    assert lines[1]["committed_text"] == "One"
    assert lines[1]["text"] == "One too"
    assert lines[1]["tentative"] == [{"text": " too", "probability": 0.1235}]
    assert lines[2]["words"][1]["probability"] is None
    lost = {
        "event": "lost",
        "start_s": 2.6,
        "end_s": 3000.0,
        "heard_s": 3000.0,
        "at_s": 0.55,
    }
    assert lines[5] == lost


def test_event_file_syncs_after_final_text_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr("os.fsync", waited.append)
    for file in (EventFile(tmp_path / "e.jsonl"), CaptionFile(tmp_path / "a.txt")):
        with file:
            for event, n_waits in zip(EVENTS[:3], (0, 0, 1), strict=True):
                waited.clear()
                file.put(event)
                assert len(waited) == n_waits


def test_event_file_not_a_number_is_not_written(tmp_path: Path) -> None:
    odd = Completed(
        segment_id=0,
        start_s=0.0,
        end_s=1.0,
        words=(word("a", float("nan")),),
        reason="end",
        heard_s=1.0,
        at_s=0.1,
    )
    file = EventFile(tmp_path / "e.jsonl").open()
    with pytest.raises(ValueError, match="JSON"):
        file.put(odd)
    assert len((tmp_path / "e.jsonl").read_text().splitlines()) == 1


def test_caption_file_unknown_suffix_or_bad_path_raises(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--output .*\.srt, \.vtt, \.txt"):
        CaptionFile(tmp_path / "a.doc")
    path = Path("/dev/null/a.srt")
    with pytest.raises(OutputError, match="/dev/null"), CaptionFile(path):
        pass


def test_event_file_on_full_disk_raises() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with (
        pytest.raises(OutputError, match=os.strerror(errno.ENOSPC)),
        EventFile(Path("/dev/full")) as file,
    ):
        file.put(EVENTS[0])


def write_flac(folder: Path) -> Path:
    path = folder / "rec.flac"
    path.write_bytes(b"fLaC" + bytes(100))
    return path


@pytest.mark.parametrize("name", ["rec.srt", "rec.vtt", "rec.txt", "rec.jsonl"])
def test_caption_file_foreign_file_is_refused(tmp_path: Path, name: str) -> None:
    path = write_flac(tmp_path).rename(tmp_path / name)
    file = EventFile(path) if name == "rec.jsonl" else CaptionFile(path)
    for begin in (lambda: file.check(None), file.open):
        with pytest.raises(OutputError, match=name):
            begin()
    assert path.stat().st_size == 104


@pytest.mark.parametrize("ending", ["srt", "vtt", "txt"])
def test_caption_file_of_second_run_gets_a_number(tmp_path: Path, ending: str) -> None:
    first = write_events(tmp_path / f"a.{ending}")
    for number in (2, 3):
        write_events(tmp_path / f"a.{ending}")
        assert (tmp_path / f"a-{number}.{ending}").read_text() == first
    assert (tmp_path / f"a.{ending}").read_text() == first


def test_event_file_of_second_run_drops_incomplete_line(
    tmp_path: Path,
) -> None:
    path = tmp_path / "e.jsonl"
    for _ in range(2):
        with EventFile(path) as file:
            file.put(EVENTS[0])
        with path.open("a") as killed:
            killed.write('{"event": "comp')
    with EventFile(path):
        pass
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        "run",
        "started",
        "run",
        "started",
        "run",
    ]
    assert len({line["run"] for line in lines if line["event"] == "run"}) == 3


def test_growing_file_pipe_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    os.mkfifo(tmp_path / "a.txt")
    reading = os.open(tmp_path / "a.txt", os.O_RDONLY | os.O_NONBLOCK)
    with Lines(tmp_path / "a.txt", durable=True) as file:
        file.put(b"one\n")
    assert os.read(reading, 100) == b"one\n"
    assert waited == []
    os.close(reading)


def test_flac_recording_into_a_pipe_is_readable(tmp_path: Path) -> None:
    """The header cannot be completed at the end: a pipe does not seek."""
    os.mkfifo(tmp_path / "a.flac")
    reading = os.open(tmp_path / "a.flac", os.O_RDONLY | os.O_NONBLOCK)
    with FlacRecording(tmp_path / "a.flac") as recording:
        recording.put(Block(np.full(5_000, 0.5, np.float32)))
    (tmp_path / "b.flac").write_bytes(os.read(reading, 1 << 16))
    os.close(reading)
    with open_audio(tmp_path / "b.flac") as stream:
        heard = np.concatenate(list(stream.blocks(4096)))
    np.testing.assert_allclose(heard, np.full(5_000, 0.5), atol=1 / 32767)


def test_growing_file_pipe_without_reader_is_retried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    with Lines(path) as file:
        file.put(b"first\n")
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.put(b"second\n")
        assert os.read(reading, 100) == b"first\nsecond\n"
        os.close(reading)
        file.put(b"third\n")
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.put(b"fourth\n")
        assert os.read(reading, 100) == b"third\nfourth\n"
        os.close(reading)
    first, _, second, _ = caplog.messages
    assert os.strerror(errno.ENXIO) in first
    assert os.strerror(errno.EPIPE) in second


def test_growing_file_next_reader_gets_whole_records(tmp_path: Path) -> None:
    """The previous reader left within a record that is larger than the pipe."""
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with Lines(path) as file:
        file.put(b"x" * 2_000_000 + b"\n")
        os.close(reading)
        file.put(b"next\n")
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        file.put(b"")
        assert os.read(reading, 100) == b"next\n"
        os.close(reading)


@pytest.mark.parametrize(
    ("room", "taken"), [(0, False), (2, False), (4, False), (5, True)]
)
def test_growing_file_pipe_gets_rest_of_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, taken: bool
) -> None:
    """The pipe takes six of ten bytes; a record counts as taken once a part of it is."""
    os.mkfifo(tmp_path / "a.txt")
    reading = os.open(tmp_path / "a.txt", os.O_RDONLY | os.O_NONBLOCK)
    disk = Disk(monkeypatch, 6, errno.EAGAIN)
    with Lines(tmp_path / "a.txt") as file:
        file.put(b"123456789\n")
        disk.room = room
        file.put(b"next\n")
        assert file.n_waiting == (0 if taken else 1)
        disk.room = 100
        file.put(b"")
    assert os.read(reading, 100) == b"123456789\nnext\n"
    os.close(reading)


def test_growing_file_full_pipe_gets_every_record_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    records = [b"%d" % n * 20_000 + b"\n" for n in range(10)]
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reading, 9_999):
            got.append(data)

    reader = threading.Thread(target=read)
    with Lines(path) as file:
        for record in records:
            file.put(record)
        n_waiting = file.n_waiting
        reader.start()
        while file.n_waiting:
            file.put(b"")
        while file._rest:
            file.put(b"")  # until the pipe has taken the last record
    reader.join()
    os.close(reading)
    assert 0 < n_waiting < len(records)
    assert b"".join(got) == b"".join(records)
