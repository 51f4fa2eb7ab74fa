"""Who reads what: by its first bytes, in this process or in another, and in silence."""

from __future__ import annotations

import io
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
import soundfile

from tests.unit.sounds import noisy_speech, refusal, tone, write
from whisper_hailo.audio import load_audio, open_audio, readers
from whisper_hailo.audio.files import open_file
from whisper_hailo.audio.foreign import BrokenOffError

MPEG = [b"ID3\x03", *(bytes([0xFF, second]) for second in range(0xE0, 0x100))]
PLAIN = [b"RIFF", b"RIFX", b"RF64", b"riff", b"fLaC", b"OggS", b".snd"]
FORMS = [b"FORM\x12\x34\x56\x78" + kind for kind in (b"AIFF", b"AIFC")]
OTHERS = [
    *(b"caff", b"\0\0\0\x18ftypM4A ", b"\x1aE\xdf\xa3", b"ID", b"ID4", b"\xff", b"\xff\xdf"),
    *(b"\xfe\xe0", b"\0\xff\xfb", b"FORM\x12\x34\x56\x788SVX", b"CAT \x12\x34\x56\x78AIFF"),
    *(b"FORMAIFF", b"FORM\x12\x34\x56\x78", b"12345678RIFF", b"rifx", b"\0fLaC", b"snd", b"zz"),
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
    monkeypatch.setattr(readers, "ForeignReader", lambda file, label: (file.tell(), label))
    return calls


@pytest.mark.parametrize(
    ("starts", "calls"),
    [(MPEG, [(0, True)]), (PLAIN + FORMS, [(0, False)]), (OTHERS, [])],
    ids=["MPEG", "plain", "others"],
)
def test_the_first_bytes_say_who_reads_a_file(
    asked: list[tuple[int, bool]], starts: list[bytes], calls: list[tuple[int, bool]]
) -> None:
    """What libsndfile cannot open goes to the other process too, from its start."""
    for start in starts:
        asked.clear()
        file = io.BytesIO(start.ljust(12, b"*") + b"what follows")
        assert cast(Any, readers.open_reader(file, "a")) == (0, "a")
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
    monkeypatch.setattr(readers, "ForeignReader", None)
    for source in (path, io.BytesIO(path.read_bytes())):
        heard = load_audio(source)
        assert heard.shape == (8_000,)
        np.testing.assert_allclose(heard[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=0.05)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("suffix", ["wav", "mp3"])
def test_what_was_opened_is_closed_and_what_is_the_callers_is_not(
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


def test_a_reader_that_is_closed_leaves_the_file_open(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 0.5))
    with ExitStack() as resources:
        file = open_file(path, "a", resources)
        for _ in range(2):
            file.seek(0)
            reader = readers.open_reader(file, "a")
            assert sum(len(block) for block in reader.blocks()) == 8_000
            reader.close()
            with pytest.raises(BrokenOffError, match="closed"):
                next(reader.blocks())


@pytest.mark.parametrize(("suffix", "cut"), [("flac", 0.5), ("flac", 0.9), ("mp3", 0.5)])
def test_a_broken_file_gives_each_sample_once_and_in_its_place(
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


def test_a_file_with_a_single_sample_in_a_last_block_has_it(tmp_path: Path) -> None:
    samples = np.random.default_rng(1).uniform(-0.5, 0.5, (2 * 8_192 + 1, 1)).astype(np.float32)
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    np.testing.assert_array_equal(load_audio(path), samples[:, 0])
    path = write(tmp_path / "one.wav", samples[:1], subtype="FLOAT")
    np.testing.assert_array_equal(load_audio(path), samples[0])


def test_what_others_print_while_an_mp3_file_is_read_is_passed_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = descriptors()
    with readers._without_mpg123_noise():
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


def test_a_program_without_a_standard_error_reads_mp3_files(
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
    blocks = list(readers.ArrayReader(samples, "a").blocks())
    assert [block.shape for block in blocks] == [(8_192, 1), (8_192, 1), (3_616, 1)]
    assert all(np.shares_memory(block, samples) for block in blocks)


def test_samples_of_other_shapes_and_kinds_are_refused() -> None:
    for samples in (np.zeros((), np.float32), np.zeros((5, 1), np.float32), np.zeros(5, np.int16)):
        assert f"array has shape {samples.shape} and dtype" in refusal(samples)
