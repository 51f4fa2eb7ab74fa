"""Media files: where sound lies beside the pictures, and how long it is."""

from __future__ import annotations

import logging
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import numpy as np
import pytest

from tests.unit.audio.decoder import Decode, Stand, sound
from tests.unit.sounds import tone
from whisper_hailo.audio import ChannelOf, load_audio, open_audio
from whisper_hailo.core.types import FloatArray

RATE_HZ = 48_000
FRAME = 1152
"""Samples that every codec here takes at once."""

FILMS = [
    ("a.mp4", "aac", "mpeg4"),
    ("a.mkv", "pcm_s16le", "mpeg4"),
    ("a.ts", "mp2", "mpeg2video"),
    pytest.param("a.webm", "libopus", "libvpx", marks=pytest.mark.slow),
    pytest.param("a.mpg", "mp2", "mpeg2video", marks=pytest.mark.slow),
    pytest.param("a.flv", "aac", "flv", marks=pytest.mark.slow),
]

Spans = list[tuple[float, float]]


def write_film(
    path: Path,
    codec: str,
    picture: str | None,
    tracks: list[Spans],
    pictures_s: float = 8.0,
    **options: str,
) -> Path:
    """Tracks of a tone, each in such seconds, beside pictures that begin at 0."""
    av = pytest.importorskip("av", reason="needs the media extra")
    with av.open(str(path), "w", options=options) as container:
        streams = [container.add_stream(codec, rate=RATE_HZ, layout="mono") for _ in tracks]
        packets = []
        if picture:
            video = container.add_stream(picture, rate=10, width=64, height=48, pix_fmt="yuv420p")
            for index in range(round(10 * pictures_s)):
                image = av.VideoFrame(64, 48, "yuv420p")
                for plane in image.planes:
                    plane.update(bytes(plane.buffer_size))
                image.pts, image.time_base = index, Fraction(1, 10)
                packets += video.encode(image)
            packets += video.encode(None)
        for stream, spans in zip(streams, tracks, strict=True):
            for start_s, end_s in spans:
                packets += encoded(av, stream, start_s, end_s)
            packets += stream.encode(None)
        for packet in sorted(packets, key=lambda one: float((one.dts or 0) * one.time_base)):
            container.mux(packet)
    return path


def encoded(av: Any, stream: Any, start_s: float, end_s: float) -> list[Any]:
    """Packets of a span."""
    samples = tone(RATE_HZ, end_s - start_s).astype(np.float32)
    fit = av.AudioResampler(format=stream.format.name, layout="mono", rate=RATE_HZ, frame_size=960)
    packets: list[Any] = []
    for start in range(0, samples.size, FRAME):
        part = samples[None, start : start + FRAME]
        frame = av.AudioFrame.from_ndarray(part, format="flt", layout="mono")
        frame.sample_rate, frame.time_base = RATE_HZ, Fraction(1, RATE_HZ)
        frame.pts = round(start_s * RATE_HZ) + start
        packets += [packet for one in fit.resample(frame) for packet in stream.encode(one)]
    return packets


def loud(audio: FloatArray) -> list[tuple[float, float]]:
    """Seconds from which and to which there is sound."""
    n_frames = audio.size // 160
    is_loud = np.abs(audio[: 160 * n_frames]).reshape(-1, 160).max(axis=1) > 0.05
    edges = np.flatnonzero(np.diff(is_loud.astype(np.int8), prepend=0, append=0))
    return [(begin / 100, end / 100) for begin, end in edges.reshape(-1, 2)]


def near(*spans: tuple[float, float]) -> list[Any]:
    return [pytest.approx(span, abs=0.1) for span in spans]


@pytest.mark.parametrize(("name", "codec", "picture"), FILMS)
def test_late_track_keeps_its_times(
    tmp_path: Path, name: str, codec: str, picture: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_film(tmp_path / name, codec, picture, [[(5.0, 8.0)]])
    audio = load_audio(path)
    assert loud(audio) == near((5.0, 8.0))
    assert audio.size / 16_000 == pytest.approx(8.0, abs=0.1)
    assert loud(load_audio(ChannelOf(path, 0))) == near((5.0, 8.0))
    assert not caplog.text


@pytest.mark.parametrize(("name", "codec", "picture"), FILMS)
def test_late_pictures_leave_the_sound_alone(
    tmp_path: Path, name: str, codec: str, picture: str
) -> None:
    audio = load_audio(write_film(tmp_path / name, codec, picture, [[(0.0, 3.0)]]))
    assert loud(audio) == near((0.0, 3.0))


@pytest.mark.slow
def test_track_later_than_ffmpeg_looks_is_found(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.ts", "mp2", "mpeg2video", [[(25.0, 27.0)]], 30.0)
    assert loud(load_audio(path)) == near((25.0, 27.0))


@pytest.mark.parametrize(("name", "codec", "picture"), FILMS[:4])
def test_gap_in_a_track_is_silence(
    tmp_path: Path, name: str, codec: str, picture: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_film(tmp_path / name, codec, picture, [[(0.0, 2.4), (5.04, 7.2)]])
    assert loud(load_audio(path)) == near((0.0, 2.4), (5.04, 7.2))
    assert not caplog.text


@pytest.mark.parametrize(("name", "codec", "picture"), FILMS[:4])
def test_longer_second_track_is_no_truncation(
    tmp_path: Path, name: str, codec: str, picture: str, caplog: pytest.LogCaptureFixture
) -> None:
    tracks = [[(0.0, 3.0)], [(0.0, 20.0)]]
    for pictures in (None, picture):
        path = write_film(tmp_path / name, codec, pictures, tracks)
        with open_audio(path) as stream:
            assert stream.duration_s in (None, pytest.approx(3.0, abs=0.2))
            audio = np.concatenate(list(stream.blocks(16_000)))
        assert audio.size / 16_000 == pytest.approx(3.0, abs=0.1)
    assert not caplog.text


@pytest.mark.parametrize("tag", [b"DURATION", b"NO_TAG__"])
def test_half_a_film_warns(tmp_path: Path, tag: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = write_film(tmp_path / "a.mkv", "pcm_s16le", "mpeg4", [[(0.0, 8.0)]])
    content = path.read_bytes().replace(b"DURATION", tag)
    path.write_bytes(content)
    load_audio(path)
    assert not caplog.text
    path.write_bytes(content[: len(content) // 2])
    with caplog.at_level(logging.WARNING):
        assert 2.0 < load_audio(path).size / 16_000 < 6.0
    assert "a.mkv breaks off after" in caplog.text
    assert "(truncated)" in caplog.text


def test_half_an_mp4_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracks = [[(0.0, 8.0)], [(0.0, 8.0)]]
    path = write_film(tmp_path / "a.mp4", "aac", "mpeg4", tracks, movflags="faststart")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    load_audio(path)
    assert "a.mp4 breaks off after" in caplog.text


def frames(*times_s: float | None) -> list[Any]:
    """A second each."""
    kind = Made(name="flt")
    planes = [b"\1\0\0\0" * 16_000]
    return [
        Made(format=kind, layout=kind, sample_rate=16_000, samples=16_000, planes=planes, time=time)
        for time in times_s
    ]


@pytest.mark.parametrize(
    ("container", "times_s", "starts_s"),
    [
        (("mov", 0.0, 9.0), (0.0, 1.09, 2.0), (0, 1, 2)),  # jitter
        (("mov", 0.0, 9.0), (0.0, 1.5, 2.5), (0, 1.5, 2.5)),
        (("mov", 3.0, 9.0), (3.0, 4.0, 6.0), (0, 1, 3)),
        (("mov", 0.0, 9.0), (0.0, None, 4.0), (0, 1, 4)),
        (("mov", 0.0, 9.0), (0.0, 1.0, 0.0), (0, 1, 2)),  # what lies before is heard all the same
        (("mov", 0.0, 9.0), (0.0, 1e9, 1e9 + 3), (0, 1, 4)),  # a broken timestamp
        (("mov", 0.0, 1e9), (0.0, 1e8), (0, 1)),
        (("mov", 0.0, None), (0.0, 4000.0), (0, 1)),
        (("mov", 0.0, None), (0.0, 30.0), (0, 30)),
        (("mov", None, 9.0), (0.0, 5.0), (0, 1)),  # no timestamps, but guesses
        (("mpegts", 9e4, 99.0), (9e4 + 12, 9e4 + 13), (12, 13)),
        (("mpegts", 0.0, 99.0), (0.0, 10.0, 22.0, 29.0), (0, 10, 11, 18)),  # another clock
    ],
)
def test_timestamps_place_frames(
    tmp_path: Path,
    decoded: Decode,
    monkeypatch: pytest.MonkeyPatch,
    *,
    container: tuple[str, float | None, float | None],
    times_s: tuple[float | None, ...],
    starts_s: tuple[float, ...],
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    stand, (name, start_s, whole_s) = Stand(monkeypatch), container
    stand.container.start_time = None if start_s is None else round(start_s * 1e6)
    stand.container.duration = None if whole_s is None else round(whole_s * 1e6)
    stand.container.format.name = name
    stand.container.decode = lambda _: iter(frames(*times_s))
    _, samples = sound(decoded(tmp_path / "a"))
    steps = np.flatnonzero(np.diff(samples[:, 0] > 0, prepend=False, append=False))
    expected = [edge for start in starts_s for edge in (start * 16_000, (start + 1) * 16_000)]
    assert samples.size == expected[-1]
    assert set(steps) <= {round(edge) for edge in expected}
    assert (samples > 0).sum() == 16_000 * len(times_s)


def test_broken_duration_tag_is_ignored(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    stand = Stand(monkeypatch)
    stand.container.format.name = "matroska,webm"
    stand.container.duration, stand.container.start_time = 9_000_000, 1_000_000
    for tag, n_frames in (("00:00:05.5", 72_000), ("5.5", 128_000), ("99:00:00", 128_000)):
        stand.track.metadata = {"DURATION": tag}
        assert sound(decoded(tmp_path / "a"))[0] == [16_000, 1, n_frames]
