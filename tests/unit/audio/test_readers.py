"""Who reads what: by its first bytes, in this process or in another, and in silence."""

from __future__ import annotations

import io
import logging
import os
import struct
import subprocess
import sys
import wave
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
import soundfile

from tests.fakes.sounds import noisy_speech, refusal, similarity, tone, write
from whisper_hailo.audio import load_audio, open_audio, readers
from whisper_hailo.audio.files import open_file
from whisper_hailo.audio.wav_header import complete_header
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.process import install_command

MPEG = [b"ID3\x03", *(bytes([0xFF, second]) for second in range(0xE0, 0x100))]
PLAIN = [b"RIFF", b"RIFX", b"RF64", b"riff", b"fLaC", b"OggS", b".snd"]
FORMS = [b"FORM\x12\x34\x56\x78" + kind for kind in (b"AIFF", b"AIFC")]
OTHERS = [
    *(
        b"caff",
        b"\0\0\0\x18ftypM4A ",
        b"\x1aE\xdf\xa3",
        b"ID",
        b"ID4",
        b"\xff",
        b"\xff\xdf",
    ),
    *(
        b"\xfe\xe0",
        b"\0\xff\xfb",
        b"FORM\x12\x34\x56\x788SVX",
        b"CAT \x12\x34\x56\x78AIFF",
    ),
    *(
        b"FORMAIFF",
        b"FORM\x12\x34\x56\x78",
        b"12345678RIFF",
        b"rifx",
        b"\0fLaC",
        b"snd",
        b"zz",
    ),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Where a file is when libsndfile gets it, and whether what is printed then is kept back."""
    calls: list[tuple[int, bool]] = []
    usual = os.fstat(2).st_ino

    def open_it(file: BinaryIO, **_: object) -> None:
        calls.append((file.tell(), os.fstat(2).st_ino != usual))
        raise soundfile.LibsndfileError(1)

    monkeypatch.setattr(soundfile, "SoundFile", open_it)
    monkeypatch.setattr(
        readers, "open_foreign", lambda file, label, _: (file.tell(), label)
    )
    return calls


@pytest.mark.parametrize(
    ("starts", "calls"),
    [(MPEG, [(0, True)]), (PLAIN + FORMS, [(0, False)]), (OTHERS, [])],
    ids=["MPEG", "plain", "others"],
)
def test_first_bytes_say_who_reads_a_file(
    asked: list[tuple[int, bool]], starts: list[bytes], calls: list[tuple[int, bool]]
) -> None:
    """What libsndfile cannot open goes to the other process too, from its start."""
    for start in starts:
        asked.clear()
        file = io.BytesIO(start.ljust(12, b"*") + b"what follows")
        assert cast(Any, readers.open_reader(file, "a", ExitStack())) == (0, "a")
        assert asked == calls, start


@pytest.mark.parametrize(
    ("suffix", "kwargs"),
    [
        ("wav", {"format": "RF64"}),
        ("wav", {"endian": "BIG"}),
        ("w64", {}),
        ("aiff", {}),
        ("aifc", {"format": "AIFF", "subtype": "ULAW"}),
        ("au", {}),
        ("flac", {}),
        ("ogg", {}),
        ("mp3", {}),
    ],
)
def test_plain_formats_need_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, kwargs: dict[str, str]
) -> None:
    path = write(tmp_path / f"a.{suffix}", tone(16_000, 0.5), **kwargs)
    monkeypatch.setattr(readers, "open_foreign", None)
    for source in (path, io.BytesIO(path.read_bytes())):
        heard = load_audio(source)
        assert heard.shape == (8_000,)
        np.testing.assert_allclose(
            heard[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=0.05
        )


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("suffix", ["wav", "mp3"])
def test_what_was_opened_is_closed_and_what_is_callers_is_not(
    tmp_path: Path, suffix: str
) -> None:
    path = write(tmp_path / f"a.{suffix}", tone(16_000, 0.5))
    load_audio(path)
    before = descriptors()
    for _ in range(2):
        load_audio(path)
        assert descriptors() == before
    with path.open("rb") as file:
        load_audio(file)
        assert file.read(1)
    memory = io.BytesIO(path.read_bytes())
    load_audio(memory)
    assert not memory.closed


def test_reader_that_is_closed_leaves_the_file_open(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 0.5))
    with ExitStack() as resources:
        file = open_file(path, "a", resources)
        for _ in range(2):
            file.seek(0)
            with ExitStack() as opened:
                read = readers.open_reader(file, "a", opened)
                assert sum(len(block) for block in read.blocks) == 8_000


@pytest.mark.parametrize(
    ("suffix", "cut"), [("flac", 0.5), ("flac", 0.9), ("mp3", 0.5)]
)
def test_broken_file_gives_each_sample_once_and_in_its_place(
    tmp_path: Path, suffix: str, cut: float
) -> None:
    path = write(tmp_path / f"a.{suffix}", noisy_speech(2.0))
    whole = load_audio(path)
    content = path.read_bytes()
    path.write_bytes(content[: round(cut * len(content))])
    heard = load_audio(path)
    assert cut - 0.3 < heard.size / whole.size <= cut + 0.1
    n_sure = heard.size - 4_096
    np.testing.assert_allclose(heard[:n_sure], whole[:n_sure], atol=1e-4)


def test_file_with_a_single_sample_in_a_last_block_has_it(tmp_path: Path) -> None:
    samples = (
        np.random.default_rng(1)
        .uniform(-0.5, 0.5, (2 * 8_192 + 1, 1))
        .astype(np.float32)
    )
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    np.testing.assert_array_equal(load_audio(path), samples[:, 0])
    path = write(tmp_path / "one.wav", samples[:1], subtype="FLOAT")
    np.testing.assert_array_equal(load_audio(path), samples[0])


def test_what_others_print_while_mp3_file_is_read_is_passed_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = descriptors()
    with readers.mute_mpg123():
        os.write(2, b"first of another thread\nNote: a broken frame\n\n  \n")
        os.write(2, b"[src/libmpg123/id3.c:process_comment():587] error: no\n")
        os.write(2, b"Warning: odd\nsecond: Warning: Note: \n")
        os.write(1, b"a result\n")
    os.write(2, b"third\n")
    assert capfd.readouterr() == (
        "a result\n",
        "first of another thread\nsecond: Warning: Note: \nthird\n",
    )
    assert descriptors() == before


def test_program_without_a_standard_error_reads_mp3_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.mp3", tone(16_000))

    def closed(_: int) -> int:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(os, "dup", closed)
    assert len(load_audio(path)) == 16_000


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_samples_in_memory_come_as_they_are(kind: type[np.floating[Any]]) -> None:
    samples = np.random.default_rng(2).uniform(-1, 1, 20_000).astype(kind)
    with open_audio(samples) as stream:
        assert (stream.n_channels, stream.duration_s, stream.name) == (1, 1.25, "array")
        heard = np.concatenate(list(stream.blocks(1_000)))
    np.testing.assert_array_equal(heard, samples.astype(np.float32))


def test_samples_in_memory_are_not_copied() -> None:
    samples = np.zeros(20_000, np.float32)
    blocks = list(readers.open_samples(samples, "a", RATE_HZ).blocks)
    assert [block.shape for block in blocks] == [(8_192, 1), (8_192, 1), (3_616, 1)]
    assert all(np.shares_memory(block, samples) for block in blocks)


def test_samples_of_other_shapes_and_kinds_are_refused() -> None:
    for samples in (
        np.zeros((), np.float32),
        np.zeros((5, 1, 1), np.float32),
        np.zeros(5, np.uint8),
        np.zeros(5, np.complex64),
    ):
        assert f"array has shape {samples.shape} and dtype" in refusal(samples)
    assert "transpose it" in refusal(np.zeros((2, 5), np.float32))


@pytest.mark.parametrize("kind", [np.int16, np.int32])
def test_whole_numbers_are_scaled_by_their_type(
    kind: type[np.signedinteger[Any]],
) -> None:
    limits = np.iinfo(kind)
    samples = np.array([limits.min, 0, limits.max], kind)
    with open_audio(samples) as stream:
        (heard,) = stream.blocks(9)
    np.testing.assert_allclose(heard, [-1, 0, 1], atol=2.0**-15)


def test_channels_of_samples_are_mixed() -> None:
    left = np.linspace(-0.5, 0.5, 20_000, dtype=np.float32)
    with open_audio(np.stack([left, left / 2], axis=1)) as stream:
        assert (stream.n_channels, stream.duration_s) == (2, 1.25)
        heard = np.concatenate(list(stream.blocks(1_000)))
    np.testing.assert_allclose(heard, left * 0.75, atol=1e-6)


RATE_HZ = 16_000
TAGS = b"LIST" + struct.pack("<I", 16) + b"INFOICMT" + struct.pack("<I", 4) + b"abc\0"


def content(
    length: int | None, *, riff: int | None = None, before: bytes = b""
) -> bytes:
    """A WAV file of half a second with such lengths in its header; `None` leaves the right one."""
    written = io.BytesIO()
    soundfile.write(
        written, tone(RATE_HZ, 0.5), RATE_HZ, format="WAV", subtype="PCM_16"
    )
    raw = bytearray(written.getvalue())
    at = raw.index(b"data")
    if length is not None:
        raw[at + 4 : at + 8] = struct.pack("<I", length)
    if riff is not None:
        raw[4:8] = struct.pack("<I", riff)
    raw[at:at] = before
    return bytes(raw)


WHOLE = content(None)


PlaceOf = Callable[[bytes], BinaryIO]


@pytest.fixture
def place_of() -> Iterator[PlaceOf]:
    """Makes a raw file, at its start, of what it holds."""
    with ExitStack() as resources:
        yield lambda raw: open_file(io.BytesIO(raw), "a", resources)


@pytest.mark.parametrize("riff", [0, 8, 36, None])
@pytest.mark.parametrize("before", [b"", TAGS])
def test_length_that_was_never_written_is_up_to_the_end(
    riff: int | None, before: bytes, tmp_path: Path
) -> None:
    wanted = load_audio(io.BytesIO(WHOLE))
    raw = content(0, riff=riff, before=before)
    (tmp_path / "a.wav").write_bytes(raw)
    for source in (tmp_path / "a.wav", io.BytesIO(raw)):
        np.testing.assert_array_equal(load_audio(source), wanted)


@pytest.mark.parametrize("length", [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_length_beyond_the_end_is_up_to_the_end(length: int) -> None:
    wanted = load_audio(io.BytesIO(WHOLE))
    np.testing.assert_array_equal(load_audio(io.BytesIO(content(length))), wanted)


@pytest.mark.parametrize("before", [b"", TAGS])
@pytest.mark.parametrize(
    "kind", [{}, {"format": "RF64"}, {"format": "WAVEX"}, {"subtype": "ULAW"}]
)
def test_half_a_file_warns(
    before: bytes,
    kind: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = io.BytesIO()
    options = {"format": "WAV", "subtype": "PCM_16", **kind}
    soundfile.write(written, tone(RATE_HZ, 4.0), RATE_HZ, **options)
    raw = written.getvalue().replace(b"fmt ", before + b"fmt ", 1)
    for source in (raw, raw + TAGS, raw[:-2000]):
        load_audio(io.BytesIO(source))
    assert not caplog.text
    (tmp_path / "a.wav").write_bytes(raw[: len(raw) // 2])
    with open_audio(tmp_path / "a.wav") as stream:
        assert stream.duration_s == 4.0
        assert sum(map(len, stream.blocks(RATE_HZ))) == pytest.approx(
            2 * RATE_HZ, abs=100
        )
    assert "a.wav breaks off after 2.0 s of 4.0 s (truncated)" in caplog.text


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "ULAW"])
def test_header_of_half_the_samples_reads_all_and_warns(
    subtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A recorder that crashed had written its header in the middle of the recording."""
    written = io.BytesIO()
    soundfile.write(written, noisy_speech(4.0), RATE_HZ, format="WAV", subtype=subtype)
    expected = load_audio(io.BytesIO(written.getvalue()))
    broken = bytearray(written.getvalue())
    length = broken.index(b"data") + 4
    (whole,) = struct.unpack_from("<I", broken, length)
    struct.pack_into("<I", broken, length, whole // 4 * 2)
    np.testing.assert_array_equal(load_audio(io.BytesIO(bytes(broken))), expected)
    assert "2.0 s" in caplog.text


def test_header_of_all_samples_leaves_long_tags_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pictures = b"id3 " + struct.pack("<I", 400_001) + bytes(400_002)
    for behind in (pictures, pictures[:-1], TAGS + pictures):
        np.testing.assert_array_equal(
            load_audio(io.BytesIO(WHOLE + behind)), load_audio(io.BytesIO(WHOLE))
        )
    assert not caplog.text


@pytest.mark.parametrize("length", [0, 0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_lengths_of_streams_promise_nothing(
    length: int, caplog: pytest.LogCaptureFixture
) -> None:
    with open_audio(io.BytesIO(content(length))) as stream:
        assert sum(map(len, stream.blocks(RATE_HZ))) == RATE_HZ // 2
    assert not caplog.text


def test_broken_headers_promise_nothing(place_of: PlaceOf) -> None:
    at = WHOLE.index(b"fmt ")
    broken = bytearray(content(1 << 20))
    broken[at + 16 : at + 20] = bytes(4)
    assert complete_header(place_of(bytes(broken))).promised_s is None
    for n_bytes in range(at + 12, WHOLE.index(b"data") + 8):
        assert complete_header(place_of(WHOLE[:n_bytes])).promised_s is None
    assert complete_header(place_of(WHOLE.replace(b"fmt ", b"FMT "))).promised_s is None


@pytest.mark.parametrize("behind", [b"", TAGS, TAGS + b"\0", b"\0"])
def test_what_holds_no_samples_still_holds_none(behind: bytes) -> None:
    empty = content(0)[: WHOLE.index(b"data") + 8] + behind
    with pytest.raises(AudioError, match="no samples"):
        load_audio(io.BytesIO(empty))


@pytest.mark.parametrize("before", [b"", b"note" + struct.pack("<I", 3) + b"odd\0"])
def test_length_that_is_right_leaves_out_what_stands_behind(before: bytes) -> None:
    """A chunk of odd length has a byte more, which its length does not count."""
    wanted = load_audio(io.BytesIO(WHOLE))
    for raw in (content(None, before=before) + TAGS, content(0, before=before)):
        np.testing.assert_array_equal(load_audio(io.BytesIO(raw)), wanted)


def test_64_kib_of_chunks_before_the_samples_are_looked_at() -> None:
    def with_data_at(place: int) -> io.BytesIO:
        size = place - WHOLE.index(b"data") - 8
        return io.BytesIO(
            content(0, before=b"junk" + struct.pack("<I", size) + bytes(size))
        )

    assert load_audio(with_data_at((64 << 10) - 2)).size == RATE_HZ // 2
    with pytest.raises(AudioError, match="no samples"):
        load_audio(with_data_at(64 << 10))


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 5, 7, 64])
def test_length_is_another_however_it_is_read(place_of: PlaceOf, n_bytes: int) -> None:
    """And all other bytes are those of the file."""
    at = WHOLE.index(b"data") + 4
    wanted = WHOLE[:at] + b"\xff" * 4 + WHOLE[at + 4 :]
    file = complete_header(place_of(content(0))).file
    read = b"".join(iter(lambda: file.read(n_bytes), b""))
    assert read == wanted
    for begin in range(at - 8, at + 8):
        assert file.seek(begin) == file.tell() == begin
        assert file.read(n_bytes) == wanted[begin : begin + n_bytes]
    assert file.seek(-3, os.SEEK_END) == len(wanted) - 3
    buffered = io.BufferedReader(cast(io.RawIOBase, file))
    buffered.seek(0)
    assert buffered.read() == wanted


def test_file_whose_length_is_right_is_left_as_it_is(place_of: PlaceOf) -> None:
    for raw in (WHOLE, WHOLE[:20], b"RIFF"):
        file = place_of(raw)
        assert complete_header(file).file is file
        assert file.read() == raw


@pytest.mark.slow
def test_header_of_endless_empty_chunks_is_given_up() -> None:
    broken = WHOLE[:12] + bytes(1 << 20)
    with pytest.raises(AudioError, match="readable"):
        open_audio(io.BytesIO(broken))


DATA = Path(__file__).parents[2] / "data"


def test_missing_and_directory(tmp_path: Path) -> None:
    assert "no.wav does not exist" in refusal(tmp_path / "no.wav")
    assert "is a directory" in refusal(tmp_path)
    assert "cannot be opened" in refusal(tmp_path / ("x" * 300))


def test_not_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "a.wav", tone(16_000))
    monkeypatch.setattr(os, "open", denied)  # The superuser may read what nobody may.
    assert "is not readable by this user; change its permissions" in refusal(path)


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"")
    assert "is empty (0 bytes)" in refusal(tmp_path / "a.wav")
    assert "upload is empty (0 bytes)" in refusal(io.BytesIO(), name="upload")


@pytest.mark.parametrize(
    "suffix",
    [
        "wav",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("flac", "ogg", "mp3")
        ),
    ],
)
def test_truncated_header(
    tmp_path: Path, suffix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = write(tmp_path / f"whole.{suffix}", tone(16_000)).read_bytes()
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(whole[:20])
    assert "is not readable audio" in refusal(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "start",
    [
        b"just words ",
        b"\xff\xfb\x90\x00",
        pytest.param(b"ID3\x04\x00\x00", marks=pytest.mark.slow),
        pytest.param(b"\0", marks=pytest.mark.slow),
    ],
)
def test_not_audio(
    tmp_path: Path, start: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.bin"
    noise = np.random.default_rng(2).integers(0, 128, 100_000, dtype=np.uint8)
    path.write_bytes(start + noise.tobytes())
    assert "is not readable audio" in refusal(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("suffix", ["wav", "aiff"])
def test_no_samples(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", np.zeros(0), 44_100)
    assert "holds no samples" in refusal(path)


def test_no_samples_in_memory() -> None:
    assert "holds no samples" in refusal(np.zeros(0, dtype=np.float32))
    assert "(2, 5)" in refusal(np.zeros((2, 5), dtype=np.float32))
    assert "uint8" in refusal(np.zeros(5, dtype=np.uint8))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e20])
def test_samples_that_are_no_sound(tmp_path: Path, value: float) -> None:
    samples = np.stack([tone(8_000, 3.0), tone(8_000, 3.0)], axis=1)
    samples[20_000, 1] = value
    path = write(tmp_path / "a.wav", samples, 8_000, subtype="FLOAT")
    message = refusal(path)
    assert "at 2.500 s (channel 2)" in message
    assert "set such samples to zero" in message


def test_double_beyond_single_precision(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", np.array([0.0, 1e300]), subtype="DOUBLE")
    assert "value inf at 0.000 s" in refusal(path)


@pytest.mark.parametrize("rate_hz", [10, 999, 768_001, 2_000_000_000])
def test_absurd_rates(tmp_path: Path, rate_hz: int) -> None:
    path = write(tmp_path / "a.wav", np.zeros(100), rate_hz)
    assert f"1 channel(s) of {rate_hz} Hz" in refusal(path)


def test_absurd_channels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", np.zeros((10, 65)))
    assert "65 channel(s)" in refusal(path)


def test_header_may_be_silent_about_the_length(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", tone(16_000, 2.0))
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0  # STREAMINFO's 36 bits of total samples; 0 is unknown.
    content[22:26] = bytes(4)
    path.write_bytes(bytes(content))
    with open_audio(path) as stream:
        assert stream.duration_s is None
        assert sum(len(block) for block in stream.blocks(16_000)) == 32_000


@pytest.mark.parametrize("suffix", ["flac", "mp3"])
def test_half_a_file_gives_what_is_there_and_a_warning(
    tmp_path: Path,
    suffix: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    samples = noisy_speech(10.0)
    path = write(tmp_path / f"a.{suffix}", samples)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with caplog.at_level(logging.WARNING):
        audio = load_audio(path)
    assert 4.0 < len(audio) / 16_000 < 5.5
    assert similarity(audio, samples) > 0.8  # MP3 keeps 0.85 of such noise.
    assert f"breaks off after {len(audio) / 16_000:.1f} s of 10.0 s" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_whole_file_warns_of_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for suffix in ("wav", "flac", "ogg", "mp3"):
        load_audio(write(tmp_path / f"a.{suffix}", noisy_speech(2.0), 44_100))
    assert caplog.text == ""


def test_half_a_wav_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 10.0))
    path.write_bytes(path.read_bytes()[: 44 + 2 * 80_000])
    assert len(load_audio(path)) == 80_000
    assert "a.wav breaks off after 5.0 s of 10.0 s (truncated)" in caplog.text


def test_mp3_noise_is_kept_from_the_user_and_other_lines_are_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.mp3", noisy_speech(10.0))
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 5_000] = bytes(range(250)) * 20
    path.write_bytes(bytes(content))
    with pytest.raises(soundfile.SoundFileError):
        soundfile.read(path)
    assert "mpg123" in capfd.readouterr().err  # Else the next line would prove nothing.
    load_audio(path)
    os.write(2, b"still open\n")
    assert capfd.readouterr() == ("", "still open\n")


def test_media_extra_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "av.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x18ftypM4A " + bytes(100))
    message = refusal(tmp_path / "a.m4a")
    assert install_command("media") in message
    assert "WAV, FLAC, OGG or MP3" in message


THREE_HOURS = """
import resource, sys
from pathlib import Path
from whisper_hailo.audio import open_audio
with open_audio(Path(sys.argv[1])) as stream:
    blocks = stream.blocks(160_000)
    next(blocks)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n_samples = 160_000 + sum(len(block) for block in blocks)
print(stream.duration_s, n_samples, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_three_hours_take_no_more_memory_than_ten_seconds(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 1, 8_000, 0, "NONE", ""))
        for _ in range(180):
            file.writeframesraw(bytes([128]) * 480_000)
    command = [sys.executable, "-c", THREE_HOURS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    duration_s, n_samples, grown_kib = done.stdout.split()
    assert float(duration_s) == 10_800.0
    assert int(n_samples) == 172_800_000  # 659 MiB of float32, had it been kept.
    assert int(grown_kib) < 16 * 1024


def test_importing_audio_loads_no_codec() -> None:
    code = (
        "import sys, whisper_hailo.audio; "
        "print(*{'soundfile', 'soxr', 'av'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
