"""Figures of a checkpoint, on constructed outputs."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("jiwer")

from lab.training import whisper_vocabulary as ids  # noqa: E402
from lab.training.evaluate import (  # noqa: E402
    Greedy,
    Recognizer,
    prompt_of,
)
from lab.training.kept_tokens import KeptTokens  # noqa: E402
from lab.training.measure import (  # noqa: E402
    Clips,
    boundaries,
    detection,
    segment_times,
    text_figures,
)
from lab.training.model import Dimensions, Whisper  # noqa: E402
from lab.training.targets import Task  # noqa: E402


def time_id(seconds: float) -> int:
    return ids.FIRST_TIMESTAMP + round(seconds / ids.TIMESTAMP_STEP_S)


class ScriptedRecognizer(Recognizer):
    """Returns given tokens and languages for any audio."""

    lines: tuple[list[int], ...] = ()
    codes: tuple[str, ...] = ()

    def tokens(
        self, clips: list[np.ndarray], task: Task
    ) -> tuple[list[list[int]], list[float]]:
        assert task.timestamps
        return list(self.lines), [0.0] * len(clips)

    def languages(self, clips: list[np.ndarray]) -> list[str]:
        return list(self.codes)


def make_recognizer(
    lines: list[list[int]] = (), codes: list[str] = ()
) -> ScriptedRecognizer:  # type: ignore[assignment]
    class Now(ScriptedRecognizer):
        pass

    Now.lines = tuple(lines)
    Now.codes = tuple(codes)
    return Now.__new__(Now)


def make_clips(*sentences: list[tuple[float, float]], language: str = "en") -> Clips:
    entries: list[dict[str, Any]] = [
        {
            "language": language,
            "sentences": [{"start_s": a, "end_s": b} for a, b in pairs],
        }
        for pairs in sentences
    ]
    return Clips([np.zeros(8, np.float32)] * len(entries), entries)


def test_boundaries_split_starts_and_ends() -> None:
    line = [time_id(0.1), 5, 6, time_id(1.0), time_id(1.5), 7, time_id(2.0)]
    starts, ends = boundaries(line)
    assert starts == pytest.approx([0.1, 1.5])
    assert ends == pytest.approx([1.0, 2.0])


def test_segment_times_counts_near_boundaries() -> None:
    lines = [
        [time_id(0.1), 5, time_id(1.3), time_id(1.5), 6, time_id(2.0)],
        [time_id(0.0), 5, time_id(3.0)],
    ]
    figures = segment_times(
        make_recognizer(lines), [make_clips([(0.0, 1.0), (1.5, 2.1)], [(0.2, 2.5)])]
    )
    # Late by 0.3 s: the end of the first sentence; by 0.5 s: the end of the last.
    assert figures == {
        "boundaries": 6,
        "within": 4,
        "share": 66.7,
        "clips": 2,
        "same_number_of_segments": 2,
    }


def test_detection_counts_correct_clips() -> None:
    figures = detection(
        make_recognizer(codes=["en", "de"]), [make_clips([(0, 1)], [(0, 1)])]
    )
    assert figures == {"clips": 2, "correct": 1, "share": 50.0}


def test_text_figures_have_counts_and_rate() -> None:
    figures = text_figures(["the cat sat down"], ["the hat sat"], "en")
    assert figures["words"] == 4
    assert figures["substitutions"] == 1
    assert figures["deletions"] == 1
    assert figures["wer"] == 50.0


def test_prompt_of_has_language_task_and_times() -> None:
    assert prompt_of(Task()) == (50258, 50259, 50359, 50363)
    assert prompt_of(Task("de", translate=True, timestamps=True)) == (
        50258,
        50261,
        50358,
    )


def test_greedy_with_timestamps_begins_with_a_time() -> None:
    torch.manual_seed(0)
    kept = KeptTokens(
        (5, 9, ids.EOT, *prompt_of(Task()), ids.NO_SPEECH, time_id(0), time_id(0.4))
    )
    kept = KeptTokens(tuple(sorted(kept.ids)))
    model = Whisper(Dimensions(n_encoder_layers=1, n_decoder_layers=1), len(kept.ids))
    audio = torch.randn(3, 16_000) * 0.1
    lines, no_speech = Greedy(model, kept).run(
        audio, 0, Task(timestamps=True), max_tokens=4
    )
    assert all(line[0] >= ids.FIRST_TIMESTAMP for line in lines if line)
    assert all(0.0 < p < 1.0 for p in no_speech)
    assert Greedy(model, kept).languages(audio, 0) == ["en"] * 3
