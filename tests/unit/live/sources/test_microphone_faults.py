"""Microphones that are busy, lost, silent or hang, and what is told of it."""

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
def test_microphone_that_nobody_hears_tells_what_is_lost(
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


def test_microphone_that_is_busy_absent_or_silent_is_told(
    sounddevice: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sounddevice, "query_devices", lambda: [*DEVICES, *DEVICES])
    with pytest.raises(DeviceError, match="cannot be opened"), MicrophoneSource("7"):
        pass
    monkeypatch.setattr(sounddevice, "query_devices", list)
    with pytest.raises(DeviceError, match="no microphone found"), MicrophoneSource():
        pass
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.SILENCE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(sounddevice, "query_devices", lambda: DEVICES)
    monkeypatch.setattr(FakeStream, "start", lambda self: None)
    with (
        MicrophoneSource() as source,
        pytest.raises(DeviceError, match="was it unplugged"),
    ):
        list(source.blocks())


def test_unplugged_microphone_is_found_again_by_its_name(
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
    with pytest.raises(OptionError, match="no input device matches"), source:
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
    assert began == ["over", "again"] * 2, (
        "PortAudio knows only devices that were there at first"
    )


@pytest.mark.usefixtures("sounddevice")
def test_sound_waiting_at_a_microphone_goes_when_it_is_reopened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Real streams that were closed stay for hours, in a ring with what they call."""
    made: list[AudioQueue] = []

    class Noted(AudioQueue):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr("whisper_hailo.live.sources.microphone.AudioQueue", Noted)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.SILENCE_TIMEOUT_S", 0.01)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.POLL_S", 1.0)
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 0.0)
    with ReopenedSource(MicrophoneSource("micro"), sleep=lambda _: None) as source:
        for _ in source.blocks():
            if len(made) > 3:
                source.close()
    assert [next(queue.blocks()).audio.size for queue in made[:-1]] == [0] * 3


def test_microphone_whose_library_hangs_is_left_and_opened_again(
    sounddevice: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go, ended, left_alone = threading.Event(), [], []
    monkeypatch.setattr("atexit.unregister", left_alone.append)
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.CLOSE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(FakeStream, "abort", lambda _self: let_go.wait())
    monkeypatch.setattr(sounddevice, "_terminate", lambda: ended.append("waits for it"))
    source = MicrophoneSource("micro")
    with source:
        pass
    with source:
        assert any(block.audio.size for block in source.blocks()), "it is heard again"
        let_go.set()
    assert not ended
    assert left_alone == [sounddevice._exit_handler], (
        "the end of the program would wait, too"
    )
    assert "does not close its stream" in caplog.text


def test_microphones_without_the_library_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(DeviceError, match=re.escape(install_command("live"))):
        list_input_devices()
