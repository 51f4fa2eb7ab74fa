"""What was decoded before is not decoded again, and the text is the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.sounds import DATA
from tests.unit.transcription.watched import Watched
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Transcript
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo.transcription.window_cache import Journal

PLAIN = DecodingOptions()
SEEKING = DecodingOptions(
    timestamps=True, prompts=PromptOptions(initial_prompt="Hello.", condition_on_previous_text=True)
)
BEGUN = DecodingOptions(prompts=PromptOptions(prefix="Well, then"))
PLANS = [
    (PLAIN, "overlap", 2),
    (PLAIN, "consecutive", 1),
    (BEGUN, "consecutive", 1),
    (SEEKING, "seek", 1),
]


@pytest.fixture(scope="module")
def long() -> FloatArray:
    """Four short sentences with two seconds between them."""
    pause = np.zeros(2 * SAMPLE_RATE_HZ, np.float32)
    clips = [
        load_audio(DATA / "micro" / "seen" / f"seen-{n}.ogg") for n in ("073", "051", "021", "143")
    ]
    return np.concatenate([part for clip in clips for part in (clip, pause)])


def watched(micro: Transcriber) -> tuple[Transcriber, Watched]:
    encoder = Watched(micro.encoder)
    return micro.with_parts(encoder=encoder, encode_ahead=False), encoder  # type: ignore[arg-type]


def text_of(transcript: Transcript) -> Transcript:
    return replace(transcript, timings=replace(transcript.timings, **dict.fromkeys(
        ("load_ms", "mel_ms", "encode_ms", "cross_kv_ms", "decode_ms", "total_ms"), 0.0
    )))  # fmt: skip


@dataclass(frozen=True)
class Straight:
    """One of `PLANS`, and what it gives where nothing interrupts it."""

    arguments: dict[str, Any]
    transcript: Transcript
    n_windows: int


@pytest.fixture(scope="module", params=PLANS, ids=lambda plan: plan[1])
def straight(
    request: pytest.FixtureRequest, micro_of_10_s: Transcriber, long: FloatArray
) -> Straight:
    options, strategy, batch_size = request.param
    cut = LongOptions(strategy=strategy)
    arguments = {"options": options, "long": cut, "batch_size": batch_size}
    whole, windows = watched(micro_of_10_s)
    return Straight(arguments, whole.transcribe(long, **arguments), len(windows.shapes))


@pytest.mark.parametrize("n_segments", [1, pytest.param(3, marks=pytest.mark.slow), 100])
def test_an_interrupted_run_goes_on_with_the_same_text(
    micro_of_10_s: Transcriber,
    long: FloatArray,
    tmp_path: Path,
    straight: Straight,
    n_segments: int,
) -> None:
    """Whatever a plan of windows and a recording know of what was before."""
    path = tmp_path / "not" / "there" / "j.jsonl"  # folders are made
    with Journal(path, "a", go_on=True) as journal:
        begun = micro_of_10_s.segments(long, **straight.arguments, memory=journal)
        n_given = len(list(islice(begun, n_segments)))
        begun.close()
    again, encoder = watched(micro_of_10_s)
    with Journal(path, "a", go_on=True) as journal:
        assert (journal.known_s > 0) is (n_given > 0)
        rest = again.segments(long, **straight.arguments, memory=journal)
        assert len(list(rest)) == len(straight.transcript.segments)
    assert text_of(rest.transcript) == text_of(straight.transcript)
    assert len(encoder.shapes) < straight.n_windows, "something was known"
    if n_segments > len(straight.transcript.segments):
        assert not encoder.shapes


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_a_torn_line_and_what_is_behind_it_are_left_out(
    micro_of_10_s: Transcriber, long: FloatArray, tmp_path: Path
) -> None:
    path = tmp_path / "j.jsonl"
    arguments: dict[str, Any] = {"long": LongOptions(skip_silence=False), "batch_size": 1}
    straight = micro_of_10_s.transcribe(long, PLAIN, **arguments)
    with Journal(path, "a", go_on=True) as journal:
        list(micro_of_10_s.segments(long, PLAIN, **arguments, memory=journal))
    header, first, second, *others = lines(path)
    assert others
    for torn in (second[:-9], second[:-1], b"{}\n" + second):
        left = header + first + torn
        path.write_bytes(left)
        with Journal(path, "a", go_on=True) as journal:
            again, encoder = watched(micro_of_10_s)
            found = again.segments(long, PLAIN, **arguments, memory=journal)
            assert [s.text for s in found] == [s.text for s in straight.segments]
        assert len(encoder.shapes) == len(others) + 1
        assert lines(path)[:2] == [header, first]
        assert [json.loads(line) for line in lines(path)]


@pytest.mark.parametrize(("settings", "go_on"), [("other", True), ("a", False)])
def test_what_another_run_left_is_of_no_use(
    micro_of_10_s: Transcriber, long: FloatArray, tmp_path: Path, settings: str, go_on: bool
) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path, "a", go_on=True) as journal:
        list(micro_of_10_s.segments(long, PLAIN, memory=journal))
    with Journal(path, settings, go_on=go_on) as journal:
        assert journal.known_s == 0
        assert not journal.kept
        list(micro_of_10_s.segments(long, PLAIN, memory=journal))
    assert json.loads(lines(path)[0])["unfinished"] == settings


def test_what_is_done_leaves_nothing(
    tmp_path: Path, micro_of_10_s: Transcriber, long: FloatArray
) -> None:
    path = tmp_path / "folder" / "j.jsonl"
    with Journal(path, "a", go_on=True) as journal:
        assert not path.exists()
        next(micro_of_10_s.segments(long, PLAIN, memory=journal))
        assert path.exists()
        journal.remove()
    assert not path.exists()


def test_runs_are_told_apart_by_all_that_shapes_their_text(micro_of_10_s: Transcriber) -> None:
    own = micro_of_10_s.identity(PLAIN)
    assert own == micro_of_10_s.identity(DecodingOptions(), LongOptions())
    others = {
        micro_of_10_s.identity(DecodingOptions(language="de")),
        micro_of_10_s.identity(PLAIN, LongOptions(overlap_s=3)),
        micro_of_10_s.identity(PLAIN, batch_size=1),
    }
    assert own not in others
    assert len(others) == 3
