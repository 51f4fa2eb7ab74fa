"""Names and pipes: what is opened, how long a pipe is waited for, how names are shown."""

from __future__ import annotations

import io
import os
import select
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest

from tests.fakes.sounds import refusal, tone, write, write_media
from whisper_hailo.audio import files, load_audio
from whisper_hailo.audio.files import find_fault, open_file
from whisper_hailo.audio.stream import split_channels
from whisper_hailo.core.errors import AudioError


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that has a name, and is soon given up."""
    monkeypatch.setattr(files, "PIPE_PATIENCE_S", 0.2)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def feed(
    pipe: Path, content: bytes, *, leave: threading.Event | None = None
) -> threading.Thread:
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


def test_pipe_without_a_writer_is_given_up(pipe: Path) -> None:
    assert "a pipe that received no data for 0.2 s" in refusal(pipe)


def test_writer_that_stops_writing_is_given_up(pipe: Path, tmp_path: Path) -> None:
    leave = threading.Event()
    content = write(tmp_path / "a.wav", tone(16_000)).read_bytes()
    thread = feed(pipe, content[:1000], leave=leave)
    assert "received no data" in refusal(pipe)
    leave.set()
    thread.join()


@pytest.mark.parametrize("suffix", ["wav", "mkv"])
def test_what_comes_through_a_pipe_is_a_recording(
    pipe: Path, tmp_path: Path, suffix: str
) -> None:
    whole = tmp_path / f"a.{suffix}"
    if suffix == "wav":
        write(whole, tone(16_000))
    else:
        write_media(whole, "pcm_s16le", 16_000)
    thread = feed(pipe, whole.read_bytes())
    np.testing.assert_array_equal(load_audio(pipe), load_audio(whole))
    thread.join()


def test_channels_of_what_comes_once(pipe: Path, tmp_path: Path) -> None:
    samples = (
        np.random.default_rng(6).uniform(-0.5, 0.5, (16_000, 2)).astype(np.float32)
    )
    content = write(tmp_path / "a.wav", samples, subtype="FLOAT").read_bytes()
    thread = feed(pipe, content)
    with split_channels(pipe) as channels:
        assert [channel.name for channel in channels] == [str(pipe)] * 2
        for index, channel in enumerate(channels):
            np.testing.assert_array_equal(load_audio(channel), samples[:, index])
    thread.join()


class Endless(io.RawIOBase):
    """What a program without an end writes to a pipe: a beginning, and then zeros."""

    def __init__(self, begin: bytes = b"") -> None:
        self._begin = io.BytesIO(begin)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        return self._begin.read(size) or bytes(size)


def endless_wav(tmp_path: Path) -> BinaryIO:
    content = write(tmp_path / "a.wav", tone(16_000)).read_bytes()
    return cast(BinaryIO, Endless(content))


def test_what_has_no_end_and_is_no_recording_is_soon_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "LOOK_BYTES", 3 << 20)
    assert "audio is not readable audio" in refusal(cast(BinaryIO, Endless()))


@pytest.mark.parametrize("n_bytes", [1 << 10, 6 << 20])
def test_uploads_are_read_where_they_are(
    n_bytes: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Small ones in memory, large ones in the file that the server wrote; no further copy."""
    monkeypatch.setattr(files, "new_copy", None)
    samples = tone(n_bytes // 2)
    upload = tempfile.SpooledTemporaryFile(1 << 20)  # noqa: SIM115 - closed below
    with upload, ExitStack() as resources:
        upload.write(write(tmp_path / "a.wav", samples).read_bytes())
        read = open_file(cast(BinaryIO, upload), "audio", resources).read()
    assert read == (tmp_path / "a.wav").read_bytes()


def test_recording_that_has_no_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 4 << 20)
    told = refusal(endless_wav(tmp_path))
    assert told.startswith("audio has more than 0.00390625 GiB")


def test_what_comes_leaves_space_in_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk = os.statvfs(tempfile.gettempdir())
    free_bytes = disk.f_bavail * disk.f_frsize
    monkeypatch.setattr(files, "SPARED_SHARE", 1.0)
    monkeypatch.setattr(files, "SPARED_BYTES", free_bytes - (8 << 20))
    monkeypatch.setattr(files, "SMALL_BYTES", 1 << 20)
    told = refusal(endless_wav(tmp_path))
    assert "audio does not fit in the temporary folder: " in told
    assert f"free some space in {tempfile.gettempdir()}, set TMPDIR" in told


def test_short_recording_may_have_all_the_space_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pipe: Path
) -> None:
    monkeypatch.setattr(files, "SPARED_SHARE", 1.0)
    monkeypatch.setattr(files, "SPARED_BYTES", 1 << 60)
    whole = write(tmp_path / "a.wav", tone(16_000))
    thread = feed(pipe, whole.read_bytes())
    np.testing.assert_array_equal(load_audio(pipe), load_audio(whole))
    thread.join()


def test_no_temporary_folder_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    told = refusal(cast(BinaryIO, Endless()))
    assert "free some space in the temporary folder, set TMPDIR" in told


def test_full_temporary_folder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **_: io.FileIO("/dev/full", "r+b")
    )
    monkeypatch.setattr(files, "SPARED_BYTES", 0)
    told = refusal(cast(BinaryIO, Endless()))
    assert "(No space left on device)" in told


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "aiff", "mp4", "mkv", "caf"])
def test_long_recordings_come_whole_whatever_stands_at_their_end(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The index of some formats does, so that nothing can be told from their beginning."""
    monkeypatch.setattr(files, "PIECE_BYTES", 1 << 12)
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 32_000).astype(np.float32)
    whole = tmp_path / f"a.{kind}"
    if kind in {"mp4", "mkv"}:
        write_media(whole, "aac", 16_000)
    else:
        write(whole, noise)
    assert whole.stat().st_size > files.PIECE_BYTES
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as piped:
        thread = threading.Thread(target=_write_to, args=(writer, whole.read_bytes()))
        thread.start()
        np.testing.assert_array_equal(load_audio(piped), load_audio(whole))
        thread.join()


def _write_to(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


@pytest.mark.parametrize("device", ["zero", "urandom"])
def test_devices_without_an_end_are_refused(device: str) -> None:
    assert f"/dev/{device} is empty (0 bytes)" in refusal(Path("/dev", device))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "'' does not exist"),
        ("two\nlines.wav", r"two\nlines.wav' does not exist"),
        ("\x1b[31mred.wav", r"\x1b[31mred.wav' does not exist"),
        ("blank .wav ", "blank .wav ' does not exist"),
        ("日本語 ñ.wav", "日本語 ñ.wav does not exist"),
        ("nul\0.wav", r"nul\x00.wav' is not a valid file name"),
        ("x" * 300, "cannot be opened (File name too long)"),
    ],
)
def test_names_are_shown_so_that_one_sees_them(
    tmp_path: Path, name: str, shown: str
) -> None:
    path = f"{tmp_path}/{name}" if name else name
    assert shown in refusal(path)


def test_file_whose_descriptor_is_that_of_what_it_unpacks() -> None:
    class Unpacked(io.BytesIO):
        def fileno(self) -> int:
            return 0

    with ExitStack() as resources:
        file = files.open_file(Unpacked(b"whole"), "a", resources)
        assert os.pread(file.fileno(), 100, 0) == file.read() == b"whole"


def test_place_before_the_start_is_the_start(tmp_path: Path) -> None:
    """Broken headers ask for it, and an error in what C calls back is printed, not raised."""
    (tmp_path / "a").write_bytes(b"abcdef")
    with (tmp_path / "a").open("rb") as source, ExitStack() as resources:
        file = files.open_file(source, "a", resources)
        assert file.seek(-100, os.SEEK_END) == 0
        assert file.read(2) == b"ab"
        assert file.seek(2, os.SEEK_CUR) == 4
        assert file.seek(-1, os.SEEK_END) == 5
        assert file.read() == b"f"


def test_named_pipe_may_give_nothing_for_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waited: list[float] = []

    class Poll:
        def register(self, file: BinaryIO, events: int) -> None:
            assert os.path.samestat(os.fstat(file.fileno()), os.stat(tmp_path / "pipe"))
            assert events & select.POLLIN

        def poll(self, milliseconds: float) -> list[object]:
            waited.append(milliseconds)
            return []

    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(select, "poll", Poll)
    assert "a pipe that received no data for 10 s," in refusal(tmp_path / "pipe")
    assert waited == [10_000]


@pytest.mark.parametrize("buffering", [0, -1])
def test_callers_file_is_read_in_place_from_its_own_position(
    tmp_path: Path, buffering: int
) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    with (tmp_path / "a").open("rb", buffering) as source, ExitStack() as resources:
        source.read(2)
        file = open_file(source, "a", resources)
        assert file.fileno() == source.fileno(), "nothing is copied for another process"
        assert file.read(3) == b"abc"
        assert source.read(1) == b"c"
        assert file.read() == b"def"
    assert file.closed


def test_other_file_objects_are_read_from_their_own_position() -> None:
    """As any raw file is, so that a buffer can be laid over it."""
    source = io.BytesIO(b"abcdef")
    source.read(2)
    with ExitStack() as resources:
        files_ = [open_file(source, "a", resources) for _ in range(2)]
        left, right = (
            io.BufferedReader(cast(io.RawIOBase, file), 4) for file in files_
        )
        assert [left.read(3), right.read(2), left.read(9), right.read(9)] == [
            *(b"abc", b"ab", b"def", b"cdef")
        ]
        assert left.seek(-2, os.SEEK_END) == 4
        assert left.read() == b"ef"
        assert left.seek(1) == 1
        assert left.read(1) == b"b"
    assert not source.closed


def test_what_is_wrong_with_a_name_is_told_without_reading(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "one").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    for name in ("one", "pipe", "."):
        assert find_fault(tmp_path / name, "a") is None
    assert str(find_fault(tmp_path / "empty", "a")).startswith("a is empty (0 bytes)")
    assert str(find_fault(tmp_path / "none", "a")).startswith("a does not exist")
    assert find_fault(Path("/dev/null"), "a") is None


def test_one_byte_is_not_empty() -> None:
    with ExitStack() as resources:
        assert open_file(io.BytesIO(b"x"), "a", resources).read() == b"x"
        with pytest.raises(AudioError, match="empty"):
            open_file(io.BytesIO(), "a", resources)
