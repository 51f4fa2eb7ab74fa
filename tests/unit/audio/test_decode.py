"""Messages of the decoder process, whose program runs in this process here."""

from __future__ import annotations

import logging
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from tests.fakes.decoder_process import (
    PATIENCE_S,
    Decode,
    RecordedSystemCalls,
    StandInPyAv,
    messages,
    refused,
    sound,
)
from tests.fakes.sounds import tone, write
from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.audio.stream import ChannelOf
from whisper_hailo.core.types import FloatArray

NOISE = np.random.default_rng(3).uniform(-0.5, 0.5, (1001, 8)).astype(np.float32)
"""Eight channels that differ; so many samples fill no frame of any format."""


def encoded(
    path: Path,
    codec: str,
    samples: NDArray[np.float32],
    layout: str,
    rate_hz: int = 16_000,
) -> Path:
    """Write a file with FFmpeg."""
    av = pytest.importorskip("av", reason="needs the media extra")
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "twenty to ten"
        stream = container.add_stream(codec, rate=rate_hz, layout=layout)
        fit = av.AudioResampler(format=stream.format.name, layout=layout, rate=rate_hz)
        frame = av.AudioFrame.from_ndarray(
            samples.reshape(1, -1), format="flt", layout=layout
        )
        frame.sample_rate = rate_hz
        frame.pts = 0
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
def test_decode_gives_all_samples_of_all_channels(
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
def test_decode_file_of_libsndfile_is_complete(
    tmp_path: Path, decoded: Decode, n_frames: int
) -> None:
    samples = np.random.default_rng(n_frames).uniform(-0.5, 0.5, (n_frames, 2))
    path = write(tmp_path / "a.sph", samples, 22_050, format="NIST", subtype="PCM_16")
    header, heard = sound(decoded(path))
    assert header == [22_050, 2, n_frames]
    np.testing.assert_allclose(heard, samples, atol=1 / 32768)


def test_decode_flac_without_length_has_length_none(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(write(tmp_path / "a.flac", tone(16_000)).read_bytes())
    content[21] &= 0xF0  # STREAMINFO's 36 bits of total samples; 0 is unknown.
    content[22:26] = bytes(4)
    (tmp_path / "a.flac").write_bytes(content)
    monkeypatch.setitem(sys.modules, "av", None)
    header, samples = sound(decoded(tmp_path / "a.flac"))
    assert header == [16_000, 1, None]
    np.testing.assert_allclose(samples[:, 0], tone(16_000), atol=1 / 32768)


@pytest.mark.parametrize("orders", [(0, 1), (1, 0)])
def test_decode_later_layout_is_converted_to_first(
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
    header, samples = sound(decoded(tmp_path / "a.aac"))
    assert header[:2] == [rate_hz, 1 + (layout == "stereo")]
    for second in (0.3, 0.9):  # a fifth of a second of each part, five Hz a bin
        part = samples[round(second * rate_hz) :][: rate_hz // 5]
        assert (np.abs(np.fft.rfft(part, axis=0)).argmax(axis=0) * 5 == 440).all()


def test_decode_index_at_end_of_file_is_found(tmp_path: Path, decoded: Decode) -> None:
    samples = (
        np.random.default_rng(9).uniform(-0.5, 0.5, (100_000, 1)).astype(np.float32)
    )
    path = encoded(tmp_path / "a.m4a", "alac", samples, "mono")
    assert path.read_bytes().index(b"moov") > 128 << 10
    header, heard = sound(decoded(path))
    assert header == [16_000, 1, 100_000]
    np.testing.assert_allclose(heard, samples, atol=1 / 32768)


def test_decode_concat_list_opens_no_file(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    av = pytest.importorskip("av", reason="needs the media extra")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "secret.wav", tone(16_000))
    (tmp_path / "a").write_text("ffconcat version 1.0\nfile secret.wav\n")
    with (tmp_path / "a").open("rb") as file, av.open(file) as opened:
        assert opened.streams.audio  # else the next line would prove nothing
    assert "FFmpeg" in refused(decoded(tmp_path / "a"))["why"]


def test_decode_undecodable_tags_are_ignored(tmp_path: Path, decoded: Decode) -> None:
    path = encoded(tmp_path / "a.mka", "pcm_f32le", NOISE[:, :1].copy(), "mono")
    broken = path.read_bytes().replace(b"twenty to ten", b"\xff\xfe\x80nty to ten")
    assert broken != path.read_bytes()
    path.write_bytes(broken)
    np.testing.assert_array_equal(sound(decoded(path))[1], NOISE[:, :1])


def test_decode_refusal_names_both_libraries(tmp_path: Path, decoded: Decode) -> None:
    pytest.importorskip("av", reason="needs the media extra")
    (tmp_path / "a").write_text("hello " * 100)
    refusal = refused(decoded(tmp_path / "a"))
    assert [part.split(": ")[0] for part in refusal["why"].split("; ")] == [
        "FFmpeg",
        "libsndfile",
    ]
    assert not refusal["lacks_ffmpeg"]


@pytest.mark.parametrize(
    ("missing", "refusal"),
    [
        (["av"], {"why": "libsndfile: Format not recognised", "lacks_ffmpeg": True}),
        (["soundfile"], {"why": "FFmpeg: broken", "lacks_ffmpeg": False}),
        (["av", "soundfile"], {"why": "", "lacks_ffmpeg": True}),
    ],
)
def test_decode_refusal_omits_missing_libraries(
    tmp_path: Path,
    decoded: Decode,
    monkeypatch: pytest.MonkeyPatch,
    missing: list[str],
    refusal: dict[str, object],
) -> None:
    monkeypatch.setitem(
        sys.modules,
        "av",
        Made(__version__="19.0.2", open=raising(ValueError("broken"))),
    )
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a").write_bytes(b"hello " * 100)
    assert refused(decoded(tmp_path / "a")) == refusal


def raising(error: Exception) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(" no such plane.\n"), "no such plane"),
        (ValueError(".hidden"), ".hidden"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (
            soundfile.LibsndfileError(2, "Error opening <object at 0x7f>: "),
            "System error",
        ),
        (AssertionError(), "AssertionError"),
    ],
)
def test_decode_refusal_has_short_reason(
    tmp_path: Path,
    decoded: Decode,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    words: str,
) -> None:
    monkeypatch.setitem(
        sys.modules, "av", Made(__version__="19.0.2", open=raising(error))
    )
    monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "a").write_bytes(bytes(100))
    assert refused(decoded(tmp_path / "a"))["why"] == f"FFmpeg: {words}"


def test_decode_length_is_that_of_the_audio_track(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures may last longer than the sound beside them."""
    (tmp_path / "a").write_bytes(bytes(100))
    pyav = StandInPyAv(monkeypatch)
    film = [object()]
    for duration, time_base, whole, video, n_frames in (
        (3000, Fraction(1, 1000), 2_000_000, [], 48_000),
        (3000, Fraction(1, 1000), 2_000_000, film, 48_000),
        (3000, None, 2_000_000, [], 32_000),
        (None, Fraction(1, 1000), 2_000_000, [], 32_000),
        (None, None, 2_000_000, film, None),
        (None, None, None, [], None),
        (0, Fraction(1, 1000), None, [], 0),
    ):
        pyav.track.duration = duration
        pyav.track.time_base = time_base
        pyav.container.duration = whole
        pyav.container.streams.video = video
        header, _ = sound(decoded(tmp_path / "a"))
        assert header == [16_000, 1, n_frames]


def test_decode_takes_first_readable_track(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    pyav = StandInPyAv(monkeypatch)
    unknown = Made(codec_context=None)
    silent = Made(codec_context=1, rate=0)
    pyav.container.streams.audio[:] = [unknown, silent, pyav.track]
    assert sound(decoded(tmp_path / "a"))[0][:2] == [16_000, 1]
    for tracks in ([], [unknown], [silent]):
        pyav.container.streams.audio[:] = tracks
        assert "audio track" in refused(decoded(tmp_path / "a"))["why"]


def test_decode_sends_32_kib_messages(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """32 KiB are sent at once: what came in several frames until then, never more than needed."""
    blocks = [bytes([value]) * 16_384 for value in range(5)]
    (tmp_path / "a").write_bytes(bytes(100))
    StandInPyAv(monkeypatch, iter(blocks))
    reply = decoded(tmp_path / "a")
    assert [len(payload) for _, payload in reply[1:-1]] == [32_768, 32_768, 16_384]
    assert b"".join(payload for _, payload in reply[1:-1]) == b"".join(blocks)


def test_decode_full_last_message_ends_without_empty_one(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    StandInPyAv(monkeypatch, iter([bytes(32_768)]))
    assert [kind for kind, _ in decoded(tmp_path / "a")] == [b"H", b"A", b"E"]


def test_decode_sends_audio_before_error(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending() -> Iterator[bytes]:
        yield b"four"
        raise ValueError("no name for \udcff.")

    (tmp_path / "a").write_bytes(bytes(100))
    StandInPyAv(monkeypatch, ending())
    assert decoded(tmp_path / "a")[1:] == [(b"A", b"four"), (b"E", b"no name for ?")]


def test_decode_flushes_and_resets_timer_per_message(
    tmp_path: Path,
    decoded: Decode,
    monkeypatch: pytest.MonkeyPatch,
    system_calls: RecordedSystemCalls,
) -> None:
    seen: list[tuple[int, int]] = []

    def watched() -> Iterator[bytes]:
        for _ in range(3):
            content = (tmp_path / "reply").read_bytes()
            seen.append((len(list(messages(content))), len(system_calls.timers)))
            yield bytes(32_768)

    (tmp_path / "a").write_bytes(bytes(100))
    StandInPyAv(monkeypatch, watched())
    decoded(tmp_path / "a")
    assert seen == [(1, 2), (2, 3), (3, 4)], "one before the file is opened"
    assert set(system_calls.timers) == {(signal.ITIMER_PROF, PATIENCE_S)}


def test_decode_ignores_sigint_and_dies_of_sigpipe(
    tmp_path: Path, decoded: Decode, system_calls: RecordedSystemCalls
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    decoded(tmp_path / "a")
    assert system_calls.signals == {
        signal.SIGINT: signal.SIG_IGN,
        signal.SIGPIPE: signal.SIG_DFL,
    }


@pytest.mark.parametrize(
    ("hard", "most"),
    [(resource.RLIM_INFINITY, 1 << 30), (8 << 30, 1 << 30), (512 << 20, 512 << 20)],
)
def test_decode_limits_memory_to_1_gib(
    tmp_path: Path,
    decoded: Decode,
    system_calls: RecordedSystemCalls,
    hard: int,
    most: int,
) -> None:
    system_calls.hard = hard
    (tmp_path / "a").write_bytes(bytes(100))
    decoded(tmp_path / "a")
    assert system_calls.limits == {
        resource.RLIMIT_DATA: (most, most),
        resource.RLIMIT_CORE: (0, 0),
    }


RATE_HZ = 48_000
FRAME = 1152
"""Samples that every codec here takes at once."""

FILMS = [
    ("a.mp4", "aac", "mpeg4"),
    pytest.param("a.mkv", "pcm_s16le", "mpeg4", marks=pytest.mark.slow),
    pytest.param("a.ts", "mp2", "mpeg2video", marks=pytest.mark.slow),
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
    """Write tracks of a tone in the given spans, and pictures from 0 s on."""
    av = pytest.importorskip("av", reason="needs the media extra")
    with av.open(str(path), "w", options=options) as container:
        streams = [
            container.add_stream(codec, rate=RATE_HZ, layout="mono") for _ in tracks
        ]
        packets = []
        if picture:
            video = container.add_stream(
                picture, rate=10, width=64, height=48, pix_fmt="yuv420p"
            )
            for index in range(round(10 * pictures_s)):
                image = av.VideoFrame(64, 48, "yuv420p")
                for plane in image.planes:
                    plane.update(bytes(plane.buffer_size))
                image.pts = index
                image.time_base = Fraction(1, 10)
                packets += video.encode(image)
            packets += video.encode(None)
        for stream, spans in zip(streams, tracks, strict=True):
            for start_s, end_s in spans:
                packets += muxed(av, stream, start_s, end_s)
            packets += stream.encode(None)
        for packet in sorted(
            packets, key=lambda packet: float((packet.dts or 0) * packet.time_base)
        ):
            container.mux(packet)
    return path


def muxed(av: Any, stream: Any, start_s: float, end_s: float) -> list[Any]:
    """Return the encoded packets of a span."""
    samples = tone(RATE_HZ, end_s - start_s).astype(np.float32)
    fit = av.AudioResampler(
        format=stream.format.name, layout="mono", rate=RATE_HZ, frame_size=960
    )
    packets: list[Any] = []
    for start in range(0, samples.size, FRAME):
        part = samples[None, start : start + FRAME]
        frame = av.AudioFrame.from_ndarray(part, format="flt", layout="mono")
        frame.sample_rate = RATE_HZ
        frame.time_base = Fraction(1, RATE_HZ)
        frame.pts = round(start_s * RATE_HZ) + start
        packets += [
            packet for part in fit.resample(frame) for packet in stream.encode(part)
        ]
    return packets


def loud(audio: FloatArray) -> list[tuple[float, float]]:
    """Return the start and end of each stretch of sound, in seconds."""
    n_frames = audio.size // 160
    is_loud = np.abs(audio[: 160 * n_frames]).reshape(-1, 160).max(axis=1) > 0.05
    edges = np.flatnonzero(np.diff(is_loud.astype(np.int8), prepend=0, append=0))
    return [(begin / 100, end / 100) for begin, end in edges.reshape(-1, 2)]


def near(*spans: tuple[float, float]) -> list[Any]:
    return [pytest.approx(span, abs=0.1) for span in spans]


@pytest.mark.parametrize(("name", "codec", "picture"), FILMS)
def test_load_audio_late_track_keeps_its_times(
    tmp_path: Path,
    name: str,
    codec: str,
    picture: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = write_film(tmp_path / name, codec, picture, [[(5.0, 8.0)]])
    audio = load_audio(path)
    assert loud(audio) == near((5.0, 8.0))
    assert audio.size / 16_000 == pytest.approx(8.0, abs=0.1)
    assert loud(load_audio(ChannelOf(path, 0))) == near((5.0, 8.0))
    assert not caplog.text


@pytest.mark.parametrize(("name", "codec", "picture"), FILMS)
def test_load_audio_late_pictures_keep_sound(
    tmp_path: Path, name: str, codec: str, picture: str
) -> None:
    audio = load_audio(write_film(tmp_path / name, codec, picture, [[(0.0, 3.0)]]))
    assert loud(audio) == near((0.0, 3.0))


@pytest.mark.slow
def test_load_audio_track_after_25_s_is_found(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.ts", "mp2", "mpeg2video", [[(25.0, 27.0)]], 30.0)
    assert loud(load_audio(path)) == near((25.0, 27.0))


@pytest.mark.parametrize(("name", "codec", "picture"), FILMS[:4])
def test_load_audio_gap_in_track_is_silence(
    tmp_path: Path,
    name: str,
    codec: str,
    picture: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = write_film(tmp_path / name, codec, picture, [[(0.0, 2.4), (5.04, 7.2)]])
    assert loud(load_audio(path)) == near((0.0, 2.4), (5.04, 7.2))
    assert not caplog.text


@pytest.mark.parametrize(("name", "codec", "picture"), FILMS[:4])
def test_load_audio_longer_second_track_warns_nothing(
    tmp_path: Path,
    name: str,
    codec: str,
    picture: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tracks = [[(0.0, 3.0)], [(0.0, 20.0)]]
    for pictures in (None, picture):
        path = write_film(tmp_path / name, codec, pictures, tracks)
        with open_audio(path) as stream:
            assert stream.duration_s in (None, pytest.approx(3.0, abs=0.2))
            audio = np.concatenate(list(stream.blocks(16_000)))
        assert audio.size / 16_000 == pytest.approx(3.0, abs=0.1)
    assert not caplog.text


def test_load_audio_half_a_film_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_film(tmp_path / "a.mkv", "pcm_s16le", "mpeg4", [[(0.0, 8.0)]])
    content = path.read_bytes()
    load_audio(path)
    assert not caplog.text
    path.write_bytes(content[: len(content) // 2])
    with caplog.at_level(logging.WARNING):
        assert 2.0 < load_audio(path).size / 16_000 < 6.0
    assert caplog.text.count("a.mkv") == 1


def test_load_audio_half_an_mp4_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracks = [[(0.0, 8.0)], [(0.0, 8.0)]]
    path = write_film(tmp_path / "a.mp4", "aac", "mpeg4", tracks, movflags="faststart")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    load_audio(path)
    assert caplog.text.count("a.mp4") == 1


def frames(*times_s: float | None) -> list[Any]:
    """Return frames of one second each."""
    kind = Made(name="flt")
    planes = [b"\1\0\0\0" * 16_000]
    return [
        Made(
            format=kind,
            layout=kind,
            sample_rate=16_000,
            samples=16_000,
            planes=planes,
            time=time,
        )
        for time in times_s
    ]


@pytest.mark.parametrize(
    ("container", "times_s", "starts_s"),
    [
        (("mov", 0.0, 9.0), (0.0, 1.09, 2.0), (0, 1, 2)),  # jitter
        (("mov", 0.0, 9.0), (0.0, 1.5, 2.5), (0, 1.5, 2.5)),
        (("mov", 3.0, 9.0), (3.0, 4.0, 6.0), (0, 1, 3)),
        (("mov", 0.0, 9.0), (0.0, None, 4.0), (0, 1, 4)),
        # What lies before is heard all the same.
        (("mov", 0.0, 9.0), (0.0, 1.0, 0.0), (0, 1, 2)),
        (("mov", 0.0, 9.0), (0.0, 1e9, 1e9 + 3), (0, 1, 4)),  # a broken timestamp
        (("mov", 0.0, 1e9), (0.0, 1e8), (0, 1)),
        (("mov", 0.0, None), (0.0, 4000.0), (0, 1)),
        (("mov", 0.0, None), (0.0, 30.0), (0, 30)),
        (("mov", None, 9.0), (0.0, 5.0), (0, 1)),  # no timestamps, but guesses
        (("mpegts", 9e4, 99.0), (9e4 + 12, 9e4 + 13), (12, 13)),
        # Another clock.
        (("mpegts", 0.0, 99.0), (0.0, 10.0, 22.0, 29.0), (0, 10, 11, 18)),
    ],
)
def test_decode_timestamps_place_frames(
    tmp_path: Path,
    decoded: Decode,
    monkeypatch: pytest.MonkeyPatch,
    *,
    container: tuple[str, float | None, float | None],
    times_s: tuple[float | None, ...],
    starts_s: tuple[float, ...],
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    pyav, (name, start_s, whole_s) = StandInPyAv(monkeypatch), container
    pyav.container.start_time = None if start_s is None else round(start_s * 1e6)
    pyav.container.duration = None if whole_s is None else round(whole_s * 1e6)
    pyav.container.format.name = name
    pyav.container.decode = lambda _: iter(frames(*times_s))
    _, samples = sound(decoded(tmp_path / "a"))
    steps = np.flatnonzero(np.diff(samples[:, 0] > 0, prepend=False, append=False))
    expected = [
        edge for start in starts_s for edge in (start * 16_000, (start + 1) * 16_000)
    ]
    assert samples.size == expected[-1]
    assert set(steps) <= {round(edge) for edge in expected}
    assert (samples > 0).sum() == 16_000 * len(times_s)


def test_decode_broken_duration_tag_is_ignored(
    tmp_path: Path, decoded: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    pyav = StandInPyAv(monkeypatch)
    pyav.container.format.name = "matroska,webm"
    pyav.container.duration = 9_000_000
    pyav.container.start_time = 1_000_000
    for tag, n_frames in (
        ("00:00:05.5", 72_000),
        ("5.5", 128_000),
        ("99:00:00", 128_000),
    ):
        pyav.track.metadata = {"DURATION": tag}
        assert sound(decoded(tmp_path / "a"))[0] == [16_000, 1, n_frames]
