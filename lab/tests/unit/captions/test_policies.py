"""Captions of joined recordings by the clock of a free core: what was shown, and how late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes.scripted_speech import Loudness, Speller, quick, silence, speech
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText
from whisper_hailo_lab.captions import policies
from whisper_hailo_lab.captions.latency import Utterance
from whisper_hailo_lab.captions.policies import (
    SpokenStream,
    figures_of,
    join_recordings,
    play_stream,
)
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_lab.documents.captions import PARTS


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> SpokenStream:
    """Two utterances of four words each, a second apart."""
    monkeypatch.setattr(policies, "make_detector", Loudness)
    said = speech(range(4))
    audio = np.concatenate([silence(1.0), said, silence(1.0), said, silence(1.0)])
    length_s = said.size / SAMPLE_RATE_HZ
    begins_s = (1.0, 2.0 + length_s)
    return SpokenStream(
        audio,
        tuple(Utterance("w0 w1 w2 w3", at_s, at_s + length_s) for at_s in begins_s),
    )


def test_play_stream_shows_words_soon(stream: SpokenStream) -> None:
    figures = figures_of(play_stream(Speller(), stream, quick()), stream)
    assert (figures["wer"], figures["words"]) == (0.0, 8)
    assert 0.05 < figures["first_s_median"] < 0.7
    assert 0.05 < figures["final_s_median"] < 0.5
    assert figures["behind_s"] < 0.2


def test_play_stream_on_a_slower_core_falls_behind(
    stream: SpokenStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = {"s": 0.0}
    monkeypatch.setattr(policies.time, "thread_time", lambda: processor["s"])

    class Busy(Speller):
        def transcribe(self, *given: Any, **named: Any) -> BufferText:
            processor["s"] += 0.05
            return super().transcribe(*given, **named)

    fast, slow = (
        figures_of(play_stream(Busy(), stream, quick(), slower), stream)
        for slower in (1.0, 10.0)
    )
    assert (fast["behind_s"], slow["behind_s"]) == pytest.approx((0.03, 0.48), abs=0.04)
    assert slow["partials"] < fast["partials"]
    assert slow["final_s_median"] == pytest.approx(
        fast["final_s_median"] + 0.45, abs=0.1
    )
    assert slow["wer"] == fast["wer"] == 0.0


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


def test_policies_table_has_a_row_for_each_policy() -> None:
    about = {"model": "base", "encoder": "30 s"}
    times = {
        "first_s_median": 1.0, "first_s_p95": 2.0, "final_s_median": 0.5, "final_s_p95": 1.0,
        "rewritten": 0.5, "share": 0.1, "behind_s": 0.2,
    }  # fmt: skip
    rows = [
        about | {"policy": "offline", "speech": "read", "wer": 4.0},
        about | {"policy": "offline", "speech": "noisy", "wer": 8.0},
        about | times | {"policy": "agreement", "speech": "read", "wer": 5.0},
        about
        | times
        | {"policy": "agreement", "speech": "noisy", "wer": 9.0, "share": 0.3},
    ]
    table = PARTS["policies"]({"models": ["base"], "rows": rows})
    assert [row[2:5] for row in table.rows] == [
        ("offline", "4.0", "8.0"),
        ("agreement", "5.0", "9.0"),
    ]
    assert [row[-2:] for row in table.rows] == [("", ""), ("0.20", "0.20")]


def test_unbroken_table_has_a_row_for_each_model_and_language() -> None:
    row = {
        "model": "base", "language": "de", "seconds": 100.0, "settle_s_median": 2.04,
        "settle_s_p95": 4.9, "rewritten": 0.5, "partials": 90, "skipped_partials": 3,
        "share": 0.3, "wer": 9.0, "whole_wer": 8.5,
    }  # fmt: skip
    table = PARTS["unbroken"]({"models": ["base"], "rows": [row]})
    assert list(table.rows[0]) == [
        "base", "de", "100", "2.0, 4.9", "0.50", "90, 3", "0.30", "9.0", "8.5",
    ]  # fmt: skip
