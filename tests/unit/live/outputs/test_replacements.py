"""Replacements of words and phrases, which never change committed text."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.scripted_speech import Fickle, Loudness
from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial, Started
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.outputs.replacements import Replacements
from whisper_hailo_lab.captions.event_checks import find_violations

HAILO = Replacements({("high", "low"): "Hailo", ("whisper",): "Whisper"})


def words(text: str) -> tuple[CaptionWord, ...]:
    return tuple(
        CaptionWord(f" {word}", 0.5, at, at + 1.0)
        for at, word in enumerate(text.split())
    )


def complete(text: str) -> Completed:
    return Completed(
        segment_id=0,
        start_s=0.0,
        end_s=9.0,
        words=words(text),
        reason="silence",
        heard_s=9.0,
        at_s=1.0,
    )


def partial(committed: str, tentative: str) -> Partial:
    return Partial(
        segment_id=0,
        start_s=0.0,
        end_s=9.0,
        committed=words(committed),
        tentative=words(tentative),
        heard_s=9.0,
        at_s=1.0,
    )


def test_replacements_apply_to_translations() -> None:
    shown = HAILO.apply(
        replace(complete("Es ist leise"), translation="It is whisper, on high low!")
    )
    assert isinstance(shown, Completed)
    assert shown.text == "Es ist leise"
    assert shown.translation == "It is Whisper, on Hailo!"


def test_replacements_keep_marks_and_times() -> None:
    shown = HAILO.apply(complete("It is whisper, on High low!"))
    assert isinstance(shown, Completed)
    assert shown.text == "It is Whisper, on Hailo!"
    assert shown.words[-1] == CaptionWord(" Hailo!", 0.5, 4, 6.0)
    start = Started(segment_id=0, start_s=0.0, heard_s=0.0, at_s=0.0)
    assert HAILO.apply(start) is start


def test_replacements_prefer_the_longest_phrase() -> None:
    several = Replacements(
        {("high",): "tall", ("high", "low"): "Hailo", ("low",): "deep"}
    )
    shown = several.apply(complete("low high low high five"))
    assert isinstance(shown, Completed)
    assert shown.text == "deep Hailo tall five"


@pytest.mark.parametrize("heard", ["Straße", "STRASSE", "straße."])
def test_replacements_ignore_case_and_sharp_s(heard: str) -> None:
    shown = Replacements({("strasse",): "road"}).apply(complete(heard))
    assert isinstance(shown, Completed)
    full_stop = "." if heard.endswith(".") else ""
    assert shown.text == f"road{full_stop}"


@pytest.mark.parametrize(
    ("heard", "probability"),
    [((0.9, 0.4), 0.4), ((0.4, 0.9), 0.4), ((None, 0.7), 0.7), ((None, None), None)],
)
def test_replacements_take_the_least_probability(
    heard: tuple[float | None, float | None], probability: float | None
) -> None:
    high, low = words("high low")
    pair = (replace(high, probability=heard[0]), replace(low, probability=heard[1]))
    shown = HAILO.apply(replace(complete(""), words=pair))
    assert isinstance(shown, Completed)
    assert [word.probability for word in shown.words] == [probability]


@pytest.mark.parametrize(
    ("committed", "tentative", "committed_text", "tentative_text"),
    [
        ("on high", "low today", "on", "Hailo today"),
        ("on high", "five", "on", "high five"),
        ("on high low", "today", "on Hailo", "today"),
        ("on high five", "", "on high five", ""),
        ("whisper", "", "Whisper", ""),
    ],
)
def test_replacements_hold_back_beginning_of_a_phrase(
    committed: str, tentative: str, committed_text: str, tentative_text: str
) -> None:
    shown = HAILO.apply(partial(committed, tentative))
    assert isinstance(shown, Partial)
    assert shown.committed_text == committed_text
    assert "".join(word.text for word in shown.tentative).strip() == tentative_text


phrases = st.dictionaries(
    st.lists(st.sampled_from(["w0", "w1", "w2"]), min_size=1, max_size=3).map(tuple),
    st.sampled_from(["A", "B C", ""]),
    max_size=4,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(2_000, 40_000), max_size=5), st.integers(0, 999), phrases)
def test_replacements_of_random_streams_keep_guarantees(
    parts: list[int], seed: int, phrases: dict[tuple[str, ...], str]
) -> None:
    captioner = Captioner(Fickle(seed), Loudness(), CaptionOptions(settle_s=0.2))
    events: list[Event] = []
    for n_samples in parts:
        for _ in range(0, n_samples, 3_200):
            events += captioner.feed(np.full(3_200, 0.1, np.float32))
        events += captioner.feed(np.zeros(8_000, np.float32))
    events += captioner.finish()
    assert list(find_violations(map(Replacements(phrases).apply, events))) == []


def test_replacements_read_parses_lines_and_comments(tmp_path: Path) -> None:
    (tmp_path / "words").write_text(
        "# names\nhigh low => Hailo\n\nWhisper=>whisper # small\n(Straße) => a => b\n"
    )
    assert Replacements.read(tmp_path / "words").phrases == {
        ("high", "low"): "Hailo",
        ("whisper",): "whisper",
        ("strasse",): "a => b",
    }


@pytest.mark.parametrize("line", ["no arrow", "=> nothing before"])
def test_replacements_read_line_without_phrase_raises(
    tmp_path: Path, line: str
) -> None:
    (tmp_path / "words").write_text(f"# names\n\na => b\n{line}\n")
    with pytest.raises(OptionError, match=r"words, line 4 .*=>"):
        Replacements.read(tmp_path / "words")


def test_replacements_read_unreadable_file_raises(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=f"--replace .*{os.strerror(errno.ENOENT)}"):
        Replacements.read(tmp_path / "words")
    (tmp_path / "words").write_bytes(b"caf\xe9 => coffee\n")
    with pytest.raises(OptionError, match=r"--replace .*0xe9"):
        Replacements.read(tmp_path / "words")
