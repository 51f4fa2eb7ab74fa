"""Microphones: the chosen device, its channels and rate, and faults."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.live_sources import DEVICES, FakeStream
from tests.fakes.sounds import similarity, tone
from whisper_hailo.cli.caption_options import SourceOptions
from whisper_hailo.core.errors import DeviceError, OptionError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.sources.microphone import (
    MicrophoneSource,
    choose_device,
    list_input_devices,
)
from whisper_hailo.live.sources.source import AudioQueue, Block, Pace, ReopenedSource

GENEROUS_S = 300

HANGING_PROGRAM = """
import sys, threading
from types import SimpleNamespace
from tests.fakes.live_sources import DEVICES, FakeStream, PortAudioError
from whisper_hailo.live.sources import microphone

FakeStream.abort = lambda _self: threading.Event().wait()
microphone.CLOSE_TIMEOUT_S = 0.01
sys.modules["sounddevice"] = SimpleNamespace(
    query_devices=lambda: DEVICES,
    default=SimpleNamespace(device=(2, 0)),
    InputStream=FakeStream,
    PortAudioError=PortAudioError,
    _exit_handler=lambda: None,
)
with microphone.MicrophoneSource("micro") as source:
    pass
assert any(block.audio.size for block in source.blocks())
"""
"""Records from a device of 44.1 kHz whose library hangs when it is closed."""


def set_channels(
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    n_channels: int,
    rate_hz: float = 16_000.0,
) -> None:
    """Make a device with this number of channels the only one."""
    device = {
        "name": "Desk",
        "max_input_channels": n_channels,
        "default_samplerate": rate_hz,
    }
    monkeypatch.setattr(module, "query_devices", lambda: [device])


def record_pieces(source: MicrophoneSource, *pieces: FloatArray) -> list[Block]:
    """Return the blocks made of `(n_samples, n_channels)` pieces of a sound card."""
    with source:
        assert FakeStream.last is not None
        for piece in pieces:
            FakeStream.last.settings["callback"](piece, piece.shape[0], None, "")
        source.close()
        return list(source.blocks())


@pytest.fixture
def silent_streams(
    monkeypatch: pytest.MonkeyPatch, sounddevice: SimpleNamespace
) -> SimpleNamespace:
    """Streams that deliver only what a test passes to their callback."""
    monkeypatch.setattr(FakeStream, "start", lambda self: None)
    return sounddevice


def test_choose_device_without_default_takes_the_first(
    monkeypatch: pytest.MonkeyPatch,
    sounddevice: SimpleNamespace,
) -> None:
    monkeypatch.setattr(sounddevice, "default", SimpleNamespace(device=(-1, -1)))
    assert choose_device("").name == "USB Microphone"
    monkeypatch.setattr(sounddevice, "query_devices", lambda: DEVICES[:2])
    assert choose_device("").name == "USB Microphone"


@pytest.mark.usefixtures("silent_streams")
def test_choose_device_prefers_the_given_name_at_reopening() -> None:
    assert choose_device("camera", "USB Camera (hw:1,0)").index == 2
    assert choose_device("camera", "USB Microphone (hw:1,0)").index == 2
    assert choose_device("2", "USB Microphone (hw:1,0)").index == 1


def test_choose_device_of_two_alike_takes_the_first(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = [{**DEVICES[1], "name": f"USB Microphone (hw:{card},0)"} for card in (2, 3)]
    monkeypatch.setattr(sounddevice, "query_devices", lambda: [DEVICES[0], *alike])
    assert choose_device("7", "USB Microphone (hw:1,0)").index == 1


@pytest.mark.parametrize(("n_channels", "n_opened"), [(1, 1), (2, 2), (8, 2)])
def test_microphone_gives_mean_of_first_two_channels(
    silent_streams: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    n_channels: int,
    n_opened: int,
) -> None:
    set_channels(monkeypatch, silent_streams, n_channels)
    (block,) = record_pieces(
        MicrophoneSource(), np.full((512, n_opened), 0.5, np.float32)
    )
    assert FakeStream.last is not None
    settings = FakeStream.last.settings
    assert settings["channels"] == n_opened
    assert settings["samplerate"] == 16_000
    assert settings["blocksize"] == 512
    assert settings["dtype"] == "float32"
    np.testing.assert_array_equal(block.audio, np.full(512, 0.5))
    assert block.n_faults == 0


@pytest.mark.usefixtures("silent_streams")
def test_microphone_close_waits_and_closes_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PortAudio reports an error when a stream is closed twice."""
    closed = []
    waited_for = threading.Event()
    join = threading.Thread.join

    def wait(thread: threading.Thread, timeout: float | None = None) -> None:
        waited_for.set()
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", wait)
    monkeypatch.setattr(FakeStream, "abort", lambda _: waited_for.wait(60))
    monkeypatch.setattr(FakeStream, "close", lambda _: closed.append(1))
    with MicrophoneSource("camera") as source:
        source.close()
    assert closed == [1]
    assert caplog.messages == []


@pytest.mark.usefixtures("silent_streams")
def test_microphone_not_open_has_the_given_name() -> None:
    assert SourceOptions(mic="usb").make_source(None).name == "microphone usb"
    assert SourceOptions(mic="default").make_source(None).name == "microphone"
    source = MicrophoneSource("camera")
    assert source.pace == Pace.PULL
    assert source.endless


@pytest.mark.usefixtures("silent_streams")
def test_microphone_without_samples_raises_after_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time-out is 0.25 s, polled every 0.125 s; it has to be exceeded."""
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.SILENCE_TIMEOUT_S", 0.25)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.POLL_S", 0.125)
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 0.0)
    with MicrophoneSource("camera") as source:
        assert FakeStream.last is not None
        blocks = source.blocks()
        given = np.zeros((48_000, 2), np.float32)
        assert [next(blocks).audio.size for _ in range(2)] == [0, 0]
        FakeStream.last.settings["callback"](given, 48_000, None, "")
        assert next(blocks).audio.size == pytest.approx(SAMPLE_RATE_HZ, abs=400)
        assert [next(blocks).audio.size for _ in range(2)] == [0, 0]
        with pytest.raises(DeviceError):
            next(blocks)


@pytest.mark.usefixtures("sounddevice")
def test_list_input_devices_has_only_inputs() -> None:
    devices = list_input_devices()
    assert [device.name for device in devices] == [
        "USB Microphone",
        "USB Camera",
        "Busy",
    ]
    assert [device.is_default for device in devices] == [False, True, False]


@pytest.mark.usefixtures("sounddevice")
def test_choose_device_takes_number_name_or_default() -> None:
    assert choose_device("").name == "USB Camera"
    assert choose_device("1").name == "USB Microphone"
    assert choose_device("micro").index == 1
    with pytest.raises(OptionError, match=r"several devices .* 1: USB Microphone"):
        choose_device("usb")
    with pytest.raises(OptionError, match="no input device"):
        choose_device("0")


@pytest.mark.usefixtures("sounddevice")
def test_microphone_of_44100_hz_gives_16_khz_and_overruns() -> None:
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
def test_microphone_not_read_counts_lost_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.live.sources.microphone.AudioQueue",
        partial(AudioQueue, limit_s=0.25),
    )
    with MicrophoneSource("micro") as source:
        source.close()
        blocks = list(source.blocks())
    assert sum(block.audio.size for block in blocks) == pytest.approx(
        0.25 * SAMPLE_RATE_HZ, abs=512
    )
    assert sum(block.n_lost for block in blocks) == pytest.approx(
        0.75 * SAMPLE_RATE_HZ, abs=900
    )


def test_microphone_busy_absent_or_silent_raises(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sounddevice, "query_devices", lambda: [*DEVICES, *DEVICES])
    with pytest.raises(DeviceError, match=DEVICES[3]["name"]), MicrophoneSource("7"):
        pass
    monkeypatch.setattr(sounddevice, "query_devices", list)
    with pytest.raises(DeviceError, match="no microphone"), MicrophoneSource():
        pass
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.SILENCE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(sounddevice, "query_devices", lambda: DEVICES)
    monkeypatch.setattr(FakeStream, "start", lambda self: None)
    with MicrophoneSource() as source, pytest.raises(DeviceError, match="unplugged"):
        list(source.blocks())


def test_microphone_reopened_is_found_by_its_name(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [{**DEVICES[1], "name": "USB Microphone (hw:1,0)"}, DEVICES[2]]
    monkeypatch.setattr(sounddevice, "query_devices", lambda: listed)
    calls: list[str] = []
    monkeypatch.setattr(sounddevice, "_terminate", lambda: calls.append("over"))
    monkeypatch.setattr(sounddevice, "_initialize", lambda: calls.append("again"))
    source = MicrophoneSource("0")
    with source:
        assert source.name == "USB Microphone (hw:1,0)"
        assert calls == []
    listed[:] = [DEVICES[2]]
    with pytest.raises(OptionError), source:
        pass
    listed[:] = [
        DEVICES[2],
        DEVICES[0],
        {**DEVICES[1], "name": "USB Microphone (hw:2,0)"},
    ]
    with source:
        assert source.name == "USB Microphone (hw:2,0)"
        assert FakeStream.last is not None
        assert FakeStream.last.settings["device"] == 2
    assert calls == ["over", "again"] * 2, (
        "PortAudio lists devices only when it is initialised"
    )


@pytest.mark.usefixtures("sounddevice")
def test_microphone_reopened_drops_waiting_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A closed stream of sounddevice stays in memory, in a reference cycle with its callback."""
    made: list[AudioQueue] = []

    class RecordedQueue(AudioQueue):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(
        "whisper_hailo.live.sources.microphone.AudioQueue", RecordedQueue
    )
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.SILENCE_TIMEOUT_S", 0.01)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.POLL_S", 1.0)
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 0.0)
    with ReopenedSource(MicrophoneSource("micro"), sleep=lambda _: None) as source:
        for _ in source.blocks():
            if len(made) > 3:
                source.close()
    assert [next(queue.blocks()).audio.size for queue in made[:-1]] == [0] * 3


def test_microphone_with_hanging_library_can_be_reopened(
    sounddevice: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    may_abort = threading.Event()
    ended = []
    unregistered = []
    monkeypatch.setattr("atexit.unregister", unregistered.append)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.CLOSE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(FakeStream, "abort", lambda _self: may_abort.wait())
    monkeypatch.setattr(sounddevice, "_terminate", lambda: ended.append("waits for it"))
    source = MicrophoneSource("micro")
    with source:
        pass
    with source:
        assert any(block.audio.size for block in source.blocks()), "reopened"
        may_abort.set()
    assert not ended
    assert unregistered == [sounddevice._exit_handler], (
        "the program would hang at its end, too"
    )
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_list_input_devices_without_library_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(DeviceError, match=re.escape(install_command("live"))):
        list_input_devices()


@pytest.mark.slow
def test_microphone_with_hanging_library_leaks_no_resampler() -> None:
    """soxr reports what is alive when Python ends, such as in a thread that hangs."""
    result = subprocess.run(
        [sys.executable, "-c", HANGING_PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=GENEROUS_S,
    )
    assert result.returncode == 0, result.stderr
    assert "nanobind" not in result.stderr
