"""Recordings joined to a stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.captions.streams import choose_unbroken, join_recordings
from whisper_hailo_lab.data.speech import SpeechRecording


def test_join_recordings_keeps_times_and_sets_levels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    sounds = {
        f"r{i}": rng.normal(0, 10.0**-i, 16_000).astype(np.float32) for i in range(4)
    }
    monkeypatch.setattr(SpeechRecording, "load", lambda self: sounds[self.id])
    recordings = [
        SpeechRecording("read", name, f"text {name}", "en", 1.0, "", (Path(name),))
        for name in sounds
    ]
    joined = join_recordings(recordings, 60.0, seed="a")
    again = join_recordings(recordings[::-1], 60.0, seed="a")
    np.testing.assert_array_equal(joined.audio, again.audio)
    assert len(joined.utterances) == 4
    for said in joined.utterances:
        begin, end = (
            round(at_s * SAMPLE_RATE_HZ) for at_s in (said.start_s, said.end_s)
        )
        level_db = 20 * np.log10(np.sqrt(np.mean(joined.audio[begin:end] ** 2)))
        assert -32.1 < level_db < -21.9
        assert end - begin == 16_000
    assert len(join_recordings(recordings, 2.6, seed="a").utterances) == 2


def test_choose_unbroken_takes_long_recordings_of_people() -> None:
    recordings = [
        SpeechRecording(set_name, text, text, language, seconds, "", (Path(text),))
        for set_name, text, language, seconds in (
            ("long_form", "long", "de", 20.0),
            ("fleurs", "another", "de", 10.0),
            ("long_form", "short", "de", 5.0),
            ("long_form", "english", "en", 20.0),
            ("asterisk_de", "announcement", "de", 20.0),
        )
    ]
    chosen = choose_unbroken(recordings, "de")
    assert [recording.text for recording in chosen] == ["another", "long"]
