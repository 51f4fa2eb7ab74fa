"""Files, raw PCM, microphones (a stand-in for PortAudio) and addresses."""

from __future__ import annotations

import gc
import itertools
import os
import re
import sys
import threading
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.unit.sounds import similarity, tone, write
from whisper_hailo.core.errors import AudioError, DeviceError, OptionError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.sources.backlog import Backlog
from whisper_hailo.live.sources.file import FileSource
from whisper_hailo.live.sources.microphone import MicrophoneSource, choose_device, input_devices
from whisper_hailo.live.sources.network import NetworkSource
from whisper_hailo.live.sources.pcm import PcmSource
from whisper_hailo.live.sources.reopened import ReopenedSource
from whisper_hailo.live.sources.select import open_source
from whisper_hailo.live.sources.source import AudioSource, Block, Pace


def heard(source: AudioSource) -> FloatArray:
    with source:
        return np.concatenate([block.audio for block in source.blocks()])


def test_a_file_comes_whole_and_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(44_100, 1.5), 44_100)
    source = FileSource(path)
    assert source.pace is Pace.ASKED
    audio = heard(source)
    assert audio.size == pytest.approx(1.5 * SAMPLE_RATE_HZ, abs=2)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 1.5)) > 0.99


def test_a_file_in_real_time_waits_until_each_piece_was_spoken(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 1.0))
    clock = {"now": 5.0}

    def sleep(seconds: float) -> None:
        clock["now"] += seconds

    source = FileSource(path, real_time=True, loops=2, now=lambda: clock["now"], sleep=sleep)
    with source:
        blocks = list(source.blocks())
    assert source.pace is Pace.AHEAD
    assert sum(block.audio.size for block in blocks) == 32_000
    assert clock["now"] == pytest.approx(7.0)
    assert blocks[-1].captured_s == pytest.approx(7.0)


def test_a_file_is_opened_once_because_pipes_come_once(tmp_path: Path) -> None:
    content = write(tmp_path / "a.wav", tone(16_000)).read_bytes()
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    assert heard(FileSource(tmp_path / "pipe")).size == 16_000
    writer.join()


def test_a_file_that_is_closed_before_it_is_read_gives_nothing(tmp_path: Path) -> None:
    with FileSource(write(tmp_path / "a.wav", tone(16_000))) as source:
        source.close()
        assert not list(source.blocks())


def test_nothing_is_no_file_and_not_the_current_folder() -> None:
    with pytest.raises(AudioError, match="'' does not exist"), open_source(""):
        pass


def test_a_file_comes_in_pieces_of_one_frame_with_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 0.1))
    with FileSource(path) as source:
        assert source.name == str(path)
        blocks = list(source.blocks())
    assert [block.audio.size for block in blocks] == [512, 512, 512, 64]
    assert all(block.captured_s is None and block.voices is None for block in blocks)


def test_a_file_in_real_time_gives_each_piece_when_its_last_sample_was_spoken(
    tmp_path: Path,
) -> None:
    """It waits for what is still to come, and not where its listener was slow."""
    clock, waits = [5.0], []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock[0] += seconds

    path = write(tmp_path / "a.wav", tone(16_000, 0.128))
    with FileSource(path, real_time=True, now=lambda: clock[0], sleep=sleep) as source:
        captured = []
        for block in source.blocks():
            captured.append(block.captured_s)
            clock[0] += 0.05 if len(captured) == 2 else 0.0
    assert captured == pytest.approx([5.032, 5.064, 5.096, 5.128])
    assert waits == pytest.approx([0.032, 0.032, 0.014])


def test_a_file_of_speakers_has_more_than_one_channel(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.wav", tone(16_000, 0.1)))
    with open_source(path) as source:
        assert source.name == path
    with pytest.raises(AudioError, match="1 channel"), open_source(path, split=True):
        pass


def test_a_missing_file_is_told_before_anything_is_heard(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="does not exist"), FileSource(tmp_path / "no.wav"):
        pass


@pytest.mark.parametrize("rate_hz", [16_000, 48_000, 11_025])
def test_raw_pcm_of_any_rate_in_pieces_of_any_size(rate_hz: int) -> None:
    samples = tone(rate_hz, 1.0)
    raw = (samples * 32767).astype("<i2").tobytes()
    reading, writing = os.pipe()

    def feed() -> None:
        with os.fdopen(writing, "wb", buffering=0) as file:
            for at in range(0, len(raw), 777):  # an odd number: samples are torn apart
                file.write(raw[at : at + 777])

    thread = threading.Thread(target=feed)
    thread.start()
    audio = heard(PcmSource(reading, rate_hz))
    thread.join()
    os.close(reading)
    assert audio.size == pytest.approx(SAMPLE_RATE_HZ, abs=2)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 1.0)) > 0.99


def test_a_sample_torn_apart_between_two_reads_is_put_together() -> None:
    """The first read ends in the middle of the second sample, the last in that of a third."""
    raw = np.array([256, -512, 1024], "<i2").tobytes()
    reading, writing = os.pipe()
    blocks = PcmSource(reading).blocks()
    os.write(writing, raw[:3])
    got = next(blocks).audio.tolist()
    os.write(writing, raw[3:5])
    os.close(writing)
    got += [sample for block in blocks for sample in block.audio.tolist()]
    os.close(reading)
    assert got == [256 / 32768, -512 / 32768]


def test_pcm_that_cannot_be_read_is_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(AudioError, match="cannot be read"):
        list(PcmSource(reading).blocks())


def test_a_pipe_that_nothing_comes_from_can_be_left() -> None:
    reading, writing = os.pipe()
    source = PcmSource(reading)
    thread = threading.Thread(target=lambda: list(source.blocks()), daemon=True)
    thread.start()
    source.close()
    thread.join(30)
    assert not thread.is_alive()
    os.close(reading)
    os.close(writing)


class PortAudioError(Exception):
    pass


class FakeStream:
    """Calls back with a tone as PortAudio would, a second of it."""

    last: FakeStream | None = None

    def __init__(self, **settings: Any) -> None:
        if settings["device"] == 7:
            raise PortAudioError("Device unavailable")
        self.settings = settings
        self.closed = False
        FakeStream.last = self

    def start(self) -> None:
        rate, size = self.settings["samplerate"], self.settings["blocksize"]
        sound = np.stack([tone(rate), tone(rate)], axis=1).astype(np.float32)
        for at in range(0, rate, size):
            status = "input overflow" if at == 0 else ""
            self.settings["callback"](sound[at : at + size], size, None, status)

    def abort(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


DEVICES = [
    {"name": "HDMI", "max_input_channels": 0, "default_samplerate": 48_000.0},
    {"name": "USB Microphone", "max_input_channels": 2, "default_samplerate": 44_100.0},
    {"name": "USB Camera", "max_input_channels": 2, "default_samplerate": 48_000.0},
    {"name": "Busy", "max_input_channels": 2, "default_samplerate": 48_000.0},
]


@pytest.fixture
def sounddevice(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    module = SimpleNamespace(
        query_devices=lambda: DEVICES,
        default=SimpleNamespace(device=(2, 0)),
        InputStream=FakeStream,
        PortAudioError=PortAudioError,
        _terminate=lambda: None,
        _initialize=lambda: None,
        _exit_handler=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return module


@pytest.mark.usefixtures("sounddevice")
def test_only_devices_that_hear_are_listed() -> None:
    devices = input_devices()
    assert [device.name for device in devices] == ["USB Microphone", "USB Camera", "Busy"]
    assert [device.is_default for device in devices] == [False, True, False]


@pytest.mark.usefixtures("sounddevice")
def test_a_device_is_chosen_by_number_by_name_or_by_default() -> None:
    assert choose_device("").name == "USB Camera"
    assert choose_device("1").name == "USB Microphone"
    assert choose_device("micro").index == 1
    with pytest.raises(OptionError, match="several devices fit; there are 1: USB Microphone"):
        choose_device("usb")
    with pytest.raises(OptionError, match="no input device fits"):
        choose_device("0")


@pytest.mark.usefixtures("sounddevice")
def test_a_microphone_of_any_rate_gives_16_khz_mono_and_tells_of_overruns() -> None:
    source = MicrophoneSource("micro")
    with source:
        blocks: list[Block] = []
        for block in source.blocks():
            blocks.append(block)
            if sum(b.audio.size for b in blocks) > 0.9 * SAMPLE_RATE_HZ:
                source.close()
    audio = np.concatenate([block.audio for block in blocks])
    assert similarity(audio, tone(SAMPLE_RATE_HZ)) > 0.99
    assert sum(block.n_faults for block in blocks) == 1
    assert all(block.captured_s is not None for block in blocks if block.audio.size)
    assert FakeStream.last is not None
    assert FakeStream.last.closed
    assert FakeStream.last.settings["samplerate"] == 44_100


@pytest.mark.usefixtures("sounddevice")
def test_a_microphone_that_nobody_hears_tells_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "whisper_hailo.live.sources.microphone.Backlog", partial(Backlog, limit_s=0.25)
    )
    with MicrophoneSource("micro") as source:
        source.close()
        blocks = list(source.blocks())
    assert sum(block.audio.size for block in blocks) == 0.25 * SAMPLE_RATE_HZ
    assert sum(block.n_lost for block in blocks) == pytest.approx(0.75 * SAMPLE_RATE_HZ, abs=400)


def test_a_microphone_that_is_busy_absent_or_silent_is_told(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sounddevice, "query_devices", lambda: [*DEVICES, *DEVICES])
    with pytest.raises(DeviceError, match="cannot be opened"), MicrophoneSource("7"):
        pass
    monkeypatch.setattr(sounddevice, "query_devices", list)
    with pytest.raises(DeviceError, match="no microphone found"), MicrophoneSource():
        pass
    monkeypatch.setattr("whisper_hailo.live.sources.microphone._SILENT_S", 0.01)
    monkeypatch.setattr(sounddevice, "query_devices", lambda: DEVICES)
    monkeypatch.setattr(FakeStream, "start", lambda self: None)
    with MicrophoneSource() as source, pytest.raises(DeviceError, match="was it unplugged"):
        list(source.blocks())


def test_a_microphone_that_was_unplugged_is_found_again_by_its_name(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [{**DEVICES[1], "name": "USB Microphone (hw:1,0)"}, DEVICES[2]]
    monkeypatch.setattr(sounddevice, "query_devices", lambda: listed)
    began: list[str] = []
    monkeypatch.setattr(sounddevice, "_terminate", lambda: began.append("over"))
    monkeypatch.setattr(sounddevice, "_initialize", lambda: began.append("again"))
    source = MicrophoneSource("0")
    with source:
        assert (source.name, began) == ("USB Microphone (hw:1,0)", [])
    listed[:] = [DEVICES[2]]
    with pytest.raises(OptionError, match="no input device fits"), source:
        pass
    listed[:] = [DEVICES[2], DEVICES[0], {**DEVICES[1], "name": "USB Microphone (hw:2,0)"}]
    with source:
        assert source.name == "USB Microphone (hw:2,0)"
        assert FakeStream.last is not None
        assert FakeStream.last.settings["device"] == 2
    assert began == ["over", "again"] * 2, "PortAudio knows only devices that were there at first"


def test_the_sound_that_waited_at_a_microphone_goes_when_it_is_opened_again(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real streams that were closed stay, in a ring with what they call."""
    streams: list[FakeStream] = []
    made: list[weakref.ref[Backlog]] = []

    def stream(**settings: Any) -> FakeStream:
        streams.append(FakeStream(**settings))
        return streams[-1]

    class Noted(Backlog):
        def __init__(self) -> None:
            super().__init__()
            made.append(weakref.ref(self))

    monkeypatch.setattr(sounddevice, "InputStream", stream)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.Backlog", Noted)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone._SILENT_S", 0.01)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.LOOK_S", 1.0)
    gc.disable()  # which runs seldom where few things are made
    try:
        with ReopenedSource(MicrophoneSource("micro"), sleep=lambda _: None) as source:
            for _ in source.blocks():
                if len(made) > 3:
                    source.close()
            assert [ref() is None for ref in made[:-1]] == [True] * (len(made) - 1)
    finally:
        gc.enable()


def test_a_microphone_whose_library_hangs_is_left_and_opened_again(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    let_go, ended = threading.Event(), []
    monkeypatch.setattr("whisper_hailo.live.sources.microphone._CLOSING_S", 0.01)
    monkeypatch.setattr(FakeStream, "abort", lambda _self: let_go.wait())
    monkeypatch.setattr(sounddevice, "_terminate", lambda: ended.append("waits for it"))
    source = MicrophoneSource("micro")
    with source:
        pass
    with source:
        assert any(block.audio.size for block in source.blocks()), "it is heard again"
        let_go.set()
    assert not ended
    assert "does not let go of its stream" in caplog.text


@pytest.mark.usefixtures("sounddevice")
def test_a_microphone_whose_program_slept_tells_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(50.0, 0.032)
    times = (now_s + 20.0 * (now_s > 50.5) for now_s in clock)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.awake_s", lambda: next(times))
    monkeypatch.setattr("whisper_hailo.live.sources.lag._STEADY_S", 0.2)
    with MicrophoneSource("micro") as source:
        source.close()
        blocks = list(source.blocks())
    absences = [block.absence for block in blocks if block.absence is not None]
    assert [absence.why for absence in absences] == [
        "no sound came for 20.0 s: the program or the machine slept", "",
    ]  # fmt: skip
    assert absences[1].n_samples == pytest.approx(20 * SAMPLE_RATE_HZ, abs=0.05 * SAMPLE_RATE_HZ)
    before = sum(block.audio.size for block in blocks[: blocks.index(blocks[0]) + 1])
    assert before == pytest.approx(0.7 * SAMPLE_RATE_HZ, abs=0.1 * SAMPLE_RATE_HZ)


def test_microphones_without_the_library_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(DeviceError, match=re.escape(to_add("live"))):
        input_devices()


def test_an_address_that_gives_sound(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="the media extra is not installed")
    path = tmp_path / "a.flac"
    soundfile.write(path, tone(44_100, 2.0), 44_100)
    source = NetworkSource(f"file://{path}")
    with source:
        assert source.pace is Pace.ASKED
        audio = np.concatenate([block.audio for block in source.blocks()])
    assert audio.size == pytest.approx(2.0 * SAMPLE_RATE_HZ, abs=50)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 2.0)) > 0.9


@pytest.mark.parametrize("address", ["rtsp://camera/stream", "http://radio/stream"])
def test_an_address_without_the_library_is_one_line(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(AudioError, match="needs PyAV.*" + re.escape(to_add("media"))):
        NetworkSource(address).open()


def test_an_address_without_an_answer() -> None:
    pytest.importorskip("av", reason="the media extra is not installed")
    with pytest.raises(AudioError, match="cannot be opened"), NetworkSource("file:///no/such.mp3"):
        pass


def test_the_command_line_names_exactly_one_source(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="give one of"):
        open_source(None)
    with pytest.raises(OptionError, match="give one of"):
        open_source("a.wav", microphone="")
    assert isinstance(open_source(str(tmp_path / "a.wav")), FileSource)
    for source in (open_source("rtsp://camera/1"), open_source(None, microphone="usb")):
        assert isinstance(source, ReopenedSource)
    with pytest.raises(OptionError, match="--rate is 5 Hz"):
        PcmSource(0, 5)


class Stdin:
    """Standard input, as a pipe or as a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        return 0


@pytest.mark.parametrize("stdin", [None, Stdin(terminal=True)])
def test_a_terminal_is_no_pipe(monkeypatch: pytest.MonkeyPatch, stdin: object) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(OptionError, match="standard input is a terminal; pipe raw 16-bit"):
        open_source("-")


def test_a_pipe_goes_on_until_its_listener_has_enough_and_a_file_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(terminal=False))
    pipe = open_source("-", rate_hz=8_000)
    assert isinstance(pipe, PcmSource)
    assert (pipe.endless, pipe.pace) == (True, Pace.AHEAD)
    file = write(tmp_path / "a.wav", tone(SAMPLE_RATE_HZ, 0.1), SAMPLE_RATE_HZ)
    played = open_source(str(file))
    assert (played.endless, played.pace) == (False, Pace.ASKED)
    assert heard(played).size == 1600, "once, where nothing else is asked for"
    assert heard(open_source(str(file), loops=3)).size == 4800
    assert open_source(str(file), real_time=True).pace is Pace.AHEAD


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"RIFF\x00\x00\x00\x00WAVE", "a WAV file"),
        (b"fLaC\x00\x00\x00", "a FLAC file"),
        (b"OggS\x00\x02", "an OGG file"),
        (b"ID3\x04\x00", "an MP3 file"),
        (b"\xff\xfb\x90\x00", "an MP3 file"),
        (b"\x00\x00\x00\x20ftypM4A ", "an MP4 or M4A file"),
        (b"\x1aE\xdf\xa3\x01", "a Matroska or WebM file"),
    ],
)
def test_a_file_where_samples_are_expected_is_told(begin: bytes, kind: str) -> None:
    """It would be heard as noise, or as silence, and nobody would know why."""
    reading, writing = os.pipe()
    os.write(writing, begin + bytes(4000))
    os.close(writing)
    expected = f"begins as {kind}, expected raw 16-bit mono samples"
    with (
        os.fdopen(reading) as pipe,
        PcmSource(pipe.fileno()) as source,
        pytest.raises(AudioError, match=expected),
    ):
        list(source.blocks())


def test_samples_that_look_a_little_like_a_file_are_heard() -> None:
    reading, writing = os.pipe()
    os.write(writing, bytes(4) + b"RIFF" + bytes(4000))
    os.close(writing)
    with os.fdopen(reading) as pipe, PcmSource(pipe.fileno()) as source:
        assert sum(block.audio.size for block in source.blocks()) == 2004
