"""Files that are decoded in a process of their own, and what that process may do."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import itertools
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
import soundfile

from tests.fakes.sounds import refusal, tone, write, write_media
from whisper_hailo.audio import decode, load_audio, open_audio, readers
from whisper_hailo.audio.files import open_file
from whisper_hailo.audio.readers import AudioReader, BrokenOffError, open_foreign
from whisper_hailo.audio.stream import ChannelOf
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.types import FloatArray


def children() -> set[str]:
    """Processes that this one started and has not seen end."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {pid for task in tasks for pid in task.read_text().split()}


def strongest_hz(audio: FloatArray) -> int:
    """Spectrum of the second second, a bin per Hz."""
    return int(np.abs(np.fft.rfft(audio[16_000:32_000])).argmax())


@pytest.mark.parametrize(
    ("suffix", "codec", "rate_hz"),
    [
        ("m4a", "aac", 44_100),
        pytest.param("mp4", "aac", 22_050, marks=pytest.mark.slow),
        pytest.param("webm", "libopus", 48_000, marks=pytest.mark.slow),
    ],
)
def test_open_foreign_media_is_decoded(
    tmp_path: Path, suffix: str, codec: str, rate_hz: int
) -> None:
    path = write_media(tmp_path / f"a.{suffix}", codec, rate_hz)
    with open_audio(path) as stream:
        assert stream.duration_s == pytest.approx(3.0, abs=0.1)
        audio = np.concatenate(list(stream.blocks(16_000)))
    assert len(audio) / 16_000 == pytest.approx(3.0, abs=0.1)
    assert strongest_hz(audio) == 440
    assert audio[16_000:32_000].std() == pytest.approx(0.5 / np.sqrt(2), rel=0.05)
    assert len(load_audio(io.BytesIO(path.read_bytes()))) == len(audio)


@pytest.mark.parametrize(
    "content",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile '{}'\n",
    ],
)
def test_open_foreign_playlist_opens_no_other_file(
    tmp_path: Path, content: str
) -> None:
    pytest.importorskip("av", reason="needs the media extra")
    secret = write(tmp_path / "secret.wav", tone(16_000))
    path = tmp_path / "a.m3u8"
    path.write_text(content.format(secret))
    assert "readable" in refusal(path)


def test_open_foreign_text_is_refused(tmp_path: Path) -> None:
    # By its extension the first could be a video of ANSI art.
    for name in ("a.txt", "a.wav", "a.mp3"):
        (tmp_path / name).write_text("hello " * 5_000)
        assert "readable" in refusal(tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "codec", "layout", "n_channels"),
    [
        ("a.m4a", "aac", "7.1", 8),
        ("a.webm", "libopus", "7.1", 8),
        ("a.mkv", "pcm_s16le", "7.1", 8),
        ("flac.mkv", "flac", "7.1", 8),
    ],
)
def test_open_foreign_eight_channels_are_mixed(
    tmp_path: Path, name: str, codec: str, layout: str, n_channels: int
) -> None:
    """PyAV reads past the eighth plane of such a frame, which ends the process."""
    path = write_media(tmp_path / name, codec, 48_000, layout=layout)
    with open_audio(path) as stream:
        assert stream.n_channels == n_channels
        audio = np.concatenate(list(stream.blocks(16_000)))
    assert len(audio) / 16_000 == pytest.approx(3.0, abs=0.1)
    assert strongest_hz(audio) == 440
    # A channel for low sounds only may hold none.
    assert audio[16_000:32_000].std() > 0.3
    assert strongest_hz(load_audio(ChannelOf(path, n_channels - 2))) == 440


@pytest.mark.slow
def test_open_foreign_sixteen_channels_are_mixed(tmp_path: Path) -> None:
    samples = tone(16_000)[:, None] * np.linspace(0.0, 1.0, 16)
    path = write(tmp_path / "a.caf", samples, subtype="FLOAT")
    np.testing.assert_allclose(load_audio(path), 0.5 * tone(16_000), atol=1e-6)
    np.testing.assert_allclose(load_audio(ChannelOf(path, 15)), tone(16_000), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("layouts", [("stereo", "mono"), ("mono", "stereo")])
def test_open_foreign_changing_layout_keeps_first_channels(
    tmp_path: Path, layouts: tuple[str, str]
) -> None:
    parts = [
        write_media(tmp_path / f"{layout}.aac", "aac", 16_000, layout=layout)
        for layout in layouts
    ]
    chained = tmp_path / "chained.aac"
    chained.write_bytes(b"".join(part.read_bytes() for part in parts))
    with open_audio(chained) as stream:
        n_channels = stream.n_channels
    assert n_channels == {"mono": 1, "stereo": 2}[layouts[0]]
    for audio in (load_audio(chained), load_audio(ChannelOf(chained, n_channels - 1))):
        assert len(audio) / 16_000 == pytest.approx(6.0, abs=0.3)
        assert audio[16_000:32_000].std() > 0.2
        assert audio[64_000:80_000].std() > 0.2


def test_open_foreign_unknown_codec_is_refused(tmp_path: Path) -> None:
    path = write_media(tmp_path / "a.mkv", "pcm_s16le", 16_000)
    content = path.read_bytes()
    assert content.count(b"A_PCM/INT/LIT") == 1
    path.write_bytes(content.replace(b"A_PCM/INT/LIT", b"A_PCM/OUT/LIT"))
    assert "audio track" in refusal(path)


def test_open_foreign_output_of_libsndfile_is_muted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.sds", tone(16_000), format="SDS", subtype="PCM_16")
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20] = bytes(20)
    path.write_bytes(content)
    flush = ctypes.CDLL(None).fflush
    with contextlib.suppress(soundfile.SoundFileError):
        soundfile.read(path)
    flush(None)
    assert capfd.readouterr().out  # else the next lines would prove nothing
    load_audio(path)
    flush(None)
    assert capfd.readouterr() == ("", "")


STAND_IN = """
__version__ = "19.0.2"
import itertools, os, signal, sys, time
from types import SimpleNamespace as Made
FRAME = Made(
    format=Made(name="flt"), layout=Made(name="mono"), sample_rate=16000, samples=1000,
    planes=[bytes(4000)],
)
TRACK = Made(codec_context=1, rate=16000, channels=1, duration=None, time_base=None, layout=None)
def frames(track):
    yield from [FRAME] * 32
    {happens}
class Streams:
    audio = [TRACK]
    def __len__(self): return 1
CONTAINER = Made(
    decode=frames, duration=None, start_time=None, streams=Streams(), format=Made(name="aac")
)
class AudioResampler:
    def __init__(self, **kwargs): pass
    def resample(self, frame): return [frame]
def open(*words, **kwargs):
    if {early}:
        {happens}
    return CONTAINER
"""
"""A stand-in for PyAV: two seconds of silence, then a mishap, or the mishap at once."""

PATIENCE_S = 1.0
"""Processor time: several starts of Python, on a busy or slow machine, too."""

MISHAPS = [
    ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    ("sys.exit(3)", "exit code 3"),
    ("while True: pass", f"{PATIENCE_S:g} s"),
]


def with_stand_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, happens: str, *, early: bool
) -> Path:
    """Return a file with which the stand-in for PyAV has the mishap."""
    (folder / "av.py").write_text(STAND_IN.format(happens=happens, early=early))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(readers, "PATIENCE_S", PATIENCE_S)
    (folder / "a.m4a").write_bytes(b"\0\0\0\x18ftypM4A " + bytes(100))
    return folder / "a.m4a"


@pytest.mark.parametrize(("happens", "datum"), MISHAPS)
def test_open_foreign_decoder_crash_at_start_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: str, datum: str
) -> None:
    before = children()
    path = with_stand_in(tmp_path, monkeypatch, happens, early=True)
    assert datum in refusal(path)
    assert children() == before


@pytest.mark.parametrize(
    ("mishap", "n_samples"),
    [
        *((mishap, 27_000) for mishap in MISHAPS),  # the last message is lost
        (("bytearray(4 << 30)", "MemoryError"), 32_000),
        (("raise ValueError('no\\nsuch plane')", "no\nsuch plane"), 32_000),
    ],
)
def test_open_foreign_audio_before_crash_is_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mishap: tuple[str, str],
    n_samples: int,
) -> None:
    happens, datum = mishap
    path = with_stand_in(tmp_path, monkeypatch, happens, early=False)
    with caplog.at_level(logging.WARNING):
        assert len(load_audio(path)) == n_samples
    assert f"{n_samples / 16_000:.1f} s" in caplog.text
    assert datum in caplog.text


def test_open_foreign_closed_early_leaves_no_process(tmp_path: Path) -> None:
    before = children()
    path = write_media(tmp_path / "a.mkv", "pcm_s16le", 48_000, seconds=20.0)
    with open_audio(path) as stream:
        next(stream.blocks(16_000))
        assert len(children() - before) == 1
    assert children() == before


@pytest.mark.slow
def test_open_foreign_two_readers_of_one_file_are_independent(tmp_path: Path) -> None:
    path = write_media(tmp_path / "a.m4a", "aac", 16_000)
    samples = (
        np.random.default_rng(5).uniform(-0.5, 0.5, (48_000, 2)).astype(np.float32)
    )
    plain = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    for whole in (path, plain):
        expected = load_audio(whole)
        with whole.open("rb") as on_disk:
            for file in (on_disk, io.BytesIO(whole.read_bytes())):
                with open_audio(file) as left, open_audio(file) as right:
                    pairs = list(zip(left.blocks(777), right.blocks(777), strict=True))
                np.testing.assert_array_equal(
                    np.concatenate([a for a, _ in pairs]), expected
                )
                np.testing.assert_array_equal(
                    np.concatenate([b for _, b in pairs]), expected
                )


def test_open_foreign_unstartable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.m4a").write_bytes(bytes(100))
    monkeypatch.setattr("sys.executable", str(tmp_path / "nothing"))
    assert os.strerror(errno.ENOENT) in refusal(tmp_path / "a.m4a")


def test_open_foreign_ctrl_c_does_not_end_decoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A terminal sends it to all: whoever reads decides when it is over."""
    happens = f"os.kill(os.getpid(), {int(signal.SIGINT)}); time.sleep(0.01)"
    path = with_stand_in(tmp_path, monkeypatch, happens, early=False)
    assert len(load_audio(path)) == 32_000
    assert not caplog.text


def test_open_foreign_memory_limit_of_caller_holds(tmp_path: Path) -> None:
    path = write_media(tmp_path / "a.mkv", "pcm_s16le", 16_000)
    code = """
import resource, sys
from whisper_hailo.audio import load_audio
resource.setrlimit(resource.RLIMIT_DATA, (512 << 20, 512 << 20))
print(load_audio(sys.argv[1]).size)
"""
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "48000\n"


SAMPLES = np.random.default_rng(1).uniform(-1, 1, (50, 2)).astype("<f4")


def message(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "little") + payload


HEADER = message(b"H", b"[44100, 2, null]")
AUDIO = [message(b"A", part.tobytes()) for part in (SAMPLES[:20], SAMPLES[20:])]


class Process:
    """A decoder process that writes `said` and ends with `code`.

    Attributes:
        events: calls that end the process, in order.
    """

    def __init__(self, output: bytes, code: int) -> None:
        self.stdout = io.BytesIO(output)
        self.events: list[str] = []
        self._code = code

    def __call__(self, command: list[str], **kwargs: Any) -> Process:
        self.command = command
        self.kwargs = kwargs
        return self

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.events.append("waited for")

    def kill(self) -> None:
        self.events.append("killed")

    def wait(self) -> int:
        return self._code


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Return a function that opens the output of a decoder process."""
    (tmp_path / "a.m4a").write_bytes(b"content")
    with (tmp_path / "a.m4a").open("rb", buffering=0) as file:

        def start(
            output: bytes, code: int = 0
        ) -> tuple[AudioReader, Process, ExitStack]:
            process = Process(output, code)
            resources = ExitStack()
            monkeypatch.setattr(subprocess, "Popen", process)
            return (
                open_foreign(cast(BinaryIO, file), "a.m4a", resources),
                process,
                resources,
            )

        yield start


def test_open_foreign_reads_header_and_samples(opened: Any) -> None:
    reader, process, resources = opened(HEADER + b"".join(AUDIO) + message(b"E", b""))
    assert (reader.sample_rate_hz, reader.n_channels, reader.n_frames) == (
        44_100,
        2,
        None,
    )
    blocks = list(reader.blocks)
    assert [block.shape for block in blocks] == [(20, 2), (30, 2)]
    np.testing.assert_array_equal(np.concatenate(blocks), SAMPLES)
    assert process.events == []
    resources.close()
    assert process.events == ["killed", "waited for"], (
        "one that is not done would go on else"
    )


def test_open_foreign_decoder_may_take_10_s_a_sample(opened: Any) -> None:
    process = opened(HEADER)[1]
    assert process.command == [sys.executable, "-P", decode.__file__, "10.0"]
    assert process.kwargs["stdin"].read() == b"content"
    assert process.kwargs["stderr"] == subprocess.DEVNULL
    for folder in filter(None, sys.path):
        assert folder in process.kwargs["env"]["PYTHONPATH"].split(":")


def test_open_foreign_break_off_has_reason(opened: Any) -> None:
    reader, *_ = opened(HEADER + AUDIO[0] + message(b"E", b"no \xff plane"))
    blocks = reader.blocks
    assert next(blocks).shape == (20, 2)
    with pytest.raises(BrokenOffError, match=re.escape("no \ufffd plane")):
        next(blocks)


@pytest.mark.parametrize(
    ("code", "datum"),
    [
        (-signal.SIGSEGV, "SIGSEGV"),
        (-signal.SIGPROF, "10 s"),
        (0, "exit code 0"),
        (1, "exit code 1"),
        (int(signal.SIGPROF), "exit code 27"),
    ],
)
def test_open_foreign_decoder_end_breaks_file_off(
    opened: Any, code: int, datum: str
) -> None:
    output = HEADER + b"".join(AUDIO)
    ends = list(itertools.accumulate(map(len, [HEADER, *AUDIO])))
    for cut in range(len(output) + 1):
        if cut < len(HEADER):
            with pytest.raises(AudioError) as refused:
                opened(output[:cut], code)
            assert datum in str(refused.value)
            continue
        blocks = opened(output[:cut], code)[0].blocks
        for n_frames in [
            n for n, end in zip((20, 30), ends[1:], strict=True) if end <= cut
        ]:
            assert len(next(blocks)) == n_frames
        with pytest.raises(BrokenOffError) as broken:
            next(blocks)
        assert datum in str(broken.value)


@pytest.mark.parametrize("lacks_ffmpeg", [False, True])
def test_open_foreign_refusal_ends_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacks_ffmpeg: bool
) -> None:
    refusal = {"why": "libsndfile: no", "lacks_ffmpeg": lacks_ffmpeg}
    process = Process(message(b"R", json.dumps(refusal).encode()), 0)
    monkeypatch.setattr(subprocess, "Popen", process)
    (tmp_path / "a.m4a").write_bytes(b"content")
    with pytest.raises(AudioError) as refused, (tmp_path / "a.m4a").open("rb") as file:
        open_foreign(file, "a.m4a", ExitStack())
    assert process.events == ["killed", "waited for"]
    assert "libsndfile: no" in str(refused.value)
    assert (install_command("media") in str(refused.value)) is lacks_ffmpeg


def test_open_foreign_passes_descriptor_of_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.m4a").write_bytes(b"content")
    process = Process(HEADER, 0)
    monkeypatch.setattr(subprocess, "Popen", process)
    with (tmp_path / "a.m4a").open("rb") as source, ExitStack() as resources:
        open_foreign(open_file(source, "a", resources), "a", resources)
        assert process.kwargs["stdin"].fileno() == source.fileno()
