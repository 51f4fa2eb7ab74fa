"""Microphones that are busy, absent, silent or hang."""

from __future__ import annotations

import re
import sys
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from tests.fakes.portaudio import DEVICES, FakeStream
from whisper_hailo.core.errors import DeviceError, OptionError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.microphone import MicrophoneSource, list_input_devices
from whisper_hailo.live.sources.source import AudioQueue, ReopenedSource


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
