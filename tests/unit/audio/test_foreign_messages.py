"""What comes from the decoder's process, and how it ends; the process is a stand-in."""

from __future__ import annotations

import io
import itertools
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

from whisper_hailo.audio import decode
from whisper_hailo.audio.files import open_file
from whisper_hailo.audio.foreign import BrokenOffError, ForeignReader
from whisper_hailo.core.errors import AudioError

SAMPLES = np.random.default_rng(1).uniform(-1, 1, (50, 2)).astype("<f4")


def message(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "little") + payload


HEADER = message(b"H", b"[44100, 2, null]")
AUDIO = [message(b"A", part.tobytes()) for part in (SAMPLES[:20], SAMPLES[20:])]


class Process:
    """A decoder that says something and ends.

    Attributes:
        events: what was done to it.
    """

    def __init__(self, said: bytes, code: int) -> None:
        self.stdout = io.BytesIO(said)
        self.events: list[str] = []
        self._code = code

    def __call__(self, command: list[str], **kwargs: Any) -> Process:
        self.command, self.kwargs = command, kwargs
        return self

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.events.append("waited for")

    def kill(self) -> None:
        self.events.append("killed")

    def wait(self) -> int:
        return self._code


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Opens what a process says; the process, which stays to be asked."""
    (tmp_path / "a.m4a").write_bytes(b"content")
    with (tmp_path / "a.m4a").open("rb", buffering=0) as file:

        def start(said: bytes, code: int = 0) -> tuple[ForeignReader, Process]:
            process = Process(said, code)
            monkeypatch.setattr(subprocess, "Popen", process)
            return ForeignReader(cast(BinaryIO, file), "a.m4a"), process

        yield start


def test_header_and_samples(opened: Any) -> None:
    reader, process = opened(HEADER + b"".join(AUDIO) + message(b"E", b""))
    assert (reader.sample_rate_hz, reader.n_channels, reader.n_frames) == (44_100, 2, None)
    blocks = list(reader.blocks())
    assert [block.shape for block in blocks] == [(20, 2), (30, 2)]
    np.testing.assert_array_equal(np.concatenate(blocks), SAMPLES)
    assert process.events == []
    reader.close()
    assert process.events == ["killed", "waited for"], "one that is not done would go on else"


def test_the_program_is_that_of_decode_and_has_ten_seconds_for_a_sample(opened: Any) -> None:
    _, process = opened(HEADER)
    assert process.command == [sys.executable, "-P", decode.__file__, "10.0"]
    assert process.kwargs["stdin"].read() == b"content"
    assert process.kwargs["stderr"] == subprocess.DEVNULL
    for place in filter(None, sys.path):
        assert place in process.kwargs["env"]["PYTHONPATH"].split(":")


def test_why_a_file_breaks_off_is_told(opened: Any) -> None:
    reader, _ = opened(HEADER + AUDIO[0] + message(b"E", b"no \xff plane"))
    blocks = reader.blocks()
    assert next(blocks).shape == (20, 2)
    with pytest.raises(BrokenOffError, match=re.escape("no \ufffd plane")):
        next(blocks)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (-signal.SIGSEGV, "the decoder crashed, SIGSEGV"),
        (-signal.SIGPROF, "the decoder gave nothing for 10 s"),
        (0, "the decoder crashed, exit code 0"),
        (1, "the decoder crashed, exit code 1"),
        (int(signal.SIGPROF), "the decoder crashed, exit code 27"),
    ],
)
def test_a_decoder_that_ends_anywhere_breaks_the_file_off_there(
    opened: Any, code: int, told: str
) -> None:
    said = HEADER + b"".join(AUDIO)
    ends = list(itertools.accumulate(map(len, [HEADER, *AUDIO])))
    for cut in range(len(said) + 1):
        if cut < len(HEADER):
            with pytest.raises(AudioError) as refused:
                opened(said[:cut], code)
            assert str(refused.value).startswith(f"a.m4a cannot be opened ({told}), expected sound")
            continue
        blocks = opened(said[:cut], code)[0].blocks()
        for n_frames in [n for n, end in zip((20, 30), ends[1:], strict=True) if end <= cut]:
            assert len(next(blocks)) == n_frames
        with pytest.raises(BrokenOffError) as broken:
            next(blocks)
        assert str(broken.value) == told


@pytest.mark.parametrize("lacks_ffmpeg", [False, True])
def test_a_refusal_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacks_ffmpeg: bool
) -> None:
    refusal = {"why": "libsndfile: no", "lacks_ffmpeg": lacks_ffmpeg}
    process = Process(message(b"R", json.dumps(refusal).encode()), 0)
    monkeypatch.setattr(subprocess, "Popen", process)
    (tmp_path / "a.m4a").write_bytes(b"content")
    with pytest.raises(AudioError) as refused, (tmp_path / "a.m4a").open("rb") as file:
        ForeignReader(file, "a.m4a")
    assert process.events == ["killed", "waited for"]
    told = str(refused.value)
    assert told.startswith("a.m4a is not readable audio (libsndfile: no), expected a whole ")
    assert ("audio or video file" in told) != lacks_ffmpeg
    assert ("for m4a, mp4, webm" in told) == lacks_ffmpeg


def test_a_file_on_the_disk_is_given_to_the_process_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.m4a").write_bytes(b"content")
    process = Process(HEADER, 0)
    monkeypatch.setattr(subprocess, "Popen", process)
    with (tmp_path / "a.m4a").open("rb") as source, ExitStack() as resources:
        ForeignReader(open_file(source, "a", resources), "a").close()
        assert process.kwargs["stdin"].fileno() == source.fileno()
