import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.unit.sounds import noisy_speech, similarity, tone, write
from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.core.errors import AudioError

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    ("suffix", "kwargs", "closeness"),
    [
        ("wav", {"subtype": "PCM_16"}, 0.999999),
        ("wav", {"subtype": "PCM_24"}, 0.999999),
        ("wav", {"subtype": "PCM_U8"}, 0.999),
        ("wav", {"subtype": "FLOAT"}, 0.999999),
        ("wav", {"subtype": "DOUBLE"}, 0.999999),
        ("flac", {"subtype": "PCM_24"}, 0.999999),
        ("ogg", {"format": "OGG", "subtype": "VORBIS"}, 0.99),
        ("ogg", {"format": "OGG", "subtype": "OPUS"}, 0.99),
        ("mp3", {"format": "MP3", "subtype": "MPEG_LAYER_III"}, 0.99),
    ],
)
def test_formats(tmp_path: Path, suffix: str, kwargs: dict[str, str], closeness: float) -> None:
    path = write(tmp_path / f"a.{suffix}", tone(16_000), **kwargs)
    audio = load_audio(path)
    assert audio.dtype == np.float32
    assert audio.shape == (16_000,)
    assert similarity(audio, tone(16_000)) > closeness


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000])
def test_rates(tmp_path: Path, rate_hz: int) -> None:
    audio = load_audio(write(tmp_path / "a.wav", tone(rate_hz, 0.5), rate_hz, subtype="FLOAT"))
    assert abs(len(audio) - 8_000) <= 1
    middle = slice(1_000, 7_000)  # The resampler's filter rings at both ends.
    assert np.abs(audio[middle] - tone(16_000, 0.5)[middle]).max() < 1e-3


def test_resampling_keeps_what_is_too_high_out(tmp_path: Path) -> None:
    audio = load_audio(write(tmp_path / "a.wav", tone(48_000, 0.5, hz=12_000.0), 48_000))
    assert np.abs(audio[1_000:7_000]).max() < 1e-3


@pytest.mark.parametrize("n_channels", [1, 2, 6, 64])
def test_channels_are_averaged(tmp_path: Path, n_channels: int) -> None:
    levels = np.arange(1, n_channels + 1) / n_channels
    samples = tone(16_000, 0.1)[:, None] * levels
    audio = load_audio(write(tmp_path / "a.wav", samples, subtype="FLOAT"))
    np.testing.assert_allclose(audio, tone(16_000, 0.1) * levels.mean(), atol=1e-6)


def test_blocks_are_full_but_for_the_last_and_their_own(tmp_path: Path) -> None:
    samples = np.random.default_rng(1).uniform(-1, 1, 20_001).astype(np.float32)
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    with open_audio(path) as stream:
        assert stream.duration_s == 20_001 / 16_000
        assert stream.name == str(path)
        blocks = list(stream.blocks(5_000))
    assert [len(block) for block in blocks] == [5_000] * 4 + [1]
    np.testing.assert_array_equal(np.concatenate(blocks), samples)


def test_no_empty_block_at_the_end(tmp_path: Path) -> None:
    with open_audio(write(tmp_path / "a.wav", tone(16_000))) as stream:
        assert [len(block) for block in stream.blocks(8_000)] == [8_000, 8_000]


def test_block_size_does_not_change_the_samples(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", tone(44_100, 1.3), 44_100)
    with open_audio(path) as stream:
        np.testing.assert_array_equal(np.concatenate(list(stream.blocks(777))), load_audio(path))


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_streaming_loses_and_doubles_nothing(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", noisy_speech(5.0))
    whole, _ = soundfile.read(path, dtype="float32")
    # Nothing is exact in MP3: decoding in pieces rounds differently.
    np.testing.assert_allclose(load_audio(path), whole, atol=1e-5)


def test_speech_of_the_repository() -> None:
    audio = load_audio(DATA / "jfk.flac")
    assert audio.shape == (176_000,)
    assert 0.05 < audio.std() < 0.2


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 192_000])
@pytest.mark.parametrize("n_samples", [1, 2, 13])
def test_shortest_files_come_back(tmp_path: Path, rate_hz: int, n_samples: int) -> None:
    audio = load_audio(write(tmp_path / "a.wav", np.full(n_samples, 0.25), rate_hz))
    assert abs(len(audio) - max(1, n_samples * 16_000 / rate_hz)) <= 1
    assert np.isfinite(audio).all()
    if rate_hz == 16_000 or n_samples == 1 < rate_hz / 16_000:
        np.testing.assert_array_equal(audio, np.float32(0.25))


def test_float_samples_beyond_one_are_kept(tmp_path: Path) -> None:
    loud = 5.0 * tone(16_000, 0.1)
    audio = load_audio(write(tmp_path / "a.wav", loud, subtype="FLOAT"))
    np.testing.assert_allclose(audio, loud, rtol=1e-6)


def test_binary_files_and_samples_are_sources(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", tone(16_000))
    expected = load_audio(path)
    memory = io.BytesIO(path.read_bytes())
    memory.read(100)  # It is read from its start all the same.
    with open_audio(memory, name="upload") as stream:
        assert stream.name == "upload"
        np.testing.assert_array_equal(next(stream.blocks(99_999)), expected)
    assert not memory.closed
    with path.open("rb") as file:
        file.read(10)
        np.testing.assert_array_equal(load_audio(file), expected)
    np.testing.assert_array_equal(load_audio(str(path)), expected)
    np.testing.assert_array_equal(load_audio(expected), expected)


def test_a_pipe_is_a_source(tmp_path: Path) -> None:
    content = write(tmp_path / "a.wav", tone(16_000, 3.0)).read_bytes()
    reading, writing = os.pipe()

    def feed() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(content)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with os.fdopen(reading, "rb") as pipe:
        assert len(load_audio(pipe)) == 48_000
    feeder.join()


def test_an_extension_is_not_believed(tmp_path: Path) -> None:
    for name in ("a.raw", "a.mp3", "a"):
        path = tmp_path / name
        path.write_bytes(write(tmp_path / "b.flac", tone(16_000)).read_bytes())
        assert len(load_audio(path)) == 16_000


def test_a_stream_is_read_once(tmp_path: Path) -> None:
    with open_audio(write(tmp_path / "a.wav", tone(16_000))) as stream:
        list(stream.blocks(16_000))
        with pytest.raises(AudioError, match="was read already; open it again"):
            next(stream.blocks(16_000))
