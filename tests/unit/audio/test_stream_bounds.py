"""What a stream takes of a reader, at its bounds; the reader is a stand-in."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.sounds import refusal, tone, write
from whisper_hailo.audio import ChannelOf, Samples, load_audio, open_audio
from whisper_hailo.audio.foreign import BrokenOffError
from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import FloatArray


class Reader:
    """Blocks as they are, then perhaps a reason why there are no more."""

    def __init__(self, *blocks: FloatArray, broken: str = "", **kwargs: Any) -> None:
        self.sample_rate_hz = kwargs.get("rate_hz", 16_000)
        self.n_channels = kwargs.get("n_channels", 1)
        self.n_frames: int | None = kwargs.get("n_frames")
        self._blocks, self._broken = blocks, broken

    def blocks(self) -> Iterator[FloatArray]:
        yield from self._blocks
        if self._broken:
            raise BrokenOffError(self._broken)

    def close(self) -> None:
        """Nothing is open."""


def stream(*blocks: FloatArray, most_s: float | None = None, **kwargs: Any) -> AudioStream:
    return AudioStream(Reader(*blocks, **kwargs), "a.wav", ExitStack(), most_s)


def heard(*blocks: FloatArray, **kwargs: Any) -> FloatArray:
    return np.concatenate(list(stream(*blocks, **kwargs).blocks(1_000)))


def refused(*blocks: FloatArray, **kwargs: Any) -> str:
    with pytest.raises(AudioError) as caught:
        heard(*blocks, **kwargs)
    return str(caught.value)


def zeros(n_frames: int, n_channels: int = 1) -> FloatArray:
    return np.zeros((n_frames, n_channels), np.float32)


@pytest.mark.parametrize("rate_hz", [1_000, 768_000])
def test_the_lowest_and_the_highest_rate(rate_hz: int) -> None:
    assert abs(heard(zeros(rate_hz // 10), rate_hz=rate_hz).size - 1_600) <= 16


@pytest.mark.parametrize("rate_hz", [-1, 0, 999, 768_001])
def test_rates_that_no_sound_has(rate_hz: int) -> None:
    told = refused(zeros(10), rate_hz=rate_hz, n_frames=10)
    assert told.startswith(f"a.wav has a sample rate of {rate_hz} Hz, expected 1000 to 768000 Hz")


def test_the_most_channels_and_none() -> None:
    assert heard(zeros(10, 64), n_channels=64).size == 10
    for n_channels in (0, 65):
        told = refused(n_channels=n_channels)
        assert told.startswith(f"a.wav has {n_channels} channels, expected 1 to 64;")


def test_the_loudest_samples_are_32_bit_numbers() -> None:
    """Of programs that leave integers in float files."""
    block, louder = zeros(8, 2), np.nextafter(np.float32(2.0**31), np.float32(np.inf))
    block[3] = [2.0**31, -(2.0**31)]
    np.testing.assert_array_equal(heard(block, n_channels=2), np.zeros(8))
    for value in (louder, -louder, np.float32(np.nan)):
        block[5] = [2.0**31, value]
        block[6:] = np.inf
        told = refused(zeros(8_000, 2), block, n_channels=2, rate_hz=8_000)
        assert f"a.wav has a sample of value {value} at 1.001 s (channel 2), expected" in told


@pytest.mark.parametrize(
    ("n_frames", "n_said", "broken", "told"),
    [
        (8_000, 16_000, "", ""),  # half a second is an estimate's error
        (7_999, 16_000, "", "a.wav breaks off after 0.5 s of 1.0 s (truncated);"),
        (15_999, 16_000, "no plane", "a.wav breaks off after 1.0 s of 1.0 s (no plane);"),
        (16_000, None, "no plane", "a.wav breaks off after 1.0 s (no plane); what came before"),
        (20_000, 16_000, "", ""),
        (16_000, None, "", ""),
    ],
)
def test_what_breaks_off_is_used_and_told(
    caplog: pytest.LogCaptureFixture, n_frames: int, n_said: int | None, broken: str, told: str
) -> None:
    with caplog.at_level(logging.WARNING):
        assert heard(zeros(n_frames), n_frames=n_said, broken=broken).size == n_frames
    assert caplog.messages == [] if not told else caplog.messages[0].startswith(told)


def test_a_single_sample_before_a_break_is_used(caplog: pytest.LogCaptureFixture) -> None:
    assert heard(zeros(1), broken="no plane").size == 1
    assert "(no plane)" in caplog.text


def test_nothing_that_can_be_decoded_is_told_with_its_reason() -> None:
    assert "a.wav cannot be decoded (no plane), expected sound;" in refused(broken="no plane")
    assert "a.wav holds no samples, expected sound;" in refused()


@pytest.mark.parametrize("n_said", [None, 4_000])
def test_the_longest_that_is_asked_for_may_come(n_said: int | None) -> None:
    """What has no length in its header is refused when it comes."""
    assert heard(zeros(4_000), zeros(4_000), n_frames=n_said, most_s=0.5).size == 8_000
    told = refused(zeros(4_000), zeros(4_001), n_frames=n_said, most_s=0.5)
    assert told == "a.wav lasts 0.5 s or more, expected at most 0.5 s; split the file"


def test_what_is_too_long_by_its_header_is_not_read() -> None:
    with pytest.raises(AudioError, match=r"a\.wav lasts 1\.5 s or more, expected at most 1\.25 s;"):
        stream(n_frames=24_000, most_s=1.25)
    assert stream(n_frames=20_000, most_s=1.25).duration_s == 1.25
    assert stream(n_frames=0, most_s=0.0).duration_s == 0.0


def test_less_than_a_sample_of_ours_is_one() -> None:
    """Five at 768 kHz last a tenth of one."""
    np.testing.assert_array_equal(heard(np.full((5, 1), 0.25), rate_hz=768_000), [0.25])
    np.testing.assert_array_equal(heard(np.full((1, 1), 0.25)), [0.25])


@pytest.mark.parametrize("rate_hz", [8_000, 44_100])
def test_nothing_is_heard_of_where_a_block_ends(rate_hz: int) -> None:
    sound = tone(rate_hz, 0.5).astype(np.float32)[:, None]
    whole = heard(sound, rate_hz=rate_hz)
    cut = heard(*np.array_split(sound, 7), rate_hz=rate_hz)
    np.testing.assert_allclose(cut, whole, atol=1e-6)
    np.testing.assert_allclose(whole[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=1e-4)


@pytest.mark.parametrize("n_channels", [1, 2, 8])
def test_a_channel_that_there_is_not(tmp_path: Path, n_channels: int) -> None:
    samples = np.random.default_rng(1).uniform(-0.5, 0.5, (100, n_channels)).astype(np.float32)
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    np.testing.assert_array_equal(
        load_audio(ChannelOf(path, n_channels - 1)), samples[:, n_channels - 1]
    )
    told = refusal(ChannelOf(path, n_channels))
    assert f"has {n_channels} channel(s), channel {n_channels + 1} was asked for" in told


class Named(io.BytesIO):
    """An open file with a name, or with a number where it has none."""

    def __init__(self, content: bytes, name: object) -> None:
        super().__init__(content)
        self.name = name


def test_names_of_what_is_open(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(16_000))
    content = path.read_bytes()
    for source, given, name in (
        (path, None, str(path)),
        (path, "upload", "upload"),
        (Named(content, "talk.wav"), None, "talk.wav"),
        (Named(content, "<stdin>"), None, "stdin"),
        (Named(content, 12), None, "audio"),
        (io.BytesIO(content), None, "audio"),
        (Named(content, "talk.wav"), "upload", "upload"),
        (ChannelOf(path, 0), None, str(path)),
        (ChannelOf(path, 0, "left"), None, "left"),
        (ChannelOf(path, 0, "left"), "upload", "upload"),
        (np.zeros(10, np.float32), None, "array"),
        (np.zeros(10, np.float32), "call", "call"),
        (Samples(np.zeros(10, np.float32), 8_000), None, "array"),
    ):
        with open_audio(source, given) as opened:
            assert opened.name == name


def test_samples_of_another_rate_last_as_long() -> None:
    with open_audio(Samples(tone(8_000, 0.5).astype(np.float32), 8_000)) as opened:
        assert opened.duration_s == 0.5
        sound = np.concatenate(list(opened.blocks(16_000)))
    assert sound.size == 8_000
    np.testing.assert_allclose(sound[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=1e-4)


@pytest.mark.parametrize("source", [None, 3, ["a.wav"], b"RIFF"])
def test_what_is_no_source_is_told(source: Any) -> None:
    assert f"audio is a {type(source).__name__}, expected a path, an open" in refusal(source)
