"""Files, pipes and devices: opening, refusals, names in messages, and temporary copies."""

from __future__ import annotations

import errno
import io
import os
import select
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

from tests.fakes.sounds import refusal, tone, write, write_media
from whisper_hailo.audio import files, load_audio
from whisper_hailo.audio.files import find_fault, open_file
from whisper_hailo.audio.stream import split_channels
from whisper_hailo.core.errors import AudioError

GIB = 1 << 30


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A named pipe that is given up after 0.2 s."""
    monkeypatch.setattr(files, "PIPE_PATIENCE_S", 0.2)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def feed(
    pipe: Path, content: bytes, *, leave: threading.Event | None = None
) -> threading.Thread:
    """Write to a pipe in a thread that keeps it open until `leave` is set."""

    def write_all() -> None:
        with pipe.open("wb") as file:
            file.write(content)
            file.flush()
            if leave is not None:
                leave.wait()

    thread = threading.Thread(target=write_all)
    thread.start()
    return thread


def test_open_file_pipe_without_writer_is_refused(pipe: Path) -> None:
    assert "0.2 s" in refusal(pipe)


def test_open_file_pipe_of_stalled_writer_is_refused(
    pipe: Path, tmp_path: Path
) -> None:
    leave = threading.Event()
    content = write(tmp_path / "a.wav", tone(16_000)).read_bytes()
    thread = feed(pipe, content[:1000], leave=leave)
    assert "0.2 s" in refusal(pipe)
    leave.set()
    thread.join()


@pytest.mark.parametrize("suffix", ["wav", "mkv"])
def test_load_audio_pipe_matches_file(pipe: Path, tmp_path: Path, suffix: str) -> None:
    whole = tmp_path / f"a.{suffix}"
    if suffix == "wav":
        write(whole, tone(16_000))
    else:
        write_media(whole, "pcm_s16le", 16_000)
    thread = feed(pipe, whole.read_bytes())
    np.testing.assert_array_equal(load_audio(pipe), load_audio(whole))
    thread.join()


def test_split_channels_pipe_is_read_per_channel(pipe: Path, tmp_path: Path) -> None:
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
    """The output of an endless program: a beginning, then zeros."""

    def __init__(self, begin: bytes = b"") -> None:
        self._begin = io.BytesIO(begin)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        return self._begin.read(size) or bytes(size)


def endless_wav(tmp_path: Path) -> BinaryIO:
    content = write(tmp_path / "a.wav", tone(16_000)).read_bytes()
    return cast(BinaryIO, Endless(content))


def test_open_file_endless_non_audio_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "LOOK_BYTES", 3 << 20)
    assert "readable" in refusal(cast(BinaryIO, Endless()))


@pytest.mark.parametrize("n_bytes", [1 << 10, 6 << 20])
def test_open_file_upload_is_not_copied(
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


def test_open_file_endless_recording_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 4 << 20)
    assert "0.00390625 GiB" in refusal(endless_wav(tmp_path))


def test_open_file_copy_leaves_space_in_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk = os.statvfs(tempfile.gettempdir())
    free_bytes = disk.f_bavail * disk.f_frsize
    monkeypatch.setattr(files, "SPARED_SHARE", 1.0)
    monkeypatch.setattr(files, "SPARED_BYTES", free_bytes - (8 << 20))
    monkeypatch.setattr(files, "SMALL_BYTES", 1 << 20)
    message = refusal(endless_wav(tmp_path))
    assert tempfile.gettempdir() in message
    assert "TMPDIR" in message


def test_open_file_short_recording_may_take_all_space(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pipe: Path
) -> None:
    monkeypatch.setattr(files, "SPARED_SHARE", 1.0)
    monkeypatch.setattr(files, "SPARED_BYTES", 1 << 60)
    whole = write(tmp_path / "a.wav", tone(16_000))
    thread = feed(pipe, whole.read_bytes())
    np.testing.assert_array_equal(load_audio(pipe), load_audio(whole))
    thread.join()


def test_open_file_without_tmpdir_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    message = refusal(cast(BinaryIO, Endless()))
    assert "TMPDIR" in message


def test_open_file_full_temporary_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **_: io.FileIO("/dev/full", "r+b")
    )
    monkeypatch.setattr(files, "SPARED_BYTES", 0)
    message = refusal(cast(BinaryIO, Endless()))
    assert os.strerror(errno.ENOSPC) in message


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "aiff", "mp4", "mkv", "caf"])
def test_load_audio_long_pipe_matches_file(
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
def test_open_file_endless_device_is_refused(device: str) -> None:
    assert f"/dev/{device} is empty" in refusal(Path("/dev", device))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "'' "),
        ("two\nlines.wav", r"two\nlines.wav' "),
        ("\x1b[31mred.wav", r"\x1b[31mred.wav' "),
        ("blank .wav ", "blank .wav ' "),
        ("日本語 ñ.wav", "日本語 ñ.wav "),
        ("nul\0.wav", r"nul\x00.wav'"),
        ("x" * 300, os.strerror(errno.ENAMETOOLONG)),
    ],
)
def test_open_file_odd_name_is_shown_escaped(
    tmp_path: Path, name: str, shown: str
) -> None:
    path = f"{tmp_path}/{name}" if name else name
    assert shown in refusal(path)


def test_open_file_foreign_descriptor_is_not_used() -> None:
    class Unpacked(io.BytesIO):
        def fileno(self) -> int:
            return 0

    with ExitStack() as resources:
        file = files.open_file(Unpacked(b"whole"), "a", resources)
        assert os.pread(file.fileno(), 100, 0) == file.read() == b"whole"


def test_open_file_seek_before_start_goes_to_start(tmp_path: Path) -> None:
    """Broken headers ask for it, and an error in what C calls back is printed, not raised."""
    (tmp_path / "a").write_bytes(b"abcdef")
    with (tmp_path / "a").open("rb") as source, ExitStack() as resources:
        file = files.open_file(source, "a", resources)
        assert file.seek(-100, os.SEEK_END) == 0
        assert file.read(2) == b"ab"
        assert file.seek(2, os.SEEK_CUR) == 4
        assert file.seek(-1, os.SEEK_END) == 5
        assert file.read() == b"f"


def test_open_file_named_pipe_is_polled_for_10_s(
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
    assert "10 s" in refusal(tmp_path / "pipe")
    assert waited == [10_000]


@pytest.mark.parametrize("buffering", [0, -1])
def test_open_file_caller_s_file_keeps_its_position(
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


def test_open_file_memory_file_has_own_positions() -> None:
    """Raw samples, so that a buffer can be laid over them."""
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


def test_find_fault_reads_no_content(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "one").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    for name in ("one", "pipe", "."):
        assert find_fault(tmp_path / name, "a") is None
    assert str(find_fault(tmp_path / "empty", "a")).startswith("a is empty")
    assert str(find_fault(tmp_path / "none", "a")).startswith("a ")
    assert find_fault(Path("/dev/null"), "a") is None


def test_open_file_single_byte_is_accepted() -> None:
    with ExitStack() as resources:
        assert open_file(io.BytesIO(b"x"), "a", resources).read() == b"x"
        with pytest.raises(AudioError, match="empty"):
            open_file(io.BytesIO(), "a", resources)


def test_open_file_missing_or_folder_is_refused(tmp_path: Path) -> None:
    assert "no.wav " in refusal(tmp_path / "no.wav")
    assert "directory" in refusal(tmp_path)
    assert os.strerror(errno.ENAMETOOLONG) in refusal(tmp_path / ("x" * 300))


def test_open_file_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "a.wav", tone(16_000))
    monkeypatch.setattr(os, "open", denied)  # The superuser may read what nobody may.
    assert "permissions" in refusal(path)


def test_open_file_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"")
    assert "is empty" in refusal(tmp_path / "a.wav")
    assert "upload is empty" in refusal(io.BytesIO(), name="upload")


class Long(io.BytesIO):
    """A copy that reports `n_before` bytes already written; it takes three bytes at a time."""

    def __init__(self, n_before: int = 0) -> None:
        super().__init__()
        self.n_before = n_before

    def tell(self) -> int:
        return self.n_before + super().tell()

    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        return super().write(data[:3])

    def fileno(self) -> int:
        return 0


def append(copy: Long, content: Iterator[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", lambda **_: copy)
        files.new_copy(content, "a.wav", ExitStack())


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Made:
    """A file system of 100 GiB, half of them free."""
    made = Made(f_frsize=4096, f_blocks=100 * GIB // 4096, f_bavail=50 * GIB // 4096)
    monkeypatch.setattr(os, "fstatvfs", lambda _: made)
    return made


def test_new_copy_partial_writes_are_completed(disk: Made) -> None:
    copy = Long()
    append(copy, iter([b"0123456789", b"ab", b"c"]))
    assert copy.getvalue() == b"0123456789abc"


def test_new_copy_beyond_16_gib_is_refused(disk: Made) -> None:
    day_s = 24 * 3600
    bytes_s = 44_100 * 2 * 2
    assert day_s * bytes_s < 16 * GIB, "a day as on a CD"
    copy = Long(16 * GIB - 2)
    append(copy, iter([b"x", b"x"]))
    assert copy.tell() == 16 * GIB
    with pytest.raises(AudioError, match="16 GiB"):
        append(copy, iter([b"x"]))
    with pytest.raises(AudioError, match="16 GiB"):
        append(Long(16 * GIB - 2), iter([b"xxx"]))


@pytest.mark.parametrize(
    ("disk_bytes", "left_bytes"),
    [(100 * GIB, GIB), (20 * GIB, GIB), (10 * GIB, GIB // 2), (40960 * 100, 4096 * 50)],
)
def test_new_copy_leaves_reserve_on_disk(
    disk: Made, disk_bytes: int, left_bytes: int
) -> None:
    disk.f_blocks = disk_bytes // 4096
    disk.f_bavail = left_bytes // 4096
    append(Long(65 << 20), iter([b"x"]))
    disk.f_bavail -= 1
    with pytest.raises(AudioError, match=f" {(left_bytes - 4096) >> 20} MiB"):
        append(Long(65 << 20), iter([b"x"]))


def test_new_copy_up_to_64_mib_ignores_reserve(disk: Made) -> None:
    disk.f_bavail = 0
    append(Long((64 << 20) - 1), iter([b"x"]))
    with pytest.raises(AudioError, match="64 MiB"):
        append(Long(64 << 20), iter([b"x"]))


def test_new_copy_refusal_names_temporary_folder(
    disk: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.f_bavail = 0
    for folder, name in (("/somewhere", "/somewhere"), (None, "the temporary folder")):
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with pytest.raises(AudioError, match=name):
            append(Long(65 << 20), iter([b"x"]))


def test_open_file_memory_file_is_copied_for_decoder() -> None:
    """All of it, at once: nothing waits in a buffer of this process."""
    file = io.BytesIO(b"whole")
    file.read(2)
    with ExitStack() as resources:
        copy = files.open_file(file, "a.wav", resources)
        assert os.pread(copy.fileno(), 100, 0) == b"whole"
    assert copy.closed
    assert not file.closed


def test_open_file_readable_by_decoder_is_not_copied() -> None:
    with tempfile.TemporaryFile() as file, ExitStack() as resources:
        file.write(b"whole")
        file.flush()
        opened = files.open_file(cast(io.BufferedRandom, file), "a", resources)
        assert opened.fileno() == file.fileno()
