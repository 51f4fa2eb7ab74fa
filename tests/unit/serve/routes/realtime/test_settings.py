"""Settings of realtime sessions."""

from __future__ import annotations

import pytest

from whisper_hailo.serve.routes.realtime.protocol import SessionError
from whisper_hailo.serve.routes.realtime.settings import RealtimeSettings


@pytest.mark.parametrize(
    ("eagerness", "silence_s"), [("high", 0.5), ("auto", 0.7), ("low", 1.25)]
)
def test_settings_semantic_vad_waits_by_eagerness(
    eagerness: str, silence_s: float
) -> None:
    turns = {"type": "semantic_vad", "eagerness": eagerness}
    changes = {"audio": {"input": {"turn_detection": turns}}}
    settings = RealtimeSettings.for_model("micro").with_changes(changes)
    detection = settings.input.turn_detection
    assert detection is not None
    assert detection.silence_s == silence_s
    back = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
    assert settings.with_changes(back) == RealtimeSettings.for_model("micro")


@pytest.mark.parametrize("model", ["gpt-live-transcribe", "gpt-realtime-whisper"])
def test_settings_models_without_turns_leave_them_out(model: str) -> None:
    assert RealtimeSettings.for_model(model).input.turn_detection is None
    settings = RealtimeSettings.for_model("micro")
    changes = {"audio": {"input": {"transcription": {"model": model}}}}
    assert settings.with_changes(changes).input.turn_detection is None
    turns = {"turn_detection": {"type": "server_vad"}}
    changes["audio"]["input"] |= turns
    assert settings.with_changes(changes).input.turn_detection is not None


@pytest.mark.parametrize(
    ("sample_format", "rate_hz"),
    [
        ({"type": "audio/pcm"}, 24_000),
        ({"type": "audio/pcm", "rate": 24_000}, 24_000),
        ({"type": "audio/pcm", "rate": 16_000}, 16_000),
        ({"type": "audio/pcmu"}, 8_000),
        ({"type": "audio/pcma", "rate": 24_000}, 8_000),
    ],
)
def test_settings_format_has_the_rate_of_its_kind(
    sample_format: dict[str, object], rate_hz: int
) -> None:
    changes = {"audio": {"input": {"format": sample_format}}}
    settings = RealtimeSettings.for_model("micro").with_changes(changes)
    assert settings.input.format.rate_hz == rate_hz


@pytest.mark.parametrize("rate", [0, 1, 44_100, "x", 1e400])
def test_settings_other_rates_are_refused(rate: object) -> None:
    changes = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": rate}}}}
    with pytest.raises(SessionError):
        RealtimeSettings.for_model("micro").with_changes(changes)
