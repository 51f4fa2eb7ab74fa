from pathlib import Path

import numpy as np
import pytest
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo_lab.accuracy.word_edges import (
    ClipEdges,
    find_clip_edges,
    find_edge_errors,
    measure_edges,
)
from whisper_hailo_lab.data.speech import SpeechRecording

ASSETS = Path(__file__).parents[4] / "src" / "whisper_hailo" / "assets"
EDGES = [ClipEdges(0.0, 2.0, 0.5, 1.5), ClipEdges(3.0, 5.0, 3.25, 4.75)]


def test_find_edge_errors_compares_words_with_speech() -> None:
    words = [(0.6, 1.0), (1.0, 1.25), (2.9, 3.5), (3.5, 5.0)]
    errors = find_edge_errors(words, EDGES)
    assert errors.starts == pytest.approx((0.1, -0.35))
    assert errors.ends == pytest.approx((-0.25, 0.25))
    assert errors.n_words == 4
    assert errors.n_across == 0


def test_find_edge_errors_counts_words_across_a_pause() -> None:
    across = [(0.5, 1.0), (1.9, 3.2), (3.4, 4.0)]
    assert find_edge_errors(across, EDGES).n_across == 1
    assert find_edge_errors([(1.5, 2.4)], EDGES).n_across == 0, (
        "ends in the pause, near its own clip"
    )


def test_find_edge_errors_ignores_clips_without_words() -> None:
    assert find_edge_errors([(0.5, 1.5)], EDGES).starts == (0.0,)
    assert find_edge_errors([], EDGES).starts == ()


@pytest.fixture
def joined(tmp_path: Path) -> SpeechRecording:
    """Speech after half a second of silence, a pause of a second, and the same again."""
    speech = load_audio(ASSETS / "jfk.flac")[:48_000]
    path = tmp_path / "clip.wav"
    soundfile.write(path, np.concatenate([np.zeros(8000, np.float32), speech]), 16_000)
    return SpeechRecording(
        "joined", "x", "", "en", 8.0, "", (path, path), pauses=(16_000,)
    )


def test_find_clip_edges_follow_the_speech(joined: SpeechRecording) -> None:
    first, second = find_clip_edges(joined)
    assert first.start_s == 0.0
    assert first.end_s == 3.5
    assert second.start_s == 4.5
    assert second.end_s == 8.0
    assert 0.5 <= first.speech_start_s <= 1.0
    assert second.speech_start_s == pytest.approx(first.speech_start_s + 4.5)
    assert first.speech_start_s < first.speech_end_s <= first.end_s


def test_measure_edges_has_medians(joined: SpeechRecording) -> None:
    edges = find_clip_edges(joined)
    words = [(edge.speech_start_s + 0.2, edge.speech_end_s - 0.1) for edge in edges]
    (row,) = measure_edges("ours", lambda _: words, [joined]).rows
    assert row == ("ours", "2", "0.20 s", "0.20 s", "0.10 s", "0.10 s", "2", "0")
