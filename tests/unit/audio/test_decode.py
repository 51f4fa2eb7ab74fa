"""What the program of the decoder's process says of real files, run in this one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.audio.decoder import Decode, refused, sound
from tests.unit.sounds import tone, write

NOISE = np.random.default_rng(3).uniform(-0.5, 0.5, (1001, 8)).astype(np.float32)
"""Eight channels that differ; so many samples fill no frame of any format."""


def encoded(
    path: Path, codec: str, samples: NDArray[np.float32], layout: str, rate_hz: int = 16_000
) -> Path:
    """A file by FFmpeg."""
    av = pytest.importorskip("av", reason="needs the media extra")
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "twenty to ten"
        stream = container.add_stream(codec, rate=rate_hz, layout=layout)
        fit = av.AudioResampler(format=stream.format.name, layout=layout, rate=rate_hz)
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout=layout)
        frame.sample_rate, frame.pts = rate_hz, 0
        packets = [packet for f in fit.resample(frame) for packet in stream.encode(f)]
        container.mux(packets + stream.encode(None))
    return path


@pytest.mark.parametrize(
    ("name", "codec", "layout"),
    [
        ("a.mka", "pcm_s16le", "mono"),
        ("a.m4a", "alac", "mono"),
        ("a.m4a", "alac", "stereo"),
        ("a.mka", "pcm_s16le", "5.1"),
        ("a.mka", "flac", "7.1"),
        ("a.mka", "pcm_f32le", "7.1"),
    ],
)
def test_every_sample_of_every_channel_comes(
    tmp_path: Path, decoded: Decode, name: str, codec: str, layout: str
) -> None:
    av = pytest.importorskip("av", reason="needs the media extra")
    samples = NOISE[:, : len(av.AudioLayout(layout).channels)]
    path = encoded(tmp_path / name, codec, np.ascontiguousarray(samples), layout)
    header, heard = sound(decoded(path))
    assert header[:2] == [16_000, samples.shape[1]]
    assert header[2] == pytest.approx(1001, abs=16)  # some formats count milliseconds
    np.testing.assert_allclose(heard, samples, atol=1 / 32768)


@pytest.mark.parametrize("n_frames", [1, 1001, 8192, 20_000])
def test_what_ffmpeg_is_not_asked_to_open_comes_whole_from_libsndfile(
    tmp_path: Path, decoded: Decode, n_frames: int
) -> None:
    samples = np.random.default_rng(n_frames).uniform(-0.5, 0.5, (n_frames, 2))
    path = write(tmp_path / "a.sph", samples, 22_050, format="NIST", subtype="PCM_16")
    header, heard = sound(decoded(path))
    assert header == [22_050, 2, n_frames]
    np.testing.assert_allclose(heard, samples, atol=1 / 32768)


def test_without_ffmpeg_a_length_that_the_header_leaves_open_is_none(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(write(tmp_path / "a.flac", tone(16_000)).read_bytes())
    content[21] &= 0xF0  # STREAMINFO's 36 bits of total samples; 0 is unknown.
    content[22:26] = bytes(4)
    (tmp_path / "a.flac").write_bytes(content)
    monkeypatch.setitem(sys.modules, "av", None)
    header, heard = sound(decoded(tmp_path / "a.flac"))
    assert header == [16_000, 1, None]
    np.testing.assert_allclose(heard[:, 0], tone(16_000), atol=1 / 32768)


@pytest.mark.parametrize("orders", [(0, 1), (1, 0)])
def test_parts_of_other_channels_and_rates_come_as_the_first_ones(
    tmp_path: Path, decoded: Decode, orders: tuple[int, int]
) -> None:
    kinds = [("mono", 8_000), ("stereo", 16_000)]
    (layout, rate_hz), (other, other_hz) = (kinds[order] for order in orders)
    joined = b""
    for name, hz in ((layout, rate_hz), (other, other_hz)):
        n_channels = 1 + (name == "stereo")
        part = tone(hz, 0.5).astype(np.float32).repeat(n_channels)
        joined += encoded(tmp_path / "part.aac", "aac", part, name, hz).read_bytes()
    (tmp_path / "a.aac").write_bytes(joined)
    header, heard = sound(decoded(tmp_path / "a.aac"))
    assert header[:2] == [rate_hz, 1 + (layout == "stereo")]
    for second in (0.3, 0.9):  # a fifth of a second of each part, five Hz a bin
        part = heard[round(second * rate_hz) :][: rate_hz // 5]
        assert (np.abs(np.fft.rfft(part, axis=0)).argmax(axis=0) * 5 == 440).all()


def test_an_index_at_the_end_of_a_long_file_is_found(tmp_path: Path, decoded: Decode) -> None:
    samples = np.random.default_rng(9).uniform(-0.5, 0.5, (100_000, 1)).astype(np.float32)
    path = encoded(tmp_path / "a.m4a", "alac", samples, "mono")
    assert path.read_bytes().index(b"moov") > 128 << 10
    header, heard = sound(decoded(path))
    assert header == [16_000, 1, 100_000]
    np.testing.assert_allclose(heard, samples, atol=1 / 32768)


def test_a_list_of_files_opens_none_of_them(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    av = pytest.importorskip("av", reason="needs the media extra")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "secret.wav", tone(16_000))
    (tmp_path / "a").write_text("ffconcat version 1.0\nfile secret.wav\n")
    with (tmp_path / "a").open("rb") as file, av.open(file) as opened:
        assert opened.streams.audio  # else the next line would prove nothing
    assert "FFmpeg: " in refused(decoded(tmp_path / "a"))["why"]


def test_tags_that_are_no_text_change_nothing(tmp_path: Path, decoded: Decode) -> None:
    path = encoded(tmp_path / "a.mka", "pcm_f32le", NOISE[:, :1].copy(), "mono")
    broken = path.read_bytes().replace(b"twenty to ten", b"\xff\xfe\x80nty to ten")
    assert broken != path.read_bytes()
    path.write_bytes(broken)
    np.testing.assert_array_equal(sound(decoded(path))[1], NOISE[:, :1])


def test_a_refusal_has_the_short_words_of_both_libraries(tmp_path: Path, decoded: Decode) -> None:
    pytest.importorskip("av", reason="needs the media extra")
    (tmp_path / "a").write_text("hello " * 100)
    why = "FFmpeg: Invalid data found when processing input; libsndfile: Format not recognised"
    assert refused(decoded(tmp_path / "a")) == {"why": why, "lacks_ffmpeg": False}
