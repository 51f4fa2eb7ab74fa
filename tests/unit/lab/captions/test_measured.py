"""The benchmark of live captions: its conversation, its tables, its forced decoder."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.unit.decoding.search.oracle import Oracle
from tests.unit.shapes import TOY_TOKENS
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo_lab.captions.cost import ForcedDecoder
from whisper_hailo_lab.captions.stream import conversation, reading
from whisper_hailo_lab.documents.captions import PARTS, RESULT


def test_a_conversation_is_the_same_each_time(tmp_path: Path) -> None:
    first = conversation(tmp_path / "a.flac", 0.1)
    again = conversation(tmp_path / "b.flac", 0.1)
    assert first.read_bytes() == again.read_bytes()
    audio, rate_hz = soundfile.read(first)
    assert rate_hz == 16_000
    assert audio.size >= 6 * 16_000
    assert np.abs(audio[:4000]).max() > 0, "there is noise where nobody speaks"
    assert first.with_suffix(".txt").read_text().strip()


def test_somebody_who_reads_pauses_between_recordings_only_for_a_moment(tmp_path: Path) -> None:
    first = reading(tmp_path / "a.flac", 0.5)
    assert first.read_bytes() == reading(tmp_path / "b.flac", 0.5).read_bytes()
    audio, rate_hz = soundfile.read(first)
    assert audio.size >= 30 * rate_hz
    loud = np.flatnonzero(np.abs(audio) > 0.1)
    assert np.diff(loud).max() < 2 * rate_hz
    texts = first.with_suffix(".txt").read_text()
    assert texts.startswith("Is that Mister Patterson")
    assert "Jungle Portuguese" in texts


@pytest.mark.parametrize("stream", ["paired", "reading"])
def test_drafts_changed_no_text_of_the_streams_that_were_measured(stream: str) -> None:
    part: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))[stream]
    assert part["same_text"]
    assert not any(row["violations"] for row in part["rows"])


def test_the_result_file_has_tables_and_no_violations() -> None:
    result: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    assert set(result) <= set(PARTS)
    assert not any(part.get("violations") for part in result.values())


def test_live_text_is_as_good_as_offline_text() -> None:
    live: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))["live"]
    assert live["words"] > 500
    assert live["wer_live"] <= min(live["wer_offline"], live["wer_offline_vad"]) + 1.0


def test_the_memory_of_an_hour_does_not_grow_once_it_is_warm() -> None:
    """From the middle to the end by less than a fiftieth, which is some 14 kB for each segment."""
    tenths = json.loads(RESULT.read_text(encoding="utf-8"))["hour"]["memory_tenths_mib"]
    middle, end = median(tenths[4:7]), median(tenths[7:])
    assert end < 1.02 * middle


class State(tuple[int, ...]):
    """The oracle's history, with its length as our decoder's state has it."""

    @property
    def n_tokens(self) -> int:
        return len(self)


class CountingOracle(Oracle):
    def step(self, tokens: Any, state: Any, positions: Any, **named: Any) -> Any:
        output, history = super().step(tokens, state, positions, **named)
        return output, State(history)

    def rewind(self, state: Any, n_tokens: int) -> Any:
        return State(super().rewind(state, n_tokens))


def test_a_forced_decoder_says_what_it_is_told() -> None:
    prefix, text = (11, 12, 14, 19), (1, 5, 3, 3, 8)
    forced = ForcedDecoder(CountingOracle(3), [*text, TOY_TOKENS.eot], len(prefix))  # type: ignore[arg-type]
    for draft in ((), text, (1, 5, 9), (2,)):
        loop = DecodingLoop(forced, TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
        (decoded,) = loop.run(State(), [DecodingTask(prefix, draft=Draft(draft))])
        assert decoded.tokens == text
