"""Streams from start to end: losses, guarantees over random ones, and languages."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.scripted_speech import (
    Fickle,
    Loudness,
    Speller,
    completed,
    quick,
    run,
    silence,
    speech,
    spoken,
    texts,
)
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Away, Back, Completed, Event, Lost, Partial
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.sources.source import Interruption
from whisper_hailo.transcription.partials import PartialBuffer
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


def test_captioner_segment_after_loss_has_no_pre_roll() -> None:
    captioner = Captioner(Speller(), Loudness(), quick())
    events = list(captioner.feed(np.concatenate([silence(0.5), speech(range(8))])))
    events += captioner.skip_lost(80_000)
    events += captioner.feed(np.concatenate([speech(range(8, 12)), silence(0.5)]))
    assert list(find_violations(events)) == []
    kinds = [type(event).__name__ for event in events]
    assert kinds[: kinds.index("Lost") + 2][-3:] == ["Completed", "Lost", "Started"]
    first, second = completed(events)
    assert first.reason == "loss"
    assert second.reason == "silence"
    assert second.text == "w8 w9 w10 w11"
    begin_s = 0.5 + speech(range(8)).size / SAMPLE_RATE_HZ + 5.0
    assert second.start_s == pytest.approx(begin_s, abs=1e-6)
    assert captioner.statistics.as_json()["lost_s"] == pytest.approx(5.0, abs=0.032)


def test_captioner_absence_ends_segment_and_takes_time() -> None:
    captioner = Captioner(Speller(), Loudness(), quick())
    events = list(captioner.feed(np.concatenate([silence(0.5), speech(range(8))])))
    events += captioner.suspend(Interruption("the microphone was unplugged"))
    events += captioner.resume(Interruption("", 80_000))
    events += captioner.feed(np.concatenate([speech(range(8, 12)), silence(0.5)]))
    assert list(find_violations(events)) == []
    kinds = [type(event).__name__ for event in events]
    at = kinds.index("Away")
    assert kinds[at - 1 : at + 3] == ["Completed", "Away", "Back", "Started"]
    away, back = events[at : at + 2]
    assert isinstance(away, Away)
    assert isinstance(back, Back)
    assert away.why == "the microphone was unplugged"
    first, second = completed(events)
    assert first.reason == "away"
    assert second.reason == "silence"
    assert first.end_s == away.start_s == back.start_s
    assert back.end_s - back.start_s == pytest.approx(5.0, abs=0.032)
    begin_s = 0.5 + speech(range(8)).size / SAMPLE_RATE_HZ + 5.0
    assert second.start_s == pytest.approx(begin_s, abs=1e-6)
    figures = captioner.statistics.as_json()
    assert figures["absences"] == 1
    assert figures["lost_s"] == 0.0
    assert figures["away_s"] == pytest.approx(5.0, abs=0.032)


def test_captioner_clicks_start_no_segment() -> None:
    audio = np.concatenate(
        [silence(0.2), spoken(3, 0.03), silence(0.5), spoken(4, 0.02)]
    )
    events, _ = run(audio, Speller())
    assert events == []


def test_captioner_segment_longer_than_window_raises() -> None:
    with pytest.raises(OptionError, match=r"max-segment .*12 s.* 9 s"):
        Captioner(Speller(), Loudness(), quick(max_segment_s=12))


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


@dataclass
class GuessingSpeller(Speller):
    """Takes less than a second and a half of any speech for English."""

    language: str = "auto"
    calls: list[tuple[float, str | None]] = field(default_factory=list)
    previous_languages: list[str | None] = field(default_factory=list)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        seconds = buffer.audio.size / SAMPLE_RATE_HZ
        self.calls.append((seconds, language))
        self.previous_languages.append(buffer.previous_language)
        return super().transcribe(buffer, language or ("en" if seconds < 1.5 else "de"))


def run_captioner(audio: FloatArray, recognizer: Speller) -> list[Event]:
    captioner = Captioner(recognizer, Loudness(), quick())
    events: list[Event] = []
    for at in range(0, audio.size, 3200):
        events += captioner.feed(audio[at : at + 3200])
    return [*events, *captioner.finish()]


LONG = speech(range(14))


SHORT = speech([20, 21])


PAUSE = silence(0.5)


def test_captioner_detects_language_in_2_s_and_at_the_end() -> None:
    recognizer = GuessingSpeller()
    events = run_captioner(np.concatenate([LONG, PAUSE]), recognizer)
    assert list(find_violations(events)) == []
    (final,) = [event for event in events if isinstance(event, Completed)]
    assert final.language == "de"
    assert recognizer.calls[-1][1] is None, "detection sees the whole segment"
    assert all(
        language is None for seconds, language in recognizer.calls if seconds < 2.0
    )
    later = [language for seconds, language in recognizer.calls[:-1] if seconds > 2.5]
    assert later
    assert set(later) == {"de"}


def test_captioner_commits_no_word_before_its_language() -> None:
    audio = np.concatenate([LONG, PAUSE])
    for recognizer, first_s in ((GuessingSpeller(), 2.0), (Speller(), 1.0)):
        partials = [
            event
            for event in run_captioner(audio, recognizer)
            if isinstance(event, Partial)
        ]
        settled = [event.end_s - event.start_s for event in partials if event.committed]
        assert first_s <= settled[0] < first_s + 0.9


def test_captioner_short_segment_takes_previous_language() -> None:
    recognizer = GuessingSpeller()
    events = run_captioner(
        np.concatenate([SHORT, PAUSE, LONG, PAUSE, SHORT, PAUSE]), recognizer
    )
    finals = [event for event in events if isinstance(event, Completed)]
    assert [event.language for event in finals] == ["en", "de", "de"]
    partials = [
        event
        for event in events
        if isinstance(event, Partial) and event.segment_id == 2
    ]
    assert {event.language for event in partials} == {"de"}
    assert recognizer.previous_languages[0] is None
    assert recognizer.previous_languages[-1] == "de"


@dataclass
class Polyglot(Speller):
    """Transcribes in any given language, and translates whole segments."""

    def with_language(self, language: str) -> Polyglot:
        if language == "xx":
            raise OptionError("unknown language xx")
        return replace(self, language=language)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        result = super().transcribe(buffer, self.language)
        return replace(result, translation=f"{result.language}: {len(result.words)}")


def test_captioner_cut_segment_keeps_its_language() -> None:
    """Another language is set within the segment."""
    captioner = Captioner(Polyglot(language="de"), Loudness(), quick(max_segment_s=1.5))
    events = list(captioner.feed(speech(range(4))))
    captioner.set_language("en")
    events += captioner.feed(np.concatenate([speech(range(4, 7)), PAUSE, SHORT, PAUSE]))
    finals = [event for event in events if isinstance(event, Completed)]
    assert [event.reason for event in finals] == ["length", "silence", "silence"]
    assert [event.language for event in finals] == ["de", "de", "en"]
    assert sum(len(event.words) for event in finals[:2]) == 7
    assert finals[-1].translation == "en: 2"


def test_captioner_unknown_language_raises_unchanged() -> None:
    captioner = Captioner(Polyglot(language="de"), Loudness(), quick())
    with pytest.raises(OptionError):
        captioner.set_language("xx")
    assert captioner.settings == {"language": "de"}


def test_captioner_final_words_have_stream_times() -> None:
    events = run_captioner(np.concatenate([silence(1.0), LONG, PAUSE]), Speller())
    (final,) = [event for event in events if isinstance(event, Completed)]
    (*_, partial) = [event for event in events if isinstance(event, Partial)]
    assert partial.committed
    assert len(final.words) == 14
    for index, word in enumerate(final.words):
        begin_s = 1.0 + index * 0.28
        assert word.start_s is not None
        assert word.end_s is not None
        np.testing.assert_allclose(
            [word.start_s, word.end_s], [begin_s, begin_s + 0.25], atol=1e-3
        )


def test_captioner_words_of_untimed_recognizer_are_untimed() -> None:
    events = run_captioner(np.concatenate([LONG, PAUSE]), Speller(timed=False))
    (final,) = [event for event in events if isinstance(event, Completed)]
    assert {(word.start_s, word.end_s) for word in final.words} == {(None, None)}
