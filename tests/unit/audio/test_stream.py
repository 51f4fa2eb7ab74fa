"""Streams of samples: mixed, resampled, split by channel and merged again."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import threading
import wave
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from tests.fakes.sounds import noisy_speech, refusal, similarity, tone, write
from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.audio.readers import AudioReader, BrokenOffError
from whisper_hailo.audio.stream import (
    AudioStream,
    ChannelOf,
    Resampler,
    Samples,
    merge_channels,
    split_channels,
)
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.types import FloatArray, Segment, Settings, Timings, Transcript


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
def test_load_audio_format_gives_16_khz_mono(
    tmp_path: Path, suffix: str, kwargs: dict[str, str], closeness: float
) -> None:
    path = write(tmp_path / f"a.{suffix}", tone(16_000), **kwargs)
    audio = load_audio(path)
    assert audio.dtype == np.float32
    assert audio.shape == (16_000,)
    assert similarity(audio, tone(16_000)) > closeness


@pytest.mark.parametrize(
    "rate_hz", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000]
)
def test_load_audio_rate_is_resampled(tmp_path: Path, rate_hz: int) -> None:
    audio = load_audio(
        write(tmp_path / "a.wav", tone(rate_hz, 0.5), rate_hz, subtype="FLOAT")
    )
    assert abs(len(audio) - 8_000) <= 1
    middle = slice(1_000, 7_000)  # The resampler's filter rings at both ends.
    assert np.abs(audio[middle] - tone(16_000, 0.5)[middle]).max() < 1e-3


def test_load_audio_resampling_removes_aliases(tmp_path: Path) -> None:
    audio = load_audio(
        write(tmp_path / "a.wav", tone(48_000, 0.5, hz=12_000.0), 48_000)
    )
    assert np.abs(audio[1_000:7_000]).max() < 1e-3


@pytest.mark.parametrize("n_channels", [1, 2, 6, 64])
def test_load_audio_channels_are_averaged(tmp_path: Path, n_channels: int) -> None:
    levels = np.arange(1, n_channels + 1) / n_channels
    samples = tone(16_000, 0.1)[:, None] * levels
    audio = load_audio(write(tmp_path / "a.wav", samples, subtype="FLOAT"))
    np.testing.assert_allclose(audio, tone(16_000, 0.1) * levels.mean(), atol=1e-6)


def test_blocks_are_full_except_the_last(tmp_path: Path) -> None:
    samples = np.random.default_rng(1).uniform(-1, 1, 20_001).astype(np.float32)
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    with open_audio(path) as stream:
        assert stream.duration_s == 20_001 / 16_000
        assert stream.name == str(path)
        blocks = list(stream.blocks(5_000))
    assert [len(block) for block in blocks] == [5_000] * 4 + [1]
    np.testing.assert_array_equal(np.concatenate(blocks), samples)


def test_blocks_end_without_empty_block(tmp_path: Path) -> None:
    with open_audio(write(tmp_path / "a.wav", tone(16_000))) as stream:
        assert [len(block) for block in stream.blocks(8_000)] == [8_000, 8_000]


def test_blocks_of_other_size_give_same_samples(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", tone(44_100, 1.3), 44_100)
    with open_audio(path) as stream:
        np.testing.assert_array_equal(
            np.concatenate(list(stream.blocks(777))), load_audio(path)
        )


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_load_audio_matches_decoding_at_once(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", noisy_speech(5.0))
    whole, _ = soundfile.read(path, dtype="float32")
    # Nothing is exact in MP3: decoding in pieces rounds differently.
    np.testing.assert_allclose(load_audio(path), whole, atol=1e-5)


def test_load_audio_of_jfk_has_speech_level() -> None:
    audio = load_audio(ASSETS / "jfk.flac")
    assert audio.shape == (176_000,)
    assert 0.05 < audio.std() < 0.2


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 192_000])
@pytest.mark.parametrize("n_samples", [1, 2, 13])
def test_load_audio_shortest_file_is_read(
    tmp_path: Path, rate_hz: int, n_samples: int
) -> None:
    audio = load_audio(write(tmp_path / "a.wav", np.full(n_samples, 0.25), rate_hz))
    assert abs(len(audio) - max(1, n_samples * 16_000 / rate_hz)) <= 1
    assert np.isfinite(audio).all()
    if rate_hz == 16_000 or n_samples == 1 < rate_hz / 16_000:
        np.testing.assert_array_equal(audio, np.float32(0.25))


def test_load_audio_float_beyond_one_is_kept(tmp_path: Path) -> None:
    loud = 5.0 * tone(16_000, 0.1)
    audio = load_audio(write(tmp_path / "a.wav", loud, subtype="FLOAT"))
    np.testing.assert_allclose(audio, loud, rtol=1e-6)


def test_load_audio_accepts_files_and_arrays(tmp_path: Path) -> None:
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


def test_load_audio_accepts_anonymous_pipe(tmp_path: Path) -> None:
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


def test_load_audio_ignores_extension(tmp_path: Path) -> None:
    for name in ("a.raw", "a.mp3", "a"):
        path = tmp_path / name
        path.write_bytes(write(tmp_path / "b.flac", tone(16_000)).read_bytes())
        assert len(load_audio(path)) == 16_000


def test_blocks_second_call_is_refused(tmp_path: Path) -> None:
    with open_audio(write(tmp_path / "a.wav", tone(16_000))) as stream:
        list(stream.blocks(16_000))
        with pytest.raises(AudioError, match=r"a\.wav"):
            next(stream.blocks(16_000))


def decoded(*blocks: FloatArray, broken: str = "", **kwargs: Any) -> AudioReader:
    """Return a reader of these blocks, which breaks off for a reason if one is given."""

    def all_blocks() -> Iterator[FloatArray]:
        yield from blocks
        if broken:
            raise BrokenOffError(broken)

    header = {"sample_rate_hz": 16_000, "n_channels": 1, "n_frames": None, **kwargs}
    return AudioReader(**header, blocks=all_blocks())


def stream(*blocks: FloatArray, **kwargs: Any) -> AudioStream:
    return AudioStream(decoded(*blocks, **kwargs), "a.wav", ExitStack())


def mono_of(*blocks: FloatArray, **kwargs: Any) -> FloatArray:
    return np.concatenate(list(stream(*blocks, **kwargs).blocks(1_000)))


def refused(*blocks: FloatArray, **kwargs: Any) -> str:
    with pytest.raises(AudioError) as caught:
        mono_of(*blocks, **kwargs)
    return str(caught.value)


def zeros(n_frames: int, n_channels: int = 1) -> FloatArray:
    return np.zeros((n_frames, n_channels), np.float32)


@pytest.mark.parametrize("rate_hz", [1_000, 768_000])
def test_blocks_lowest_and_highest_rate_are_resampled(rate_hz: int) -> None:
    assert abs(mono_of(zeros(rate_hz // 10), sample_rate_hz=rate_hz).size - 1_600) <= 16


@pytest.mark.parametrize("rate_hz", [-1, 0, 999, 768_001])
def test_blocks_impossible_rate_is_refused(rate_hz: int) -> None:
    message = refused(zeros(10), sample_rate_hz=rate_hz, n_frames=10)
    assert f"{rate_hz} Hz" in message


def test_blocks_more_than_64_channels_are_refused() -> None:
    assert mono_of(zeros(10, 64), n_channels=64).size == 10
    for n_channels in (0, 65):
        assert f" {n_channels} channel" in refused(n_channels=n_channels)


def test_blocks_samples_beyond_32_bits_are_refused() -> None:
    """Scale of programs that leave integers in float files."""
    block = zeros(8, 2)
    louder = np.nextafter(np.float32(2.0**31), np.float32(np.inf))
    block[3] = [2.0**31, -(2.0**31)]
    # They cancel: the first one is taken.
    expected = np.where(np.arange(8) == 3, 2.0**31, 0.0)
    np.testing.assert_array_equal(mono_of(block, n_channels=2), expected)
    for value in (louder, -louder, np.float32(np.nan)):
        block[5] = [2.0**31, value]
        block[6:] = np.inf
        message = refused(zeros(8_000, 2), block, n_channels=2, sample_rate_hz=8_000)
        assert re.search(
            rf"a\.wav .*{re.escape(f'{value}')}.*1\.001 s.*channel 2", message
        )


@pytest.mark.parametrize(
    ("n_frames", "n_promised", "broken", "data"),
    [
        (8_000, 16_000, "", []),  # half a second is an estimate's error
        (7_999, 16_000, "", ["0.5 s", "1.0 s"]),
        (
            15_999,
            16_000,
            "no plane",
            ["1.0 s", "no plane"],
        ),
        (
            16_000,
            None,
            "no plane",
            ["1.0 s", "no plane"],
        ),
        (20_000, 16_000, "", []),
        (16_000, None, "", []),
    ],
)
def test_blocks_broken_off_file_is_used_with_warning(
    caplog: pytest.LogCaptureFixture,
    n_frames: int,
    n_promised: int | None,
    broken: str,
    data: list[str],
) -> None:
    with caplog.at_level(logging.WARNING):
        assert (
            mono_of(zeros(n_frames), n_frames=n_promised, broken=broken).size
            == n_frames
        )
    assert len(caplog.messages) == bool(data)
    assert all(datum in caplog.text for datum in data)


def test_blocks_single_sample_before_break_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert mono_of(zeros(1), broken="no plane").size == 1
    assert "no plane" in caplog.text


def test_blocks_undecodable_file_is_refused_with_reason() -> None:
    assert "no plane" in refused(broken="no plane")
    assert "samples" in refused()


def test_blocks_shorter_than_a_sample_give_one() -> None:
    """Five at 768 kHz last a tenth of one."""
    np.testing.assert_array_equal(
        mono_of(np.full((5, 1), 0.25), sample_rate_hz=768_000), [0.25]
    )
    np.testing.assert_array_equal(mono_of(np.full((1, 1), 0.25)), [0.25])


@pytest.mark.parametrize("rate_hz", [8_000, 44_100])
def test_blocks_resampling_is_seamless(rate_hz: int) -> None:
    sound = tone(rate_hz, 0.5).astype(np.float32)[:, None]
    whole = mono_of(sound, sample_rate_hz=rate_hz)
    cut = mono_of(*np.array_split(sound, 7), sample_rate_hz=rate_hz)
    np.testing.assert_allclose(cut, whole, atol=1e-6)
    np.testing.assert_allclose(
        whole[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=1e-4
    )


@pytest.mark.parametrize("n_channels", [1, 2, 8])
def test_channel_of_missing_channel_is_refused(tmp_path: Path, n_channels: int) -> None:
    samples = (
        np.random.default_rng(1)
        .uniform(-0.5, 0.5, (100, n_channels))
        .astype(np.float32)
    )
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    np.testing.assert_array_equal(
        load_audio(ChannelOf(path, n_channels - 1)), samples[:, n_channels - 1]
    )
    assert f"channel {n_channels + 1} " in refusal(ChannelOf(path, n_channels))


class Named(io.BytesIO):
    """An open file with a name, or with a number where it has none."""

    def __init__(self, content: bytes, name: object) -> None:
        super().__init__(content)
        self.name = name


def test_open_audio_name_follows_source(tmp_path: Path) -> None:
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


def test_open_audio_samples_of_other_rate_are_resampled() -> None:
    with open_audio(Samples(tone(8_000, 0.5).astype(np.float32), 8_000)) as opened:
        assert opened.duration_s == 0.5
        sound = np.concatenate(list(opened.blocks(16_000)))
    assert sound.size == 8_000
    np.testing.assert_allclose(
        sound[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=1e-4
    )


@pytest.mark.parametrize("source", [None, 3, ["a.wav"], b"RIFF"])
def test_open_audio_other_type_is_refused(source: Any) -> None:
    assert f" {type(source).__name__}," in refusal(source)


def resampled(audio: FloatArray, rate_hz: int, n_piece: int) -> FloatArray:
    resampler = Resampler(rate_hz)
    pieces = [
        resampler.push(audio[at : at + n_piece]) for at in range(0, audio.size, n_piece)
    ]
    return np.concatenate([*pieces, resampler.finish()])


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("n_piece", [1_000, 4_801])
def test_resampler_pieces_give_one_sound(rate_hz: int, n_piece: int) -> None:
    samples = resampled(tone(rate_hz, 0.5).astype(np.float32), rate_hz, n_piece)
    assert samples.dtype == np.float32
    assert abs(samples.size - 8_000) <= 1
    np.testing.assert_allclose(
        samples[1_000:7_000], tone(16_000, 0.5)[1_000:7_000], atol=1e-4
    )


def test_resampler_matches_soxr_high_quality() -> None:
    """Beyond 16 bits, which its default does not promise in all versions."""
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 24_000).astype(np.float32)
    wanted = soxr.resample(noise, 48_000, 16_000, quality="HQ")
    np.testing.assert_allclose(resampled(noise, 48_000, 5_000), wanted, atol=1e-6)


def test_resampler_at_16_khz_returns_its_input() -> None:
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 1_000).astype(np.float32)
    resampler = Resampler(16_000)
    assert resampler.push(noise) is noise
    assert resampler.finish().shape == (0,)


@pytest.mark.parametrize("rate_hz", [1_000, 768_000])
def test_resampler_takes_lowest_and_highest_rate(rate_hz: int) -> None:
    samples = resampled(
        tone(rate_hz, 0.1, hz=100.0).astype(np.float32), rate_hz, 10_000
    )
    assert abs(samples.size - 1_600) <= 16


@pytest.mark.parametrize("rate_hz", [-1, 0, 999, 768_001])
def test_resampler_impossible_rate_is_refused(rate_hz: int) -> None:
    with pytest.raises(OptionError, match=f"--rate .*{rate_hz}"):
        Resampler(rate_hz)


SETTINGS = Settings("toy", "none", "none", 30.0, 0.0, 0, 1.0, 0.0, "none", 1)


def segment_of(start_s: float, end_s: float, text: str) -> Segment:
    return Segment(start_s, end_s, text, (), -0.1, 0.0)


def transcript(
    *segments: Segment, duration_s: float = 9.0, ms: float = 5.0
) -> Transcript:
    return Transcript(
        audio="call.wav",
        duration_s=duration_s,
        language="en",
        task="transcribe",
        segments=segments,
        timings=Timings(load_ms=100.0, decode_ms=ms, total_ms=2 * ms),
        settings=SETTINGS,
    )


def test_merge_channels_orders_segments_by_time() -> None:
    caller = transcript(
        segment_of(0.0, 1.0, "hello"), segment_of(4.0, 5.0, "fine"), duration_s=5.0
    )
    callee = transcript(
        segment_of(2.0, 3.0, "how are you"),
        segment_of(4.0, 4.5, "ah"),
        duration_s=9.5,
        ms=7.0,
    )
    both = merge_channels([caller, callee])
    assert [(segment.text, segment.speaker) for segment in both.segments] == [
        ("hello", 0),
        ("how are you", 1),
        ("ah", 1),  # begins with the other, ends before it
        ("fine", 0),
    ]
    assert both.duration_s == 9.5
    assert (both.timings.decode_ms, both.timings.total_ms) == (12.0, 24.0)
    assert both.timings.load_ms == 100.0  # one model, loaded once


def test_merge_channels_orders_overlaps_by_start() -> None:
    caller = transcript(
        segment_of(1.0, 8.0, "once upon a time"), segment_of(8.5, 9.0, "the end")
    )
    callee = transcript(segment_of(0.5, 0.7, "go on"), segment_of(3.0, 3.2, "mhm"))
    both = merge_channels([caller, callee])
    assert [segment.text for segment in both.segments] == [
        "go on",
        "once upon a time",
        "mhm",
        "the end",
    ]


def test_merge_channels_accepts_three_channels() -> None:
    parts = [
        transcript(segment_of(at, at + 1.0, "a"), duration_s=at + 1, ms=at)
        for at in (1.0, 2.0, 4.0)
    ]
    whole = merge_channels(parts)
    assert [(segment.start_s, segment.speaker) for segment in whole.segments] == [
        (1.0, 0),
        (2.0, 1),
        (4.0, 2),
    ]
    assert whole.duration_s == 5.0
    assert (whole.timings.decode_ms, whole.timings.total_ms) == (7.0, 14.0)


def test_merge_channels_takes_metadata_of_first_channel() -> None:
    first = transcript(segment_of(1.0, 2.0, "ja"))
    second = replace(first, language="de", timings=Timings(load_ms=3.0, mel_ms=1.0))
    both = merge_channels([first, second])
    assert (both.audio, both.language, both.settings) == ("call.wav", "en", SETTINGS)
    assert both.timings == Timings(
        load_ms=100.0, mel_ms=1.0, decode_ms=5.0, total_ms=10.0
    )
    alone = merge_channels([first])
    assert alone == replace(first, segments=(replace(first.segments[0], speaker=0),))


def test_split_channels_gives_samples_of_each_channel() -> None:
    class Named(io.BytesIO):
        name = ""

    sounds = [np.full(1600, level, np.float32) for level in (0.25, -0.5, 0.125)]
    file = Named()
    soundfile.write(
        file, np.stack(sounds, axis=1), 16_000, format="WAV", subtype="FLOAT"
    )
    file.seek(0)
    file.name = "<stdin>"
    with split_channels(file) as channels:
        assert [(channel.channel, channel.name) for channel in channels] == [
            (n, "stdin") for n in range(3)
        ]
        samples = []
        for channel in channels:
            with open_audio(channel) as stream:
                samples.append(np.concatenate(list(stream.blocks(1600))))
    assert [sound.tolist() for sound in samples] == [
        expected.tolist() for expected in sounds
    ]


def test_split_channels_of_mono_is_refused() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(1600, np.float32), 16_000, format="WAV")
    file.seek(0)
    with (
        pytest.raises(AudioError, match="--channels"),
        split_channels(file),
    ):
        pass


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e20])
def test_load_audio_nan_or_infinite_is_refused(tmp_path: Path, value: float) -> None:
    samples = np.stack([tone(8_000, 3.0), tone(8_000, 3.0)], axis=1)
    samples[20_000, 1] = value
    path = write(tmp_path / "a.wav", samples, 8_000, subtype="FLOAT")
    message = refusal(path)
    assert re.search(r"2\.500 s.*channel 2", message)


def test_load_audio_double_beyond_float32_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", np.array([0.0, 1e300]), subtype="DOUBLE")
    assert "inf" in refusal(path)


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
def test_blocks_of_three_hours_need_constant_memory(tmp_path: Path) -> None:
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
