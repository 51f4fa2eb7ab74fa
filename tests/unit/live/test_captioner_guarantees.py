"""The guarantees of `live.events`, over random streams and engines, and words at cuts."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.captioned_audio import completed, run, texts
from tests.fakes.scripted_speech import Fickle, Loudness, Speller, silence, speech
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Back, Event, Lost, Partial
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.sources.source import Interruption
from whisper_hailo_lab.captions.event_checks import find_violations

# Speech or silence, samples.
streams = st.lists(st.tuples(st.booleans(), st.integers(0, 40_000)), max_size=8)
sizes = st.lists(st.integers(300, 30_000), min_size=1, max_size=4)
options = st.builds(
    CaptionOptions,
    min_silence_s=st.sampled_from([0.032, 0.1, 0.5]),
    min_speech_s=st.sampled_from([0.0, 0.1]),
    pre_roll_s=st.sampled_from([0.0, 0.1, 0.4]),
    min_partial_s=st.sampled_from([0.0, 0.01, 0.2]),
    max_segment_s=st.sampled_from([None, 1.0, 2.5]),
    settle_s=st.sampled_from([0.0, 0.4, 1.0]),
    drafts=st.booleans(),
)


@settings(max_examples=25, deadline=None)
@given(streams, sizes, options, st.integers(0, 999), st.booleans())
def test_captioner_random_streams_keep_guarantees(
    stream: list[tuple[bool, int]],
    sizes: list[int],
    options: CaptionOptions,
    seed: int,
    ids: bool,
) -> None:
    parts = [np.full(n, 0.1 * on, np.float32) for on, n in stream]
    audio = np.concatenate([np.zeros(0, np.float32), *parts])
    events, captioner = run(audio, Fickle(seed, tokens=ids), options, sizes)
    assert list(find_violations(events)) == []
    figures = captioner.statistics
    assert figures.n_full == len(completed(events))
    lasted_s = sum(event.end_s - event.start_s for event in completed(events))
    assert figures.n_segment_samples == round(lasted_s * SAMPLE_RATE_HZ)
    assert figures.words_in.total() == sum(
        len(event.words) for event in completed(events)
    )
    assert figures.n_partials == sum(isinstance(event, Partial) for event in events)


@settings(max_examples=25, deadline=None)
@given(streams, sizes, options)
def test_captioner_transcribes_all_speech_once(
    stream: list[tuple[bool, int]], sizes: list[int], options: CaptionOptions
) -> None:
    parts = [np.full(n, 0.1 * on, np.float32) for on, n in stream]
    audio = np.concatenate([np.zeros(0, np.float32), *parts])
    events, _ = run(audio, Fickle(1), options, sizes)
    n_transcribed = np.zeros(audio.size + 512, np.int64)
    for event in completed(events):
        begin, end = (round(s * SAMPLE_RATE_HZ) for s in (event.start_s, event.end_s))
        n_transcribed[begin:end] += 1
    assert n_transcribed.max(initial=0) <= 1
    least = max(1, round(options.min_speech_s * SAMPLE_RATE_HZ / 512)) * 512 + 1024
    at = 0
    for on, n in stream:
        if on and n >= least:  # shorter ones may be clicks
            assert n_transcribed[at : at + n].all()
        at += n


gapped_streams = st.lists(
    st.tuples(st.booleans(), st.integers(0, 40_000), st.integers(1, 99_999)), max_size=8
)
"""Whether a piece is loud, its samples, and those missing beside it."""


@settings(max_examples=25, deadline=None)
@given(
    gapped_streams,
    options,
    st.integers(0, 999),
)
def test_captioner_absences_keep_guarantees(
    stream: list[tuple[bool, int, int]], options: CaptionOptions, seed: int
) -> None:
    captioner = Captioner(Fickle(seed), Loudness(), options)
    events: list[Event] = []
    for index, (on, n_heard, n_away) in enumerate(stream):
        if index:
            events += captioner.resume(Interruption("", n_away))
        events += captioner.feed(np.full(n_heard, 0.1 * on, np.float32))
        events += captioner.suspend(Interruption("unplugged"))
    assert list(find_violations(events)) == []
    absences = [event for event in events if isinstance(event, Back)]
    away = round(
        sum(event.end_s - event.start_s for event in absences) * SAMPLE_RATE_HZ
    )
    assert away == captioner.statistics.n_away_samples
    assert captioner.statistics.n_away == len(stream)
    assert list(captioner.finish()) == []  # no event while the source is away


@settings(max_examples=25, deadline=None)
@given(
    gapped_streams,
    options,
    st.integers(0, 999),
)
def test_captioner_lost_audio_keeps_guarantees(
    stream: list[tuple[bool, int, int]], options: CaptionOptions, seed: int
) -> None:
    captioner = Captioner(Fickle(seed), Loudness(), options)
    events: list[Event] = []
    n_samples = 0
    for on, n_heard, n_lost in stream:
        events += captioner.feed(np.full(n_heard, 0.1 * on, np.float32))
        events += captioner.skip_lost(n_lost)
        n_samples += n_heard + n_lost
    assert list(find_violations(events)) == []
    losses = [event for event in events if isinstance(event, Lost)]
    assert len(losses) == len(stream)
    lost = round(sum(event.end_s - event.start_s for event in losses) * SAMPLE_RATE_HZ)
    assert lost == captioner.statistics.n_lost_samples
    assert lost + captioner.statistics.n_stream_samples == n_samples
    if losses:
        assert losses[-1].end_s == n_samples / SAMPLE_RATE_HZ
    assert list(captioner.finish()) == []  # a loss completes the segment


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from([0.2, 0.7, 2.0])), max_size=4
    ),
    sizes,
    st.booleans(),
    st.booleans(),
    st.sampled_from([1.5, 3.0, 9.0]),
    st.sampled_from([0.0, 0.2]),
)
def test_captioner_cut_segments_keep_every_word_once(  # noqa: PLR0917
    sentences: list[tuple[int, float]],
    sizes: list[int],
    timed: bool,
    ids: bool,
    longest_s: float,
    min_partial_s: float,
) -> None:
    numbers = itertools.count()
    parts = [silence(0.3)]
    expected = []
    for n_words, pause_s in sentences:
        indices = list(itertools.islice(numbers, n_words))
        expected += [f"w{index}" for index in indices]
        parts += [speech(indices), silence(pause_s)]
    options = CaptionOptions(max_segment_s=longest_s, min_partial_s=min_partial_s)
    events, _ = run(
        np.concatenate(parts), Speller(timed=timed, tokens=ids), options, sizes
    )
    assert list(find_violations(events)) == []
    assert texts(events).split() == expected
