"""Microphones with one channel or several: which is heard, and how it is recorded."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.portaudio import DEVICES, FakeStream
from tests.fakes.sounds import similarity, tone
from whisper_hailo.cli.caption_options import SourceOptions
from whisper_hailo.core.errors import DeviceError, OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.sources.microphone import (
    MicrophoneSource,
    choose_device,
    list_input_devices,
)
from whisper_hailo.live.sources.source import Block, Pace


def of_channels(
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    n_channels: int,
    rate_hz: float = 16_000.0,
) -> None:
    """The only device has so many."""
    device = {
        "name": "Desk",
        "max_input_channels": n_channels,
        "default_samplerate": rate_hz,
    }
    monkeypatch.setattr(module, "query_devices", lambda: [device])


def recorded(source: MicrophoneSource, *pieces: FloatArray) -> list[Block]:
    """What is given of what the sound card gives, `(n_samples, n_channels)` each."""
    with source:
        assert FakeStream.last is not None
        for piece in pieces:
            FakeStream.last.settings["callback"](piece, piece.shape[0], None, "")
        source.close()
        return list(source.blocks())


@pytest.fixture
def silent(
    monkeypatch: pytest.MonkeyPatch, sounddevice: SimpleNamespace
) -> SimpleNamespace:
    """Streams give what a test gives them."""
    monkeypatch.setattr(FakeStream, "start", lambda self: None)
    return sounddevice


def test_first_device_is_default_where_system_names_none(
    monkeypatch: pytest.MonkeyPatch,
    sounddevice: SimpleNamespace,
) -> None:
    monkeypatch.setattr(sounddevice, "default", SimpleNamespace(device=(-1, -1)))
    assert choose_device("").name == "USB Microphone"
    monkeypatch.setattr(sounddevice, "query_devices", lambda: DEVICES[:2])
    assert choose_device("").name == "USB Microphone"


@pytest.mark.usefixtures("silent")
def test_device_asked_for_by_name_is_found_by_it_again() -> None:
    assert choose_device("camera", "USB Camera (hw:1,0)").index == 2
    assert choose_device("camera", "USB Microphone (hw:1,0)").index == 2
    assert choose_device("2", "USB Microphone (hw:1,0)").index == 1


def test_of_two_devices_that_are_alike_the_first_is_found_again(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = [{**DEVICES[1], "name": f"USB Microphone (hw:{card},0)"} for card in (2, 3)]
    monkeypatch.setattr(sounddevice, "query_devices", lambda: [DEVICES[0], *alike])
    assert choose_device("7", "USB Microphone (hw:1,0)").index == 1


@pytest.mark.parametrize(("n_channels", "n_heard"), [(1, 1), (2, 2), (8, 2)])
def test_mean_of_the_first_two_channels_is_heard(
    silent: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    n_channels: int,
    n_heard: int,
) -> None:
    of_channels(monkeypatch, silent, n_channels)
    (block,) = recorded(MicrophoneSource(), np.full((512, n_heard), 0.5, np.float32))
    assert FakeStream.last is not None
    settings = FakeStream.last.settings
    assert (settings["channels"], settings["samplerate"]) == (n_heard, 16_000)
    assert (settings["blocksize"], settings["dtype"]) == (512, "float32")
    np.testing.assert_array_equal(block.audio, np.full(512, 0.5))
    assert block.n_faults == 0


@pytest.mark.usefixtures("silent")
def test_microphone_is_closed_once_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PortAudio takes another time for an error."""
    closed, waited_for, join = [], threading.Event(), threading.Thread.join

    def wait(thread: threading.Thread, timeout: float | None = None) -> None:
        waited_for.set()
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", wait)
    monkeypatch.setattr(FakeStream, "abort", lambda _: waited_for.wait(60))
    monkeypatch.setattr(FakeStream, "close", lambda _: closed.append(1))
    with MicrophoneSource("camera") as source:
        source.close()
    assert (closed, caplog.messages) == ([1], [])


@pytest.mark.usefixtures("silent")
def test_microphone_has_name_that_was_asked_for_until_it_is_open() -> None:
    assert SourceOptions(mic="usb").make_source(None).name == "microphone usb"
    assert SourceOptions(mic="default").make_source(None).name == "microphone"
    source = MicrophoneSource("camera")
    assert (source.pace, source.endless) == (Pace.PULL, True)


@pytest.mark.usefixtures("silent")
def test_microphone_is_gone_when_it_was_silent_for_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quarter of a second, looked at each eighth: it has to be more."""
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.SILENCE_TIMEOUT_S", 0.25)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.POLL_S", 0.125)
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 0.0)
    with MicrophoneSource("camera") as source:
        assert FakeStream.last is not None
        blocks, given = source.blocks(), np.zeros((48_000, 2), np.float32)
        assert [next(blocks).audio.size for _ in range(2)] == [0, 0]
        FakeStream.last.settings["callback"](given, 48_000, None, "")
        assert next(blocks).audio.size == pytest.approx(SAMPLE_RATE_HZ, abs=400)
        assert [next(blocks).audio.size for _ in range(2)] == [0, 0]
        with pytest.raises(DeviceError, match="was it unplugged"):
            next(blocks)


@pytest.mark.usefixtures("sounddevice")
def test_only_devices_that_hear_are_listed() -> None:
    devices = list_input_devices()
    assert [device.name for device in devices] == [
        "USB Microphone",
        "USB Camera",
        "Busy",
    ]
    assert [device.is_default for device in devices] == [False, True, False]


@pytest.mark.usefixtures("sounddevice")
def test_device_is_chosen_by_number_by_name_or_by_default() -> None:
    assert choose_device("").name == "USB Camera"
    assert choose_device("1").name == "USB Microphone"
    assert choose_device("micro").index == 1
    with pytest.raises(
        OptionError, match="several devices fit; there are 1: USB Microphone"
    ):
        choose_device("usb")
    with pytest.raises(OptionError, match="no input device matches"):
        choose_device("0")


@pytest.mark.usefixtures("sounddevice")
def test_microphone_of_any_rate_gives_16_khz_mono_and_overruns() -> None:
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
