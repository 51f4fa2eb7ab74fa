"""Readers: chosen by the first bytes, in this process or another, without output."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
import soundfile

from tests.fakes.sounds import noisy_speech, refusal, similarity, tone, write
from whisper_hailo.audio import load_audio, open_audio, readers
from whisper_hailo.audio.files import open_file
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
def soundfile_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Position of each file passed to libsndfile, and whether its output was muted."""
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
def test_open_reader_chooses_by_first_bytes(
    soundfile_calls: list[tuple[int, bool]],
    starts: list[bytes],
    calls: list[tuple[int, bool]],
    tmp_path: Path,
) -> None:
    """A file that libsndfile cannot open goes to the other process, too, from its start."""
    path = tmp_path / "a"
    for start in starts:
        soundfile_calls.clear()
        path.write_bytes(start.ljust(12, b"*") + b"what follows")
        with path.open("rb") as file, ExitStack() as resources:
            opened = readers.open_reader(file, "a", resources)
        assert cast(Any, opened) == (0, "a")
        assert soundfile_calls == calls, start


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
def test_open_reader_plain_format_starts_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, kwargs: dict[str, str]
) -> None:
    path = write(tmp_path / f"a.{suffix}", tone(16_000, 0.5), **kwargs)
    monkeypatch.setattr(readers, "open_foreign", None)
    for source in (path, io.BytesIO(path.read_bytes())):
        samples = load_audio(source)
        assert samples.shape == (8_000,)
        np.testing.assert_allclose(
            samples[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=0.05
        )


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("suffix", ["wav", "mp3"])
def test_load_audio_closes_only_its_own_files(tmp_path: Path, suffix: str) -> None:
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


def test_open_reader_close_keeps_file_open(tmp_path: Path) -> None:
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
def test_load_audio_broken_file_gives_samples_in_place(
    tmp_path: Path, suffix: str, cut: float
) -> None:
    path = write(tmp_path / f"a.{suffix}", noisy_speech(2.0))
    whole = load_audio(path)
    content = path.read_bytes()
    path.write_bytes(content[: round(cut * len(content))])
    samples = load_audio(path)
    assert cut - 0.3 < samples.size / whole.size <= cut + 0.1
    n_sure = samples.size - 4_096
    np.testing.assert_allclose(samples[:n_sure], whole[:n_sure], atol=1e-4)


def test_load_audio_single_sample_in_last_block_is_read(tmp_path: Path) -> None:
    samples = (
        np.random.default_rng(1)
        .uniform(-0.5, 0.5, (2 * 8_192 + 1, 1))
        .astype(np.float32)
    )
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    np.testing.assert_array_equal(load_audio(path), samples[:, 0])
    path = write(tmp_path / "one.wav", samples[:1], subtype="FLOAT")
    np.testing.assert_array_equal(load_audio(path), samples[0])


def test_mute_mpg123_passes_other_output_on(
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


def test_load_audio_mp3_without_stderr_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.mp3", tone(16_000))

    def closed(_: int) -> int:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(os, "dup", closed)
    assert len(load_audio(path)) == 16_000


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_open_samples_floats_are_unchanged(kind: type[np.floating[Any]]) -> None:
    samples = np.random.default_rng(2).uniform(-1, 1, 20_000).astype(kind)
    with open_audio(samples) as stream:
        assert (stream.n_channels, stream.duration_s, stream.name) == (1, 1.25, "array")
        heard = np.concatenate(list(stream.blocks(1_000)))
    np.testing.assert_array_equal(heard, samples.astype(np.float32))


def test_open_samples_float32_is_not_copied() -> None:
    samples = np.zeros(20_000, np.float32)
    blocks = list(readers.open_samples(samples, "a", RATE_HZ).blocks)
    assert [block.shape for block in blocks] == [(8_192, 1), (8_192, 1), (3_616, 1)]
    assert all(np.shares_memory(block, samples) for block in blocks)


def test_open_samples_other_shape_or_dtype_is_refused() -> None:
    for samples in (
        np.zeros((), np.float32),
        np.zeros((5, 1, 1), np.float32),
        np.zeros(5, np.uint8),
        np.zeros(5, np.complex64),
    ):
        message = refusal(samples)
        assert str(samples.shape) in message
        assert str(samples.dtype) in message
    assert "audio.T" in refusal(np.zeros((2, 5), np.float32))


@pytest.mark.parametrize("kind", [np.int16, np.int32])
def test_open_samples_integers_are_scaled_by_type(
    kind: type[np.signedinteger[Any]],
) -> None:
    limits = np.iinfo(kind)
    samples = np.array([limits.min, 0, limits.max], kind)
    with open_audio(samples) as stream:
        (heard,) = stream.blocks(9)
    np.testing.assert_allclose(heard, [-1, 0, 1], atol=2.0**-15)


def test_open_samples_channels_are_mixed() -> None:
    left = np.linspace(-0.5, 0.5, 20_000, dtype=np.float32)
    with open_audio(np.stack([left, left / 2], axis=1)) as stream:
        assert (stream.n_channels, stream.duration_s) == (2, 1.25)
        samples = np.concatenate(list(stream.blocks(1_000)))
    np.testing.assert_allclose(samples, left * 0.75, atol=1e-6)


RATE_HZ = 16_000


DATA = Path(__file__).parents[2] / "data"


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
def test_load_audio_truncated_header_is_refused(
    tmp_path: Path, suffix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = write(tmp_path / f"whole.{suffix}", tone(16_000)).read_bytes()
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(whole[:20])
    assert "readable" in refusal(path)
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
def test_load_audio_noise_is_refused_quietly(
    tmp_path: Path, start: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.bin"
    noise = np.random.default_rng(2).integers(0, 128, 100_000, dtype=np.uint8)
    path.write_bytes(start + noise.tobytes())
    assert "readable" in refusal(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("suffix", ["wav", "aiff"])
def test_load_audio_without_samples_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", np.zeros(0), 44_100)
    assert "samples" in refusal(path)


def test_open_reader_flac_without_length_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", tone(16_000, 2.0))
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0  # STREAMINFO's 36 bits of total samples; 0 is unknown.
    content[22:26] = bytes(4)
    path.write_bytes(bytes(content))
    with open_audio(path) as stream:
        assert stream.duration_s is None
        assert sum(len(block) for block in stream.blocks(16_000)) == 32_000


@pytest.mark.parametrize("suffix", ["flac", "mp3"])
def test_load_audio_half_a_file_warns(
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
    assert re.search(rf"{len(audio) / 16_000:.1f} s.*10\.0 s", caplog.text)
    assert capfd.readouterr() == ("", "")


def test_load_audio_whole_file_warns_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for suffix in ("wav", "flac", "ogg", "mp3"):
        load_audio(write(tmp_path / f"a.{suffix}", noisy_speech(2.0), 44_100))
    assert caplog.text == ""


def test_load_audio_mpg123_output_is_muted(
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


def test_open_reader_without_media_extra_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "av.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x18ftypM4A " + bytes(100))
    message = refusal(tmp_path / "a.m4a")
    assert install_command("media") in message


def test_import_audio_loads_no_codec() -> None:
    code = (
        "import sys, whisper_hailo.audio; "
        "print(*{'soundfile', 'soxr', 'av'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
