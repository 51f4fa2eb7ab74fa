"""Waits that grow, stop-watches, keys, threads, memory that is free, what closes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core import available, extras, processor, timing
from whisper_hailo.core.available import available_bytes
from whisper_hailo.core.buffers import BufferText, BufferWord
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.keys import is_one_of
from whisper_hailo.core.protocols import Limits, Padding
from whisper_hailo.core.threads import checked_threads
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import (
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    SECONDS_PER_TIMESTAMP,
    Segment,
    Settings,
    Timings,
    Transcript,
)
from whisper_hailo.core.waits import GrowingWait


class Now:
    """A clock that is put forward."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def test_a_wait_doubles_up_to_half_a_minute_and_begins_anew() -> None:
    now = Now()
    wait = GrowingWait(now)
    assert wait.is_over
    for number, expected_s in enumerate([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0], start=1):
        wait.fail()
        assert wait.n_failures == number
        now.s += expected_s - 0.125
        assert not wait.is_over
        now.s += 0.125
        assert wait.is_over
    wait.fail()
    wait.succeed()
    assert wait.is_over
    assert wait.n_failures == 0
    wait.fail()
    now.s += 0.5
    assert wait.is_over


def test_what_fails_for_ever_is_waited_for_as_long_each_time() -> None:
    now = Now()
    wait = GrowingWait(now)
    wait.n_failures = 100_000  # 2 to the power of that is no number for a clock
    wait.fail()
    now.s += 29.875
    assert not wait.is_over
    now.s += 0.125
    assert wait.is_over


def test_times_of_stages_add_up_also_where_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Now()
    monkeypatch.setattr(timing, "perf_counter", now)
    clock = StageClock()
    for _ in range(2):
        with clock.stage("encode"):
            now.s += 0.25

    def fail() -> None:
        with clock.stage("mel"):
            now.s += 0.125
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    clock.note("decode", 3.0)
    clock.note("decode", 4.0)
    assert clock.timings() == Timings(mel_ms=125.0, encode_ms=500.0, decode_ms=7.0)
    other = StageClock()
    other.note("load", 1.0)
    other.add(clock, 0.5)
    other.add(clock)
    assert other.timings() == Timings(load_ms=1.0, mel_ms=187.5, encode_ms=750.0, decode_ms=10.5)
    assert StageClock().timings() == Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("given", "known"),
    [("one", True), ("two", True), ("three", False), ("on", False), ("", False), ("öne", False),
     ("\ud800", False)],
)  # fmt: skip
def test_a_key_is_known_wherever_it_stands_among_the_others(given: str, known: bool) -> None:
    assert is_one_of(given, ("one", "two")) is known
    assert is_one_of(given, ("two", "one")) is known
    assert not is_one_of(given, ())


@pytest.mark.parametrize("threads", [0, 1, 256])
def test_so_many_threads_may_be(threads: int) -> None:
    assert checked_threads(threads) == threads


@pytest.mark.parametrize("threads", [-1, 257, 1.5, "2"])
def test_so_many_threads_are_none(threads: Any) -> None:
    with pytest.raises(OptionError, match=r"threads is .*, expected 0 \(automatic\) to 256"):
        checked_threads(threads)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("MemTotal:  9 kB\nMemAvailable:    1234 kB\nMemFree: 7 kB\n", 1234 * 1024),
        ("NotMemAvailable: 5 kB\n", None),
        ("MemTotal:  9 kB\n", None),
        ("MemAvailable:\n", None),
        ("MemAvailable: 3", 3072),
        ("MemAvailable: much kB\n", None),
        ("Odd: \xff\nMemAvailable: 2 kB\n", 2048),
        ("", None),
        (None, None),
    ],
)
def test_memory_is_what_the_system_could_give(
    content: str | None, found: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "meminfo").write_text(content, encoding="latin-1")
    monkeypatch.setattr(available, "MEMINFO", tmp_path / "meminfo")
    assert available_bytes() == found


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 4, 9} if pid == 0 else {1})
    assert processor.available_cores() == 3


class Door(Closing):
    """Counts."""

    n_closed = 0

    def close(self) -> None:
        self.n_closed += 1


def test_a_block_closes_what_it_opened_however_it_ends() -> None:
    door = Door()
    with door as same:
        assert same is door
        assert door.n_closed == 0
    with pytest.raises(KeyError), door:
        raise KeyError
    assert door.n_closed == 2
    with pytest.raises(NotImplementedError):
        Closing().close()


def test_a_missing_module_is_told_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    extras.require("web", "--web", "os", "json")
    with pytest.raises(OptionError) as told:
        extras.require("web", "--web", "os", "no_such_module")
    expected = "--web needs no-such-module, which is not installed: "
    assert str(told.value) == expected + extras.to_add("web")


def test_words_of_a_buffer_are_joined() -> None:
    words = (BufferWord(" Good", (1, 2)), BufferWord(" day", (3,)), BufferWord("."))
    text = BufferText(words)
    assert (text.text, text.tokens) == ("Good day.", (1, 2, 3))
    assert (text.language, text.passes, text.n_accepted, text.near_ties) == ("en", 0, 0, 0)
    assert (text.runaway, text.guess, text.translation) == (False, (), None)
    assert text.timings == Timings()


def test_padding_adds_up_to_its_target_and_cuts_nothing() -> None:
    assert [Padding(1500).zero_rows(n) for n in (0, 500, 1499, 1500, 1501)] == [
        1500, 1000, 1, 0, 0,
    ]  # fmt: skip
    assert Padding(None).zero_rows(500) == 0
    assert Limits() == Limits(None, True, True)


def transcript(language: str, *texts: str) -> Transcript:
    parts = tuple(Segment(0.0, 1.0, one, (), 0.0, 0.0) for one in texts)
    settings = Settings("m", "e", "d", 30.0, 1.0, 1500, 1.0, 0.0, "none", 0)
    return Transcript("x", 1.0, language, "transcribe", parts, Timings(), settings)


def test_what_was_not_measured_of_a_segment_or_a_result_is_nothing() -> None:
    made = transcript("en", "a")
    assert (made.text, made.near_ties, made.language_probs) == ("a", 0, {})
    (one,) = made.segments
    assert (one.runaway, one.temperature, one.compression_ratio, one.words) == (False, 0, 0, ())
    assert (one.language, one.speaker, one.window_start_s) == ("", None, 0.0)
    assert made.timings == Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    settings = made.settings
    assert (settings.reasons, settings.windows, settings.search) == ((), "consecutive", "greedy")
    assert (settings.timestamps, settings.batch_size) == (False, 1)
    assert (settings.trim_window, settings.draft_model) == (False, "")


@pytest.mark.parametrize(
    ("language", "text"), [("en", "a b"), ("ja", "ab"), ("yue", "ab"), ("de", "a b")]
)
def test_segments_are_joined_as_their_language_is_written(language: str, text: str) -> None:
    assert transcript(language, "a", "", "b").text == text


def test_sound_frames_and_times_are_as_whisper_has_them() -> None:
    assert (SAMPLE_RATE_HZ, FRAMES_PER_SECOND, SECONDS_PER_TIMESTAMP) == (16_000, 100, 0.02)
    assert transcript("en").text == ""
