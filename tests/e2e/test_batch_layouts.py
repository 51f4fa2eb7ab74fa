"""Recordings that are decoded together have the segments that each has alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import FloatArray, Segment, Transcript
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions, SearchOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo_lab.clip_archives import unpack_clips

SHORTEST_S = 0.01
LONGEST_S = 6.0

OPTIONS = {
    "greedy": DecodingOptions(),
    "beam": DecodingOptions(search=SearchOptions(beam_size=3)),
    "sampled": DecodingOptions(
        search=SearchOptions(temperatures=(0.7,), best_of=2, seed=3)
    ),
    "timed": DecodingOptions(timestamps=True),
    "prompted": DecodingOptions(
        prompts=PromptOptions(initial_prompt="Vienna", hotwords="peninsula")
    ),
    "conditioned": DecodingOptions(
        prompts=PromptOptions(condition_on_previous_text=True)
    ),
}


@pytest.fixture(scope="module")
def micro() -> Iterator[Transcriber]:
    with Transcriber.from_model(
        "micro", quantize="none", window_s=3, threads=1
    ) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def speech() -> FloatArray:
    clips = sorted((unpack_clips() / "seen").glob("*.ogg"))[:3]
    return np.concatenate([load_audio(clip) for clip in clips])


@st.composite
def cuts(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Draw where recordings begin in the speech, as a share of it, and their length."""
    begin = st.floats(0, 0.6)
    length_s = st.floats(SHORTEST_S, LONGEST_S)
    return draw(st.lists(st.tuples(begin, length_s), min_size=2, max_size=4))


def exact_segments(transcript: Transcript) -> list[Segment]:
    """Return segments without the fields that another order of sums rounds differently."""
    return [
        replace(s, avg_logprob=0.0, no_speech_prob=0.0) for s in transcript.segments
    ]


@pytest.mark.parametrize("name", OPTIONS)
@given(cuts(), st.integers(2, 5), st.sampled_from(["auto", "consecutive"]))
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_transcribe_many_segments_equal_single_runs(  # noqa: PLR0917
    micro: Transcriber,
    speech: FloatArray,
    name: str,
    layout: list[tuple[float, float]],
    batch_size: int,
    strategy: str,
) -> None:
    options = replace(OPTIONS[name], max_new_tokens=12)
    long = LongOptions(strategy=strategy)
    recordings = []
    for begin, length_s in layout:
        at = int(begin * speech.size)
        recordings.append(speech[at : at + int(length_s * 16_000)])
    batched_transcripts = micro.transcribe_many(
        recordings, options, long=long, batch_size=batch_size
    )
    for recording, batched in zip(recordings, batched_transcripts, strict=True):
        assert isinstance(batched, Transcript)
        alone = micro.transcribe(recording, options, long=long)
        assert exact_segments(batched) == exact_segments(alone)
