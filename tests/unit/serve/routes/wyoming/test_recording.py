"""Recordings of Wyoming sessions."""

from __future__ import annotations

import pytest
from wyoming.audio import AudioChunk

from tests.fakes.micro_service import MicroService
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.routes.wyoming import recording

pytestmark = pytest.mark.slow


def test_recording_with_little_audio_loses_patience(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    clock_name = f"{recording.__name__}.time.monotonic"
    monkeypatch.setattr(clock_name, lambda: clock[0])
    limits = LimitOptions()
    chunk = AudioChunk(16_000, 2, 1, bytes(32_000)).event()
    drop = AudioChunk(16_000, 2, 1, bytes(2)).event()
    with (
        recording.WyomingRecording(limits, Quota(limits)) as live,
        recording.WyomingRecording(limits, Quota(limits)) as dripping,
    ):
        for _ in range(40):
            live.add_chunk(chunk, 0.7)
            clock[0] += 1.0
        dripping.add_chunk(drop, 0.7)
        assert live.patience_s == 60.0
        assert dripping.patience_s == pytest.approx(20.0, abs=0.1)
        clock[0] += 30.0
        assert dripping.patience_s == 0.0
