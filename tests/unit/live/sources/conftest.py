"""The stand-in for PortAudio in the place of the library of microphones."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tests.fakes.live_sources import DEVICES, FakeStream, PortAudioError


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
