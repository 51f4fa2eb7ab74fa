"""Names and pipes: what is opened, how long a pipe is waited for, how names are shown."""

import io
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.unit.sounds import refusal, tone, write, write_media
from whisper_hailo.audio import files, load_audio
from whisper_hailo.audio.channels import split_channels


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that has a name, and is soon given up."""
    monkeypatch.setattr(files, "PIPE_PATIENCE_S", 0.2)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def feed(pipe: Path, content: bytes, *, leave: threading.Event | None = None) -> threading.Thread:
    """Write to a pipe as another program does, which leaves when it is told to."""

    def write_all() -> None:
        with pipe.open("wb") as file:
            file.write(content)
            file.flush()
            if leave is not None:
                leave.wait()

    thread = threading.Thread(target=write_all)
    thread.start()
    return thread


def test_a_pipe_without_a_writer_is_given_up(pipe: Path) -> None:
    assert "pipe is a pipe to which nobody wrote anything for 0.2 s" in refusal(pipe)


def test_a_writer_that_stops_writing_is_given_up(pipe: Path, tmp_path: Path) -> None:
    leave = threading.Event()
    content = write(tmp_path / "a.wav", tone(16_000)).read_bytes()
    thread = feed(pipe, content[:1000], leave=leave)
    assert "nobody wrote anything for" in refusal(pipe)
    leave.set()
    thread.join()


@pytest.mark.parametrize("suffix", ["wav", "mkv"])
def test_what_comes_through_a_pipe_is_a_recording(pipe: Path, tmp_path: Path, suffix: str) -> None:
    whole = tmp_path / f"a.{suffix}"
    if suffix == "wav":
        write(whole, tone(16_000))
    else:
        write_media(whole, "pcm_s16le", 16_000)
    thread = feed(pipe, whole.read_bytes())
    np.testing.assert_array_equal(load_audio(pipe), load_audio(whole))
    thread.join()


def test_channels_of_what_comes_once(pipe: Path, tmp_path: Path) -> None:
    samples = np.random.default_rng(6).uniform(-0.5, 0.5, (16_000, 2)).astype(np.float32)
    content = write(tmp_path / "a.wav", samples, subtype="FLOAT").read_bytes()
    thread = feed(pipe, content)
    with split_channels(pipe) as channels:
        assert [channel.name for channel in channels] == [str(pipe)] * 2
        for index, channel in enumerate(channels):
            np.testing.assert_array_equal(load_audio(channel), samples[:, index])
    thread.join()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "'' does not exist"),
        ("two\nlines.wav", r"two\nlines.wav' does not exist"),
        ("\x1b[31mred.wav", r"\x1b[31mred.wav' does not exist"),
        ("blank .wav ", "blank .wav ' does not exist"),
        ("日本語 ñ.wav", "日本語 ñ.wav does not exist"),
        ("nul\0.wav", r"nul\x00.wav' is no file name"),
        ("x" * 300, "cannot be opened (File name too long)"),
    ],
)
def test_names_are_shown_so_that_one_sees_them(tmp_path: Path, name: str, shown: str) -> None:
    path = f"{tmp_path}/{name}" if name else name
    assert shown in refusal(path)


def test_a_file_whose_descriptor_is_that_of_what_it_unpacks() -> None:
    class Unpacked(io.BytesIO):
        def fileno(self) -> int:
            return 0

    with ExitStack() as resources:
        file = files.open_file(Unpacked(b"whole"), "a", resources)
        copy = files.with_descriptor(file, "a", resources)
        copy.seek(0)
        assert copy.read() == b"whole"


def test_a_place_before_the_start_is_the_start() -> None:
    """Broken headers ask for it, and an error in what C calls back is printed, not raised."""
    with ExitStack() as resources:
        file = files.open_file(io.BytesIO(b"abcdef"), "a", resources)
        assert file.seek(-100, os.SEEK_END) == 0
        assert file.read(2) == b"ab"
        assert file.seek(2, os.SEEK_CUR) == 4
        assert file.seek(-1, os.SEEK_END) == 5
        assert file.read() == b"f"
